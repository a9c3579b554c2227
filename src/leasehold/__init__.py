"""Leasehold: lend a cluster's idle capacity without its own users noticing.

The way of a request through the packages is drawn in ``ARCHITECTURE.md``.
"""

__version__ = "0.1.0"
