"""Outside leases as batch jobs of a Slurm cluster, whose own users change nothing.

What was ordered is kept on file as what is *wanted* for the job of each lease; what there is, ``squeue``
says; and whatever parts the two is done, look after look. So nothing depends on who was alive when.

From the inside out: `job` and `node` are what Slurm says of them, whichever version says it; `commands` runs its
commands; `users` and `job_directory` keep guests from the gateway and from each other; `holding` is what a lease has
here, and `meaning` compares it with its job; `snapshot` is the queue at one look; `ledger` keeps the holdings;
`steward` looks and acts, `intake` judges orders, and `driver` is the face of them. `native_queue` turns the jobs of
the site's own users into what a planner understands, and `discovery` says what the nodes can do.
"""
