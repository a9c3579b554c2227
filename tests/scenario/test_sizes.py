"""How many slots the clusters get for which a log has to say it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from leasehold.model.errors import InputError, InvalidField
from leasehold.simulation.scenario.sources import with_sizes
from leasehold.simulation.scenario.spec import Scenario

Load = Callable[[str], Scenario]
Swf = Callable[..., Path]

STREAM = '[[stream]]\nname = "own"\nlog = "own.swf"\n'
JOBS = [(0, 100, 4, 1, 1, 1), (50, 100, 6, 1, 1, 1), (60, 10, 3, 1, 1, 2), (500, 10, 5, 1, 1, 2)]


def cluster(slots: str, stream: str = STREAM) -> str:
    return f'name = "x"\n[[cluster]]\nname = "a"\nslots = {slots}\n{stream}site = "a"\n'


def sizes(scenario: Scenario) -> dict[str, int | str]:
    return {cluster.name: cluster.slots for cluster in with_sizes(scenario).clusters}


def test_max_procs_is_what_the_header_says(loaded: Load, swf: Swf) -> None:
    swf("own.swf", JOBS, header="; MaxProcs: 20\n")
    assert sizes(loaded(cluster('"max-procs"'))) == {"a": 20}


def test_peak_is_what_the_jobs_would_take_at_once(loaded: Load, swf: Swf) -> None:
    swf("own.swf", JOBS)
    assert sizes(loaded(cluster('"peak"'))) == {"a": 13}


def test_without_a_header_max_procs_is_refused(loaded: Load, swf: Swf) -> None:
    swf("own.swf", JOBS, header="")
    with pytest.raises(InvalidField, match="MaxProcs"):
        with_sizes(loaded(cluster('"max-procs"')))


def test_a_header_that_is_no_number_is_refused_with_the_file(loaded: Load, swf: Swf) -> None:
    swf("own.swf", JOBS, header="; MaxProcs: many\n")
    with pytest.raises(InputError, match=r"own\.swf: MaxProcs: got 'many'"):
        with_sizes(loaded(cluster('"max-procs"')))


def test_a_rule_for_a_cluster_without_jobs_is_refused(loaded: Load, swf: Swf) -> None:
    swf("own.swf", JOBS)
    text = cluster('"peak"').replace("[[stream]]", '[[cluster]]\nname = "b"\nslots = "peak"\n[[stream]]')
    with pytest.raises(InvalidField, match="slots of cluster b"):
        with_sizes(loaded(text))


def test_each_value_of_a_field_makes_a_cluster(loaded: Load, swf: Swf) -> None:
    swf("own.swf", JOBS)
    scenario = loaded(f'name = "x"\n[defaults]\nvictims = "mov"\n{STREAM}cluster_by = "partition"\n')
    assert sizes(scenario) == {"partition-1": 10, "partition-2": 5}
    assert {cluster.terms.victims for cluster in with_sizes(scenario).clusters} == {"mov"}


def test_a_cluster_that_is_said_stays_as_it_is(loaded: Load, swf: Swf) -> None:
    swf("own.swf", JOBS)
    text = f'name = "x"\n[[cluster]]\nname = "partition-2"\nslots = 99\n{STREAM}cluster_by = "partition"\n'
    assert sizes(loaded(text)) == {"partition-2": 99, "partition-1": 10}


def test_jobs_from_outside_count_for_no_cluster(loaded: Load, swf: Swf) -> None:
    swf("own.swf", [(0, 100, 4, 1, 1, 1), (0, 100, 8, 1, 2, 1)])
    text = f'name = "x"\n{STREAM}cluster_by = "partition"\nexternal = {{ group = [2] }}\n'
    assert sizes(loaded(text)) == {"partition-1": 4}


def test_nothing_is_read_where_everything_is_said(loaded: Load) -> None:
    scenario = loaded(cluster("8"))  # there is no such log
    assert with_sizes(scenario) is scenario


def test_settling_it_twice_changes_nothing(loaded: Load, swf: Swf) -> None:
    swf("own.swf", JOBS)
    once = with_sizes(loaded(f'name = "x"\n{STREAM}cluster_by = "partition"\n'))
    assert with_sizes(once) == once
