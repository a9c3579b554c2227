"""How fast, how large: Leasehold beside the script that a user would write by hand."""
