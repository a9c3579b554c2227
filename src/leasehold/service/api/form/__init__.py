"""The submission form: one page that asks the API as every other client does."""
