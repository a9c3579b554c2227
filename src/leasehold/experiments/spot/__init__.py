"""Owners and spot jobs on one GPU cluster: evictions under published rules and our own."""
