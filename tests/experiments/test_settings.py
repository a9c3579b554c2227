from dataclasses import replace

import pytest

from leasehold.experiments.usla.plan import AgreementTerms, plan
from leasehold.experiments.usla.world import agreements, limit_of
from leasehold.model.agreement import Commitment, NoLimit, TimeDecay, UsageDecay
from leasehold.model.errors import UnknownName


def limits(table: int, row: str) -> list[object]:
    """The limits of the three consumers at the first virtual domain."""
    configuration = plan().configurations[plan().of_row(table, row)]
    return [agreement.limit for agreement in agreements(configuration, [0])]


def test_each_consumer_has_an_agreement_with_each_domain() -> None:
    made = agreements(plan().configurations[plan().of_row(1, "udecay")], range(5))
    assert len({(one.provider, one.consumer) for one in made}) == len(made) == 15


def test_the_agreements_say_what_section_4_2_says() -> None:
    assert limits(1, "no-limit") == [NoLimit()] * 3
    assert limits(1, "commitment") == [
        Commitment(300_000, 1_200_000, burst, 300_000) for burst in (600_000, 600_000, 500_000)
    ]
    assert limits(5, "commitment") == [
        Commitment(200_000, 1_200_000, 300_000, 300_000),
        Commitment(400_000, 1_200_000, 600_000, 300_000),
        Commitment(300_000, 1_200_000, 500_000, 300_000),
    ]
    assert limits(3, "decay") == [TimeDecay(300_000, 300_000, (1_000_000, 500_000, 200_000, 100_000))] * 3
    assert limits(2, "udecay") == [UsageDecay(300_000, 600_000, normalise=True)] * 3


def test_table_7_has_three_speeds() -> None:
    def factors(row: str) -> list[int]:
        limit = limits(7, row)[0]
        assert isinstance(limit, UsageDecay)
        return [factor for _, factor in limit.steps[1:]]

    assert factors("slow") == [800_000, 500_000, 200_000, 100_000]
    assert factors("medium") == [500_000, 200_000, 100_000]
    assert factors("fast") == [200_000, 100_000]


def test_the_same_scenario_and_agreement_is_run_once() -> None:
    read = plan()
    assert read.of_row(7, "medium") == read.of_row(2, "udecay")
    assert len(set(read.configurations)) == len(read.configurations)


def test_nothing_is_fitted_to_a_table() -> None:
    """Whatever is calibrated is the same in every row, but for the starts of unsynchronous consumers."""
    rows = [plan().configurations[name] for table in plan().tables for name in table.rows.values()]
    assert len({(one.slots_per_domain, one.window_s, one.sigma_s, one.order) for one in rows}) == 1
    assert {one.starts_s for one in rows} == {(0, 0, 0), (0, 200, 400)}
    kinds = {(one.agreement, one.name.rsplit("synchronous-", 1)[1]) for one in rows}
    assert len(kinds) == 6  # four uSLAs, and udecay twice more for Table 7


def test_a_control_changes_what_it_is_about_and_nothing_else() -> None:
    read = plan()
    for control in read.controls:
        for table, row, name in control.rows:
            base, other = read.configurations[read.of_row(table, row)], read.configurations[name]
            assert other != replace(base, name=name)
            assert (other.jobs, other.shares, other.slots_per_domain) == (
                base.jobs,
                base.shares,
                base.slots_per_domain,
            )


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UnknownName, match="usage-decay"):
        limit_of(AgreementTerms("usage-decoy"), 0.3, 0.6)
