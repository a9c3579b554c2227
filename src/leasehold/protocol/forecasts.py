"""Forecasts: when leases start, continue and end, how earlier predictions did, and what would happen if."""

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from leasehold.protocol.base import A_MOMENT, RequestModel, ResponseModel, examples
from leasehold.protocol.fields import (
    MAX_INT64,
    Duration,
    Moment,
    OrEmpty,
    OrNone,
    Seconds,
    moment_at,
    plain_digits,
    show_duration,
)

if TYPE_CHECKING:  # a client needs none of it
    from leasehold.forecasting.calibration import Score
    from leasehold.forecasting.what_if import Comparison

MAX_CHANGES = 20
MAX_KEYS = 20
MAX_REPLICATIONS = 200
MAX_RECORD_S = 300

_ESTIMATE = {
    "what": "start", "earliest_at": A_MOMENT, "expected_at": A_MOMENT, "latest_at": A_MOMENT,
    "sites": [{"site": "das3", "share": 0.9}], "moved_by": ["requests of own users yet to come at das3"],
}  # fmt: skip


class SiteShare(ResponseModel):
    """A site, and the share of simulated futures in which it happens there."""

    site: str
    share: float


class Estimate(ResponseModel):
    """When something is expected to happen to a lease."""

    model_config = examples(_ESTIMATE)

    what: str = Field(description="`start`; `continues`, of a suspended guest; or `end`.")
    earliest_at: OrNone[Moment] = Field(
        description="Begin of the 90 % interval: it happens earlier one time in twenty. null: nothing can be said."
    )
    expected_at: OrNone[Moment] = Field(description="As often earlier as later.")
    latest_at: OrNone[Moment] = Field(description="End of the 90 % interval: it happens later one time in twenty.")
    sites: tuple[SiteShare, ...] = Field(description="Where, most likely first.")
    moved_by: tuple[str, ...] = Field(description="What may move it, the most likely cause first; empty: nothing seen.")


class Expectation(ResponseModel):
    """What is expected of something that may have to wait, and how old that is."""

    made_at: Moment = Field(description="The state of the gateway that it rests on.")
    age_s: Seconds = Field(description="How old that is.")
    preempted_share: float = Field(description="The share of simulated futures in which it is preempted.")
    estimates: tuple[Estimate, ...]


class LeaseEstimate(Expectation):
    """What is expected of a lease."""

    model_config = examples(
        {"lease": 42, "made_at": A_MOMENT, "age_s": 4, "preempted_share": 0.1, "estimates": [_ESTIMATE]}
    )

    lease: int


class JobEstimate(Expectation):
    """What is expected of a job that waits for nodes, and so has no lease yet."""

    model_config = examples(
        {"job": 7, "made_at": A_MOMENT, "age_s": 4, "preempted_share": 0.1, "estimates": [_ESTIMATE]}
    )

    job: int


class EstimateList(ResponseModel):
    """What is expected of the open leases, and of the jobs that wait for nodes, by number."""

    leases: tuple[LeaseEstimate, ...]
    jobs: tuple[JobEstimate, ...]


class CalibrationScore(ResponseModel):
    """How the predictions of one kind did."""

    what: str = Field(description="`start`, `continues` or `end`.")
    whom: OrEmpty = Field(
        description="`own` users, a lease type of guests, or `job`: of jobs that waited for nodes; empty: all."
    )
    site: OrEmpty = Field(description="At which site; empty: at any.")
    is_sure: bool = Field(description="Those in which all simulated futures agreed, or the others.")
    scored: int = Field(description="Predictions of which it is known what happened.")
    covered: int = Field(description="How many intervals contained it.")
    covered_share: float
    covered_from: float = Field(description="The 95 % interval of that share.")
    covered_to: float
    below: int = Field(description="How often it happened before the interval.")
    above: int = Field(description="How often after it.")
    width: float = Field(description="Mean of ln((1 + latest) / (1 + earliest)), in s from the prediction on.")
    off: float = Field(description="Mean distance of `expected_at` on the same scale.")


def show_score(score: "Score") -> CalibrationScore:
    """Show how predictions of one kind did, made by a gateway or in a simulation."""
    low, high = score.bounds()
    return CalibrationScore.of(score, score.kind, covered_share=score.share, covered_from=low, covered_to=high)


class ScoredPrediction(ResponseModel):
    """A prediction, and what happened."""

    lease: OrNone[int] = Field(description="The lease that it was about; null: it was about a job.")
    job: OrNone[int] = Field(description="The job that waited for nodes; null: it was about a lease.")
    what: str
    made_at: Moment
    earliest_at: Moment
    expected_at: Moment
    latest_at: Moment
    happened_at: Moment


class Calibration(ResponseModel):
    """How predictions did: of 90 % intervals, nine in ten are to contain what happened."""

    coverage: float = Field(description="What share the intervals are meant to cover.")
    scores: tuple[CalibrationScore, ...] = Field(description="By kind; what is about all leases comes last.")
    predictions: tuple[ScoredPrediction, ...] = Field(description="The last ones that were scored and are visible.")


class WhatIfSpec(RequestModel):
    """Changes, and how far to look."""

    model_config = examples({"changes": [{"drain": "das3"}], "horizon_s": 3600})

    changes: Annotated[
        list[Annotated[dict[str, Any], Field(max_length=MAX_KEYS)]], Field(min_length=1, max_length=MAX_CHANGES)
    ] = Field(
        description='Each one of `{"drain": SITE}`, `{"add_site": NAME, "slots": N}`, `{"site": NAME, "slots": N}` '
        '(also `local_policy`, `guest_policy`, `victims`), `{"policy": NAME}`, `{"load": FACTOR}`, '
        '`{"lend": SITE, "share": S}`, `{"agreement": {...}}`. `add_site` also takes the table of a site under the '
        "keys of `[[cluster]]`, with `machines` (what they can do); beside it `agreement`, a list, and `domain`."
    )
    horizon_s: Duration = Field(default=86_400, description="How far to look, in seconds.")
    replications: Annotated[int, Field(strict=True, ge=2, le=MAX_REPLICATIONS)] = Field(
        default=20, description="Simulated futures; fewer where they take too long."
    )
    seed: Annotated[int, Field(strict=True, ge=0, le=MAX_INT64)] = Field(default=0, description="Of all chance.")


class WhatIfFigure(ResponseModel):
    """One figure of both futures."""

    site: OrEmpty = Field(description="Of this site; empty: of all.")
    name: str
    as_is: float
    changed: float
    difference: float
    difference_from: float = Field(description="The 95 % interval of the difference.")
    difference_to: float
    is_clear: bool = Field(description="Whether that interval does not contain 0.")


FIGURE_NAMES = {
    "own_wait_s": "own users wait",
    "own_delayed": "own requests that wait",
    "guest_wait_s": "guests wait",
    "guests_started": "guests started",
    "preemptions": "preemptions",
    "guest_vm_h": "lent to guests, VM-h",
    "utilisation_pct": "utilisation, %",
}
"""What the figures of what-if are called where people read them."""


class WhatIf(ResponseModel):
    """Two futures side by side; both meet the same requests and run times."""

    taken_at: Moment
    horizon_s: Seconds = Field(description="How far all futures go.")
    replications: int
    is_shortened: bool = Field(description="Whether that is less than was asked for: too much happens until then.")
    figures: tuple[WhatIfFigure, ...]


def show_comparison(found: "Comparison") -> WhatIf:
    """Show what became of a comparison, made by a gateway or from a snapshot file."""
    return WhatIf(
        taken_at=moment_at(found.taken_ms),
        horizon_s=show_duration(found.horizon_ms),
        replications=found.replications,
        is_shortened=found.is_shortened,
        figures=tuple(
            WhatIfFigure.of(one, difference_from=one.low, difference_to=one.high, is_clear=one.is_clear)
            for one in found.figures
        ),
    )


class SnapshotQuery(RequestModel):
    """What to record after a snapshot."""

    record_s: Annotated[int, Field(ge=0, le=MAX_RECORD_S), BeforeValidator(plain_digits)] = Field(
        default=0, description="For how many whole seconds to record decisions; 0: the snapshot alone."
    )
