"""How likely does a job end well, and what does it cost to be surer? Copies run along or stand by."""
