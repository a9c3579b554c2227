"""Where should a request run? The queueing model, allocation, dispatch and the routing policies.

Start with `leasehold.routing.policy`: everything that a user's own policy needs is there.
"""
