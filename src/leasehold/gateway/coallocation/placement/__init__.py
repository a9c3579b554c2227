"""Which site does a component like best? One small function in a file for each policy."""
