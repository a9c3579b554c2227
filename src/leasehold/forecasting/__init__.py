"""What may come of how things stand: snapshots of a gateway, futures simulated from them, and what is said of those.

The same decision code decides in a future. `leasehold.service` and `leasehold.simulation` both stand on this package.
"""
