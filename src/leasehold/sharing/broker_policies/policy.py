"""What a broker policy is."""

from collections.abc import Callable
from random import Random

from leasehold.sharing.offers import Offer

BrokerPolicy = Callable[[Offer, Random], int]
"""Scores an offer; random numbers come from the stream that it is given."""
