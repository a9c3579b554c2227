"""What bodies look like, in and out; their descriptions are the documentation in the OpenAPI."""
