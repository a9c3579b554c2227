"""What makes a claim reproduced, in direction, not reproduced, or not comparable."""

from collections.abc import Callable
from zlib import crc32

import pytest

from leasehold.experiments.hybrid.evaluation import OrderingClaim, as_data, outcome_of, page, verdicts
from leasehold.experiments.hybrid.plan import JobRun, plan, plan_of
from leasehold.experiments.hybrid.world import METRICS
from leasehold.experiments.kept import Results
from leasehold.experiments.report import markdown
from leasehold.experiments.statistics import ClaimVerdict, Status

SEEDS = 8
REFUSES_LESS = "Hybrid refuses fewer jobs than physical-only"
AGREES = "Figure 8: formula and implementation agree closely"

Value = Callable[[JobRun, str], float]


def results(value: Value, wobble: float = 0.01) -> Results:
    """Give every configuration these means, with a little chance that differs by seed and configuration."""

    def one(configuration: JobRun, metric: str, seed: int) -> float:
        drawn = crc32(f"{configuration.load} {configuration.way} {metric}".encode())
        chance = ((drawn + 7 * seed) % 5 - 2) / 2
        return value(configuration, metric) + wobble * chance

    return {
        name: {metric: [one(configuration, metric, seed) for seed in range(SEEDS)] for metric in METRICS}
        for name, configuration in plan().configurations.items()
    }


def judged(value: Value) -> dict[str, ClaimVerdict[OrderingClaim]]:
    return {one.claim.text: one for one in verdicts(plan(), results(value))}


def by_way(hybrid: float, others: float) -> Value:
    return lambda one, _: hybrid if one.way == "hybrid" else others


def test_what_follows_from_the_formulas_is_reproduced() -> None:
    found = judged(by_way(1.0, 2.0))
    figures = [verdict for text, verdict in found.items() if text.startswith(("Figure 6", "Figure 7"))]
    assert [verdict.status for verdict in figures] == [Status.REPRODUCED] * 2


@pytest.mark.parametrize(
    ("hybrid", "others", "status"),
    [(1.0, 2.0, Status.REPRODUCED), (2.0, 1.0, Status.NOT_REPRODUCED)],
)
def test_an_ordering_is_judged_by_the_side_on_which_it_surely_is(hybrid: float, others: float, status: Status) -> None:
    assert judged(by_way(hybrid, others))[REFUSES_LESS].status is status


def test_what_is_the_same_in_every_run_cannot_be_compared() -> None:
    found = {one.claim.text: one for one in verdicts(plan(), results(lambda *_: 1.0, wobble=0.0))}
    assert found[REFUSES_LESS].status is Status.NOT_COMPARABLE


@pytest.mark.parametrize(("off", "status"), [(0.0, Status.REPRODUCED), (0.3, Status.NOT_REPRODUCED)])
def test_figure_8_agrees_where_success_is_as_the_formula_has_it(off: float, status: Status) -> None:
    found = judged(lambda _, metric: 0.9 - off if metric == "done_in_time" else 0.9)
    assert found[AGREES].status is status


def test_figure_8_is_no_more_than_in_direction_where_its_agreement_is_not_sure() -> None:
    """Success scatters so much that neither a difference nor its absence can be shown."""
    found = {one.claim.text: one for one in verdicts(plan(), results(lambda *_: 0.9, wobble=0.2))}
    assert found[AGREES].status is Status.IN_DIRECTION
    assert "0 differ significantly" in found[AGREES].why


def test_our_own_claims_are_counted_apart() -> None:
    outcome = outcome_of(plan(), results(by_way(1.0, 2.0)), SEEDS)
    ours = [one for one in outcome.verdicts if one.claim.is_ours]
    assert [one.claim.text.startswith("Ours: ") for one in outcome.verdicts] == [
        one in ours for one in outcome.verdicts
    ]
    text = markdown(page(outcome))
    assert f"Of {len(outcome.verdicts) - len(ours)} claims of the paper: " in text
    assert f"Of {len(ours)} claims of our own: " in text


def test_a_figure_alone_shows_itself_and_needs_no_more_than_its_runs() -> None:
    of_formula, of_runs = plan_of(["004-fig6"], quick=False), plan_of(["004-fig8"], quick=False)
    assert not of_formula.configurations
    assert list(of_runs.configurations.values()) == plan().of("reliability")
    for part, number in ((of_formula, 6), (of_runs, 8)):
        measured = {name: one for name, one in results(lambda *_: 0.9).items() if name in part.configurations}
        outcome = outcome_of(part, measured, SEEDS)
        text = markdown(page(outcome))
        assert [one.claim.text.startswith(f"Figure {number}") for one in outcome.verdicts] == [True]
        assert f"`leasehold reproduce 004-fig{number} --seeds {SEEDS}`" in text
        assert "## Queues" not in text


def test_the_report_has_every_claim_and_every_configuration() -> None:
    outcome = outcome_of(plan(), results(by_way(1.0, 2.0)), SEEDS)
    text = markdown(page(outcome))
    assert all(verdict.claim.text in text for verdict in outcome.verdicts)
    assert all(f"| {one.q:g} | {one.asked:g} |" in text for one in plan().of("reliability"))
    assert set(as_data(outcome)["configurations"]) == set(plan().configurations)
