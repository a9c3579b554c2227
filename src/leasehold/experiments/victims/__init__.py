"""Who gives way, measured: rules of others on the same instants, and guarantees in whole runs."""
