"""Routing of our own beside the published policies: what it reaches, where, and at what price."""
