"""What becomes of a job that says what it needs: where is it tried, what follows faults, which result counts?

A job is tried by *attempts*. Each is one lease on certain nodes, or on machines that were built for it. Which
attempts there are, and whose result is the job's, is decided here and nowhere else. The way in is
`leasehold.jobs.desk.JobDesk`; like the gateway it does no input or output and reads no clock.
"""
