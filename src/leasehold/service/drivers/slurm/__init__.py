"""Outside leases as batch jobs of a Slurm cluster, whose own users change nothing.

From the inside out: `job` and `node` are what Slurm says of them, whichever version says it; `commands` runs its
commands; `users` and `job_directory` keep guests from the gateway and from each other; `snapshot` is the queue at one
look; `status` says what a job means for its lease, and which step is next; `reconciler` follows orders and takes the
steps, on the kit that all drivers share; `driver` is the face of it. `native_queue` turns the jobs of the site's own
users into what a planner understands, and `discovery` says what the nodes can do.
"""
