"""Jobs that state their requirements: where each is tried, what follows faults, and which result counts.

A job is tried by *attempts*. Each is one lease on certain nodes, or on machines that were built for it. Which attempts
there are, and whose result is the job's, is decided here and nowhere else. The way in is
`leasehold.jobs.scheduler.JobScheduler`; like the gateway it does no input or output and reads no clock.
"""
