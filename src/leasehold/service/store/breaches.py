"""Breaches of agreements as the store keeps them: in the detail of a journal line."""

from dataclasses import asdict
from typing import Any

from leasehold.model.agreement import Breach
from leasehold.model.reason import Reason


def breach_to_dict(breach: Breach) -> dict[str, Any]:
    """Give a breach as JSON would."""
    return asdict(breach)


def breach_from_dict(told: dict[str, Any]) -> Breach:
    """Read what `breach_to_dict` gave."""
    return Breach(**{**told, "reason": Reason(told["reason"])})
