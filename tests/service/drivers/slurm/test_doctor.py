"""What the doctor says of Slurm sites: what must be mended before guests come, each with its cure."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from leasehold.service.config import ServiceConfig, SiteSpec
from leasehold.service.doctor import Finding, Severity
from leasehold.service.doctor.gateway import Subject, check_slurm_sites
from leasehold.service.serving import DataFolder

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may name other users")


@pytest.fixture
def jobs() -> Iterator[str]:
    """A folder that others can get to."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield folder


def found(data: Path, driver: str = "slurm", **options: object) -> list[Finding]:
    config = ServiceConfig((SiteSpec("das3", 8, driver=driver, options=options),))
    return check_slurm_sites(Subject(config, None, DataFolder(data, data)))


def test_it_is_silent_where_no_site_has_any(tmp_path: Path) -> None:
    assert found(tmp_path, "emulated") == []


def test_root_who_names_no_user_is_refused_with_the_cure(tmp_path: Path, jobs: str) -> None:
    (refused,) = found(tmp_path, job_folder=jobs)
    assert refused.severity is Severity.PROBLEM
    assert "they would run as the gateway's own user root, and could read its tokens" in refused.text
    assert 'user = "..."' in refused.cure


def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    told = found(tmp_path, conf="nosuch.conf", run_as_gateway=True)
    assert {one.severity for one in told} == {Severity.PROBLEM}
    assert len(told) == 3
    assert all(one.cure for one in told)


def test_a_data_folder_that_guests_can_enter_is_a_problem(jobs: str) -> None:
    with TemporaryDirectory() as data:
        Path(data).chmod(0o755)
        (entered,) = found(Path(data), user="nobody", job_folder=jobs)
        assert f"expected a user who cannot enter {data}: chmod 700 {data}" in entered.text
        Path(data).chmod(0o700)
        (shared,) = found(Path(data), user="nobody", job_folder=jobs)
        assert shared.severity is Severity.WARNING
        assert "can read each other's files" in shared.text
        (well,) = found(Path(data), users={"atlas": "nobody"}, job_folder=jobs)
        assert well.severity is Severity.OK
