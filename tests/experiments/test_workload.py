from dataclasses import replace

import pytest

from leasehold.experiments.usla.plan import AgreementRun, plan
from leasehold.experiments.usla.world import workload

MS = 1_000


@pytest.fixture
def balanced() -> AgreementRun:
    return plan().configurations[plan().of_row(1, "no-limit")]


def test_each_consumer_has_its_jobs_within_its_window(balanced: AgreementRun) -> None:
    late = replace(balanced, starts_s=(0, 200, 400))
    works = workload(late, 1)
    for consumer, jobs in enumerate((400, 600, 500)):
        moments = [work.submit_ms for work in works if work.consumer == consumer]
        assert len(moments) == jobs
        assert late.starts_s[consumer] * MS <= min(moments)
        assert max(moments) < (late.starts_s[consumer] + 3_000) * MS


def test_jobs_come_in_order_of_submission(balanced: AgreementRun) -> None:
    moments = [work.submit_ms for work in workload(balanced, 3)]
    assert moments == sorted(moments)


def test_lengths_and_domains_are_as_stated(balanced: AgreementRun) -> None:
    works = [work for seed in range(10) for work in workload(balanced, seed)]
    lengths_s = [work.duration_ms / MS for work in works]
    mean_s = sum(lengths_s) / len(works)
    assert mean_s == pytest.approx(300, abs=2)
    assert sum((length_s - mean_s) ** 2 for length_s in lengths_s) / len(works) == pytest.approx(3_600, rel=0.05)
    share = [sum(work.domain == domain for work in works) / len(works) for domain in range(5)]
    assert share == pytest.approx([0.2] * 5, abs=0.01)


def test_a_seed_is_a_workload(balanced: AgreementRun) -> None:
    assert workload(balanced, 7) == workload(balanced, 7)
    assert workload(balanced, 7) != workload(balanced, 8)


def test_all_agreements_see_the_same_jobs() -> None:
    table = plan().tables[0]
    first, *others = (workload(plan().configurations[name], 5) for name in table.rows.values())
    assert all(other == first for other in others)


def test_a_later_start_moves_the_jobs_and_changes_nothing_else(balanced: AgreementRun) -> None:
    later = workload(replace(balanced, starts_s=(100, 100, 100)), 2)
    assert [(w.submit_ms - 100 * MS, w.duration_ms, w.domain) for w in later] == [
        (w.submit_ms, w.duration_ms, w.domain) for w in workload(balanced, 2)
    ]


def test_one_consumers_jobs_do_not_depend_on_anothers(balanced: AgreementRun) -> None:
    fewer = workload(replace(balanced, jobs=(400, 1, 500)), 2)
    assert [w for w in fewer if w.consumer != 1] == [w for w in workload(balanced, 2) if w.consumer != 1]
