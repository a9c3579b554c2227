"""The pages for people who come with a browser: what this gateway is, and what went wrong."""
