"""The decision core with a memory: commands in, one transaction, answers out."""
