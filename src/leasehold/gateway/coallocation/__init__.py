"""Co-allocation: the components of a co-allocation run together, at one or several sites, or not at all.

================== ==============================================================================
``coallocations.py``      what happens to a co-allocation; the desk for them, beside that for requests
``incremental.py`` claiming machines one component after another, shortly before the start
``reserving.py``   promising all of them their room at once, ahead
``planner.py``     where components could go, and ``assigning.py`` which of them where
``rooms.py``       one site as the components are planned on it
``placement/``     which site a component likes best: a small function for each policy
``crew.py``        the components' leases; ``alarms.py``: when to look at them again
``claims.py``      taking room at sites and giving it back: nothing else here touches a site
================== ==============================================================================

Only sites of the gateway's own take part: promises of somebody who decides for themselves come too late to be
taken back together.
"""
