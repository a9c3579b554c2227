"""The pages for browsers: what this gateway is, and what went wrong."""
