"""The nouns: request, lease and its states, reasons, decisions, events and effects.

Nothing here does input or output, and nothing here decides.
"""
