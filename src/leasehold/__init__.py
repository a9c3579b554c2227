"""Leasehold: lend the idle part of a cluster, and its own users never notice.

The way of a request through the packages is drawn in ``ARCHITECTURE.md``.
"""

__version__ = "0.1.0"
