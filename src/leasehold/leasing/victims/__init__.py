"""Which guests give way when a local request needs their room?

A *candidate set* is a set of running, preemptable leases that frees enough VMs and would not without any
one of its leases: inclusion-minimal, since nothing is gained by preempting one more. A policy picks one
candidate set; each policy is a file of its own, `registry` finds it by name, and `from_function` makes a
policy of a plain function. `guard` puts the order of the lease types before any of them, and what a
site guarantees its guests; `front` finds the sets that no other one beats, whatever a policy weighs.
"""
