"""How far Hypothesis searches, by profile (environment variable ``HYPOTHESIS_PROFILE``).

``quick`` is for `make test`, ``ci`` for `make test-all`; both try the same cases everywhere. ``explore``
tries ten times as many, other ones each time; it takes hours, so name a folder: ``pytest tests/leasing``.
"""

import os

from hypothesis import HealthCheck, settings

_USUAL = 100
_SHARE = {"quick": 0.1, "ci": 1, "explore": 10}
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")


def examples(usual: int) -> int:
    """Give the number of cases to try for a test that tries ``usual`` of them in CI."""
    return max(1, round(usual * _SHARE.get(PROFILE, 1)))


def search() -> None:
    """Load the profile, which also holds for tests that do not give a number of cases."""
    settings.register_profile(
        "ci", derandomize=True, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.register_profile("quick", settings.get_profile("ci"), max_examples=examples(_USUAL))
    settings.register_profile("explore", settings.get_profile("ci"), derandomize=False, max_examples=examples(_USUAL))
    settings.load_profile(PROFILE)
