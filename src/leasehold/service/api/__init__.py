"""The HTTP interface of a live federation.

A request passes the `middleware` and the `authorizer` of its route (authentication and permissions). Its body is
then read as one of the models of `leasehold.protocol`; its router calls the federation and returns the result.
"""
