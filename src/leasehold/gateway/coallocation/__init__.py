"""Co-allocation: the components of a co-allocation run together, at one or several sites, or not at all.

======================== ==========================================================================
``co_allocator.py``      what happens to a co-allocation, from its submission to its end
``incremental.py``       claiming machines one component after another, shortly before the start
``reservation.py``       promising all of them their room at once, ahead
``participant.py``       components that another gateway has here: promised until it commits them
``planner.py``           where components could go, and which of them where
``component_leases.py``  the components' leases, and the room that they are given at sites
``placement/``           which site a component ranks first: a small function for each policy
======================== ==========================================================================

Sites of the gateway's own promise in the instant in which they are asked. Sites that decide for themselves take part by
a two-phase commit (``docs/explanation/durability.md``); peers do not.
"""
