"""Outside leases as batch jobs of a Slurm cluster, whose own users change nothing.

From the inside out: `cluster` is what Slurm says of jobs and nodes, whichever version says it, and `commands` runs its
commands; `users` and `job_directory` keep guests from the gateway and from each other; `instance` is the job of one
lease, what its state means, and which step is next; `queue` is all jobs at one look, ours and native ones;
`reconciler` follows orders and takes the steps, on the kit that all drivers share; `driver` is the face of it.
`discovery` says what the nodes can do, with `probes` that look at them.
"""
