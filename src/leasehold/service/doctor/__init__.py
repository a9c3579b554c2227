"""What is installed, what can this machine do, and what keeps a gateway from working well?

One small check is one function in a registry: it looks, changes nothing, and says what it found and the
cure.
"""
