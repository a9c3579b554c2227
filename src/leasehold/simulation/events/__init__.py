"""What happens in a simulated world besides its jobs: nodes fail, owners drain sites, users cancel, agreements change.

Each module is an `EventSource` of the world, or several; `opening` makes those that a scenario asks for.
"""
