"""How far Hypothesis searches, by profile (environment variable ``HYPOTHESIS_PROFILE``).

``quick`` is for `make test`, ``ci`` for `make test-all`; both try the same cases everywhere, until a test or
Hypothesis changes. ``explore`` tries ten times as many, other ones each time; it takes hours, so name a folder:
``pytest tests/leasing``.

Hypothesis also draws constants that it finds in the source of the modules imported so far, which depend on the tests
that ran before, on optional packages, and on each commit; and each worker reads all that source, for seconds. It has no
setting for that, so ``quick`` and ``ci`` take that list from it; `tests.test_searching` notices if it no longer looks
there.
"""

import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

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
    if settings.default is not None and settings.default.derandomize:
        none = Constants()
        providers._get_local_constants = lambda: none
