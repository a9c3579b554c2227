"""What is claimed, and what comes of it: on results that are made so that the answer is known."""

from collections.abc import Callable

import numpy as np
import pytest

from leasehold.experiments.intergrid.evaluation import (
    ONE_CLUSTER,
    ReadVerdict,
    Series,
    points_at,
    status_of_gap,
    verdicts,
)
from leasehold.experiments.intergrid.metrics import METRICS
from leasehold.experiments.intergrid.plan import (
    FIRST,
    LAST,
    STUDIES,
    Expects,
    FigureClaim,
    IntergridPlan,
    Study,
    Where,
    plan,
)
from leasehold.experiments.kept import Results
from leasehold.experiments.statistics import Interval, Status
from leasehold.model.errors import UnknownName

FIGURES, claims = STUDIES["003"].figures, STUDIES["003"].claims
REPLICATIONS = 20
Value = Callable[[str, float, float], float]
"""Policy, place on the axis and a random number to what was measured."""


def made(value: Value, letter: str) -> Results:
    """Results of all configurations of a sweep, in which every metric has this value."""
    found: dict[str, dict[str, list[float]]] = {}
    shown = {point.name: point.shown for point in plan("003").sweeps[letter].points}
    for name, one in plan("003").configurations.items():
        random = np.random.default_rng(1)
        at = shown.get(one.point, 1.0)
        values = [value(one.policy, at, float(random.normal())) for _ in range(REPLICATIONS)]
        found[name] = dict.fromkeys(METRICS, values)
    return found


def tried(claim: FigureClaim, value: Value) -> ReadVerdict:
    """What comes of one claim."""
    read: IntergridPlan = plan("003")
    return verdicts(Series(read, read.readings[0], made(value, FIGURES[claim.figure].letter)), [claim])[0]


def the(figure: str, begins: str) -> FigureClaim:
    return next(claim for claim in claims if claim.figure == figure and claim.text.startswith(begins))


def by_policy(**values: float) -> Value:
    """A value for each policy, the same along the sweep, with a little noise of the replication."""

    def value(policy: str, _shown: float, noise: float) -> float:
        return values.get(policy.replace("-", "_"), 50.0) + noise * (1 + len(policy) / 100)

    return value


@pytest.mark.parametrize(
    ("low", "high", "status"),
    [
        (2_500, 3_000, Status.REPRODUCED),
        (3_000, 3_500, Status.REPRODUCED),
        (3_800, 9_000, Status.REPRODUCED),
        (100, 2_700, Status.IN_DIRECTION),
        (3_900, 5_000, Status.IN_DIRECTION),
        (-1, 3_000, Status.NOT_REPRODUCED),
        (-900, -100, Status.NOT_REPRODUCED),
    ],
)
def test_a_difference_beside_its_printed_interval(low: float, high: float, status: Status) -> None:
    assert status_of_gap(Interval((low + high) / 2, low, high, 100), (2737.97, 3896.95)) is status


def test_the_lowest_policy_is_found() -> None:
    assert tried(the("5a", "PAP-RTDP is lowest"), by_policy(pap_rtdp=40)).status is Status.REPRODUCED
    assert tried(the("5a", "PAP-RTDP is lowest"), by_policy(pap_rtdp=60)).status is Status.NOT_REPRODUCED
    assert tried(the("7a", "PAP-RND is lowest"), by_policy(pap_rtdp=40)).status is Status.NOT_REPRODUCED


def test_what_is_sixty_percent_less_is_asked_of_every_policy() -> None:
    claim = the("5b", "PAP-RTDP at least 60 %")
    assert tried(claim, by_policy(pap_rtdp=10)).status is Status.REPRODUCED
    assert tried(claim, by_policy(pap_rtdp=20.1)).status is Status.IN_DIRECTION
    assert tried(claim, by_policy(pap_rtdp=30, bcf_rnd=20)).status is Status.NOT_REPRODUCED


def test_a_size_that_is_surely_missed_is_not_in_direction_though_the_order_holds() -> None:
    found = tried(the("5b", "PAP-RTDP at least 60 %"), by_policy(pap_rtdp=30))
    assert found.status is Status.NOT_REPRODUCED
    assert found.why == "the order holds surely; its size is surely reached by 0 of 4, surely missed by 4"


NO_DIFFERENCE = the("8h", "PAP-RTDP and PAP-RND do not differ")


@pytest.mark.parametrize(
    ("value", "status", "why"),
    [
        (by_policy(), Status.REPRODUCED, "1 of 1 equal within 5 %, 0 differ significantly"),
        (by_policy(pap_rtdp=51), Status.REPRODUCED, "1 of 1 equal within 5 %, 1 differ significantly"),
        (by_policy(pap_rtdp=60), Status.NOT_REPRODUCED, "0 of 1 equal within 5 %, 1 differ significantly"),
        (
            lambda policy, _, noise: 50 + (40 if policy == "pap-rtdp" else -40) * noise,
            Status.IN_DIRECTION,
            "0 of 1 equal within 5 %, 0 differ significantly",
        ),
    ],
)
def test_that_two_do_not_differ_takes_a_test_of_their_equality(value: Value, status: Status, why: str) -> None:
    found = tried(NO_DIFFERENCE, value)
    assert (found.status, found.why) == (status, why)


def test_a_difference_says_whether_it_is_as_large_as_printed() -> None:
    claim = the("5a", "PAP-RND - PAP-RTDP")
    assert tried(claim, by_policy(pap_rnd=60)).why == "surely on the printed side, and smaller"
    assert tried(claim, by_policy(pap_rnd=3_000)).why == "surely on the printed side"
    assert tried(claim, by_policy(pap_rnd=9_000)).why == "surely on the printed side, and larger"
    assert tried(claim, by_policy(pap_rnd=40)).why == "surely on the other side"


def test_a_difference_is_that_over_the_points_it_is_about() -> None:
    """PAP-RTDP is 10 lower at the two points above 300 s, and 1,000 higher elsewhere."""

    def value(policy: str, shown: float, noise: float) -> float:
        return noise + (0 if policy != "pap-rtdp" else -10 - noise / 50 if shown > 300 else 1_000)

    found = tried(the("5b", "PAP-RND - PAP-RTDP"), value)
    assert found.tested[0].mean == pytest.approx(10, abs=0.05)
    assert found.status is Status.IN_DIRECTION


def test_an_interaction_is_a_difference_of_differences() -> None:
    """PAP-RND gains 30 on LRF-RND above 0.12, and 20 up to it."""

    def value(policy: str, shown: float, noise: float) -> float:
        return noise * (1 + len(policy) / 1000) - (30 if shown > 0.12 else 20) * (policy == "pap-rnd")

    found = tried(the("5d", "PAP-RND gains more"), value)
    assert found.tested[0].mean == pytest.approx(10, abs=0.1)
    assert found.status is Status.REPRODUCED


def test_curves_rise_or_they_do_not_change() -> None:
    rising: Value = lambda policy, shown, noise: shown * (100 + noise)  # noqa: E731, ARG005 - a value is a function
    level: Value = lambda policy, shown, noise: 100 + noise * (-1) ** round(100 * shown)  # noqa: E731, ARG005
    assert tried(the("5c", "rises"), rising).status is Status.REPRODUCED
    assert tried(the("7c", "does not change"), rising).status is Status.NOT_REPRODUCED
    assert tried(the("8e", "falls"), rising).status is Status.NOT_REPRODUCED
    assert tried(the("7a", "does not change"), level).status is Status.REPRODUCED


def test_two_policies_that_are_one_cannot_be_compared() -> None:
    found = tried(the("8a", "PAP-RND - PAP-RTDP"), lambda _policy, shown, noise: shown + noise)
    assert (found.status, found.why) == (Status.NOT_COMPARABLE, ONE_CLUSTER)


def test_the_others_are_compared_even_if_two_are_one() -> None:
    """PAP-RTDP and PAP-RND are the same, and below all others: PAP-RTDP is lowest as far as can be told."""
    found = tried(
        the("5a", "PAP-RTDP is lowest"), lambda p, _shown, noise: noise + (0 if "pap" in p else 9 + noise / 9)
    )
    assert found.status is Status.REPRODUCED
    assert found.why.startswith("3 of 3 hold")


def test_all_contrasts_of_a_reading_are_one_family() -> None:
    """What one claim finds surely on its own, it may not among a hundred orderings."""
    read = plan("003")
    series = Series(read, read.readings[0], made(lambda p, shown, noise: noise * (len(p) + shown), "a"))
    alone = verdicts(series, [the("5a", "LRF-RND - PAP-RND")])[0].tested[0].p
    among = next(one for one in verdicts(series, claims) if one.claim == the("5a", "LRF-RND - PAP-RND")).tested[0]
    assert among.p >= alone == among.found.p


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        (Where(), [85, 155, 283, 420, 939]),
        (Where(above=300), [420, 939]),
        (Where(below=283), [85, 155, 283]),
        (FIRST, [85]),
        (LAST, [939]),
    ],
)
def test_points_of_a_sweep(where: Where, shown: list[float]) -> None:
    assert [point.shown for point in points_at(plan("003").sweeps["b"], where)] == shown


def test_every_part_of_every_figure_is_there_with_its_metric() -> None:
    assert list(FIGURES) == [f"{number}{letter}" for number in (5, 6, 7) for letter in "abcd"] + [
        f"8{letter}" for letter in "abcdefgh"
    ]
    assert [FIGURES[f"8{letter}"].letter for letter in "abcdefgh"] == list("aabbccdd")
    assert {FIGURES[f"8{letter}"].metric for letter in "aceg"} == {"migration_pct"}
    for figure in FIGURES.values():
        assert {figure.metric, *figure.beside} <= set(METRICS)


def test_every_printed_interval_lies_on_one_side() -> None:
    printed = [claim.printed for claim in claims if claim.printed is not None]
    assert len(printed) == 6 + 6 + 7 + 7
    assert all(0 < low < high for low, high in printed)


def test_table_3_is_claimed_line_by_line() -> None:
    """All lines but the last have an interval; 8(h) is "not statistically significant"."""
    printed = [claim.figure for claim in claims if claim.figure.startswith("8") and claim.printed]
    assert printed == [f"8{letter}" for letter in "abcdefg"]
    assert [claim.expects for claim in claims if claim.figure == "8h" and "do not differ" in claim.text] == [
        Expects.NO_DIFFERENCE
    ]


@pytest.mark.parametrize("study", STUDIES.values(), ids=list(STUDIES))
def test_each_claim_is_about_a_figure_and_a_topic_that_is_explained(study: Study) -> None:
    topics = {entry["topic"] for entry in plan(study.number).stated["why"]}
    assert {claim.topic for claim in study.claims} == topics
    assert {claim.figure for claim in study.claims} <= set(study.figures)
    assert len({(claim.figure, claim.text) for claim in study.claims}) == len(study.claims)
    for figure in study.figures.values():
        assert {figure.metric, *figure.beside} <= set(METRICS)
        assert figure.letter in plan(study.number).sweeps


class TestNames:
    def test_of_all_figures_and_of_some(self) -> None:
        assert STUDIES["003"].figures_named([]) == STUDIES["003"].figures_named(["003"]) == list(FIGURES)
        assert STUDIES["003"].figures_named(["003-fig7b", "003-fig5a", "003-fig7b"]) == ["5a", "7b"]
        assert STUDIES["003"].figures_named(["003-table3"]) == [f"8{letter}" for letter in "abcdefgh"]
        assert STUDIES["003"].figures_named(["003-fig4"]) == STUDIES["003"].figures_named(["003-fig5"])
        assert len(STUDIES["003"].names) == 1 + 20 + 6

    def test_an_unknown_one_is_refused(self) -> None:
        with pytest.raises(UnknownName, match="003-fig5a"):
            STUDIES["003"].figures_named(["003-fig5e"])

    def test_figure_4_is_made_of_all_runs_of_the_sweeps(self) -> None:
        """The line of eq 2 goes through the runs of all figures, which are those of Figure 5."""
        of_all = [name for name in plan("003").configurations if not name.startswith(("003-r1", "003-plain"))]
        assert sorted(plan("003").names_for(STUDIES["003"].figures_named(["003-fig4"]))) == sorted(of_all)

    def test_one_figure_needs_its_sweep_alone(self) -> None:
        names = plan("003").names_for(["5d"])
        assert len(names) == 2 * 5 * 5
        assert not any("base" in name or name.startswith(("003-r1", "003-plain")) for name in names)

    def test_all_need_everything(self) -> None:
        assert sorted(plan("003").names_for(list(FIGURES))) == sorted(plan("003").configurations)
