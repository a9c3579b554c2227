"""How the broker scores a virtual domain: one small function in a file for each policy.

A policy is shown an `Offer` and a stream of random numbers, and answers with a whole number: the higher, the
better. Equal scores are ordered by the name of the domain.
"""
