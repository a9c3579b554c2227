"""Outside leases as batch jobs of a Slurm cluster, whose own users change nothing.

What was ordered is kept on file as what is *wanted* for the job of each lease; what there is, ``squeue``
says; and whatever parts the two is done, look after look. So nothing depends on who was alive when.

From the inside out: `job` is what Slurm says of one job, and `replies` reads it, whichever version wrote it;
`commands` is the line to a cluster; `holding` is what a lease has here, and `meaning` compares it with its
job; `floorplan` knows which CPUs are taken; `ledger` keeps the holdings, and `tag` and `papers` let a job be
known by what it carries and leaves behind; `steward` looks and acts, `intake` judges orders, and `driver` is
the face of them. `native_queue` turns the jobs of the site's own users into what a planner understands, and
`finding` says what the nodes can do: from what Slurm knows (`node_reply`, `node`, `features`), from modules,
and from small jobs that look at them (`probes`).
"""
