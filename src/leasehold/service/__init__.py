"""The live federation: the decision core over a durable store, machines and an API.

The simulator's counterpart. It owns a real clock, writes everything that was decided into the store before
answering, and carries out the effects on machines.
"""
