"""In which folder may jobs write? In one that no guest can put another in the place of."""

import asyncio
import os
import pwd
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.service.drivers.slurm.sites import setup

from leasehold.model.errors import InvalidField
from leasehold.service.drivers.slurm.driver import SlurmDriver
from leasehold.service.drivers.slurm.options import SlurmOptions
from leasehold.service.drivers.slurm.users import site_faults

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders that are somebody else's")

GUEST, STRANGER = pwd.getpwnam("nobody"), pwd.getpwnam("daemon")


@pytest.fixture
def above() -> Iterator[Path]:
    """A folder that others can get to."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def faults(above: Path, options: SlurmOptions | None = None) -> list[str]:
    given = options or SlurmOptions(user=GUEST.pw_name)
    return [str(fault) for fault in site_faults(replace(given, job_folder=str(above / "shared" / "jobs")), [])]


def shared(above: Path, uid: int = 0, gid: int = 0, mode: int = 0o755) -> Path:
    """The folder above that of the jobs."""
    folder = above / "shared"
    folder.mkdir()
    os.chown(folder, uid, gid)
    folder.chmod(mode)
    return folder


class TestAFolderAbove:
    @pytest.mark.parametrize("mode", [0o755, 0o500, 0o1777])
    def test_may_not_be_a_guests(self, above: Path, mode: int) -> None:
        folder = shared(above, uid=GUEST.pw_uid, mode=mode)
        (fault,) = faults(above)
        assert fault.endswith(f"expected a folder of the gateway's own: user nobody may change {folder}")

    @pytest.mark.parametrize("users", [{"user": "nobody"}, {"users": {"atlas": "daemon", "cms": "nobody"}}])
    def test_may_not_be_open_to_a_group_of_any_guest(self, above: Path, users: dict[str, object]) -> None:
        folder = shared(above, gid=GUEST.pw_gid, mode=0o775)
        (fault,) = faults(above, SlurmOptions(**users))  # type: ignore[arg-type]
        assert fault.endswith(f"user nobody may change {folder}")

    def test_nor_to_a_group_that_it_is_in_beside_its_own(self, above: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "getgrouplist", lambda _name, gid: [gid, STRANGER.pw_gid])
        shared(above, gid=STRANGER.pw_gid, mode=0o775)
        assert len(faults(above)) == 1

    def test_may_be_of_people_and_groups_who_are_no_guests(self, above: Path) -> None:
        shared(above, uid=STRANGER.pw_uid, gid=STRANGER.pw_gid, mode=0o775)
        assert faults(above) == []

    def test_may_be_open_to_all_where_nobody_can_rename_what_is_not_his(self, above: Path) -> None:
        shared(above, mode=0o1777)
        assert faults(above) == []


class TestTheFolderItself:
    def test_is_made_when_the_site_is_opened_before_any_guest_could_make_it(self, above: Path, tmp_path: Path) -> None:
        jobs = shared(above, mode=0o1777) / "jobs"
        before = os.umask(0)
        try:
            driver = SlurmDriver(setup(tmp_path, user="nobody", job_folder=str(jobs)))
        finally:
            os.umask(before)
        asyncio.run(driver.close())
        found = jobs.stat()
        assert (found.st_uid, found.st_mode & 0o7777) == (os.geteuid(), 0o711)

    def test_is_not_made_where_a_guest_could_replace_it(self, above: Path, tmp_path: Path) -> None:
        jobs = shared(above, uid=GUEST.pw_uid) / "jobs"
        with pytest.raises(InvalidField, match="user nobody may change"):
            SlurmDriver(setup(tmp_path, user="nobody", job_folder=str(jobs)))
        assert not jobs.exists()

    def test_that_cannot_be_made_is_told(self, above: Path, tmp_path: Path) -> None:
        (above / "file").touch()
        with pytest.raises(InvalidField, match=r"slurm\.job_folder: .* a folder that can be made: Not a dir"):
            SlurmDriver(setup(tmp_path, user="nobody", job_folder=str(above / "file" / "jobs")))
