"""The simulated world: its clock, its workloads, and the run folder that it leaves behind."""
