"""What outlives the process: leases, the journal, orders, tokens, letters; on SQLite or PostgreSQL."""
