"""What outlives the process: leases, the journal, orders, tokens, messages; on SQLite or PostgreSQL."""
