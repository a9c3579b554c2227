"""Which job goes to which nodes? Bipartite matching, greedy or of the least cost."""
