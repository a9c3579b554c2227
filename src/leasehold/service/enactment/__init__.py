"""Between the engine and the machines of one site: orders out, observations in."""
