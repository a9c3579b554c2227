"""One file for each step, numbered in their order."""
