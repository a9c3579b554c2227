"""How far Hypothesis searches: through the usual number of cases, or through many times as many.

`ci` finds the same cases on every machine. `explore` looks further, and elsewhere each time:
``HYPOTHESIS_PROFILE=explore make test``, which takes hours, or with ``pytest`` and the tests of one folder.
"""

import os

from hypothesis import HealthCheck, settings

_USUAL = 100
_TIMES_AS_MANY = {"ci": 1, "explore": 10}
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")


def examples(usual: int) -> int:
    """Say how many cases to try where a test usually tries so many."""
    return usual * _TIMES_AS_MANY.get(PROFILE, 1)


def search() -> None:
    """Let Hypothesis search so, also where a test says nothing of it."""
    settings.register_profile(
        "ci", derandomize=True, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.register_profile(
        "explore", settings.get_profile("ci"), derandomize=False, max_examples=examples(_USUAL)
    )
    settings.load_profile(PROFILE)
