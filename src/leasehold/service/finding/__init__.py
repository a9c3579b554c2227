"""What is found out for jobs and done for them outside the engine: nodes, images, what commands wrote."""
