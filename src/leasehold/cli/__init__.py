"""The command line: what a person sees. It holds no rule; it asks the other parts and shows what they say.

Nothing heavy is imported before a command needs it, so that ``--help`` and completion are instant.
"""
