"""A real Slurm, once for all tests: a cluster, and for some tests others whose configuration is another."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests import needing
from tests.service.drivers.slurm.sites import SlurmRig

from leasehold.testing.slurm import SlurmCluster, slurm_clusters


@contextmanager
def real_clusters(*names: str, gpus: Sequence[str] = (), **settings: str) -> Iterator[tuple[SlurmCluster, ...]]:
    """Run clusters for the length of the block."""
    with needing.programs(), slurm_clusters(*names, gpus=gpus, **settings) as clusters:
        yield clusters


@pytest.fixture(scope="session")
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
