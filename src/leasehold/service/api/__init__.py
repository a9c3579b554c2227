"""The HTTP interface of a live federation.

A request comes through the `middleware` and the `authorizer` of its route (who asks, and what may they?), then its body
is read as one of the models of `leasehold.protocol`; its router asks the federation, and shows what came of it.
"""
