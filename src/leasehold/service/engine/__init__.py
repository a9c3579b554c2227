"""The decision core with durable state: commands in, one transaction, answers out."""
