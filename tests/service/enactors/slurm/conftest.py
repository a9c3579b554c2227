"""A real Slurm, once for each file of tests: two clusters, or one whose configuration is another."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.service.enactors.slurm.sites import SlurmRig

from leasehold.testing.debian import ProgramMissing
from leasehold.testing.slurm import SlurmCluster, slurm_clusters


@contextmanager
def real_clusters(*names: str, **settings: str) -> Iterator[tuple[SlurmCluster, ...]]:
    """Run clusters; where they cannot be had, a skip says how, and in CI it is a failure."""
    try:
        with slurm_clusters(*names, **settings) as clusters:
            yield clusters
    except ProgramMissing as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def alpha() -> Iterator[SlurmCluster]:
    """A cluster of three nodes of four CPUs."""
    with real_clusters("alpha") as (cluster,):
        yield cluster


@pytest.fixture
def cluster(alpha: SlurmCluster) -> Iterator[SlurmCluster]:
    """The same, with nothing on it that another test has left."""
    yield alpha
    alpha.clear()


@pytest.fixture
def rig(cluster: SlurmCluster, tmp_path: Path) -> SlurmRig:
    """Sites on that cluster."""
    return SlurmRig(cluster, tmp_path)
