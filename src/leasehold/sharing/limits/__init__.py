"""The kinds of limit, each in a file of its own: has a consumer used what it may?

Each is asked before a request is admitted, about what was used so far: average use has to be *below* the
limit (Dumitrescu et al. 2007, section 4.1).
"""
