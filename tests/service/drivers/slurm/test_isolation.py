"""Guests of a Slurm site have the nodes, and nothing of the gateway's or of each other."""

import asyncio
import os
import pwd
from dataclasses import replace
from pathlib import Path

import pytest
from tests.service.drivers.slurm.sites import SlurmRig, setup

from leasehold.model.errors import InvalidField
from leasehold.service.drivers.protocol import Order, Phase, Verb
from leasehold.service.drivers.slurm.driver import SlurmDriver
from leasehold.service.drivers.slurm.job_directory import FILES, OUTPUT, WORK
from leasehold.service.drivers.slurm.options import read_options
from leasehold.service.drivers.slurm.users import site_faults
from leasehold.testing.driver_rig import Site, order, site
from leasehold.testing.slurm import SlurmCluster

pytestmark = [
    pytest.mark.machines,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root runs a private Slurm, and has others as users"),
]
ATLAS, CMS = "daemon", "nobody"


@pytest.fixture
def shared(rig: SlurmRig) -> SlurmRig:
    """A site that two organisations share, each with a Unix user of its own."""
    rig.options |= {"users": {"atlas": ATLAS, "cms": CMS}}
    del rig.options["user"]
    return rig


def start(account: str, lease_id: int, script: str) -> Order:
    return replace(order(Verb.START, lease_id, command=("sh", "-c", script)), account=account)


async def said(here: Site, started: Order) -> str:
    """Run a lease to its end, and give what its command wrote."""
    await here.do(started)
    await here.until(Phase.ENDED, started.lease_id)
    return (await here.driver.output(started.lease_id)).text  # type: ignore[attr-defined,no-any-return]


def work_folder(rig: SlurmRig, lease_id: int) -> Path:
    return Path(rig.options["job_folder"]) / "a" / f"{lease_id}.1" / WORK


def test_commands_run_as_the_user_of_their_consumer_and_can_read_nothing_of_others(shared: SlurmRig) -> None:
    data = shared.folder / "data"
    data.mkdir(mode=0o700)
    token = data / "admin.token"
    token.write_text("lh_secret\n")
    token.chmod(0o644)  # that its folder is closed has to be enough

    async def play() -> None:
        async with site(shared) as here:
            assert await said(
                here, start("atlas/higgs/alice", 1, "id -un; id -G; echo $HOME; umask 0; echo mine > mine")
            ) == (f"{ATLAS}\n{pwd.getpwnam(ATLAS).pw_gid}\n{pwd.getpwnam(ATLAS).pw_dir}\n")
            others = work_folder(shared, 1)
            files = others.parent / FILES
            tries = f"""
            id -un
            for path in {token} {data} {shared.folder} {others} {others.parent} {files} {files}/mine; do
                ls "$path" > /dev/null 2>&1 && echo "listed $path"
                cat "$path" > /dev/null 2>&1 && echo "read $path"
                (echo forged > "$path/x") 2> /dev/null && echo "written $path"
            done
            (echo 0 0 > {others}/ended) 2> /dev/null && echo "ended it"
            rm -rf {others} {files} 2> /dev/null; mv {files} {files}.old 2> /dev/null && echo "moved it"
            """
            assert await said(here, start("cms/bob", 2, tries)) == f"{CMS}\n"
            assert (files / "mine").read_text() == "mine\n"
            assert (others / "ended").read_text() != "0 0\n"

    asyncio.run(play())


def test_who_has_no_user_gets_no_machines(shared: SlurmRig) -> None:
    async def play() -> None:
        async with site(shared) as here:
            refused = (await here.tell(start("babar/carol", 1, "true")))["1.1.start"]
            assert not refused.again
            assert "no Unix user is named for babar/carol" in refused.text
            assert await here.driver.observe() == []

    asyncio.run(play())


def test_what_a_guest_plants_in_its_folder_harms_nobody(shared: SlurmRig) -> None:
    """Links to what it may not read, pipes that would never end, and files that say what cannot be."""
    secret = shared.folder / "secret"
    secret.write_text("of the gateway's\n")
    plants = f"""
    echo {"9" * 5_000} {"9" * 5_000} > ended; echo garbage > begun
    rm -f console; ln -s {secret} console
    rm -f output; mkfifo output
    sleep 0.2
    """

    async def play() -> None:
        async with site(shared) as here:
            await here.do(start("atlas/mallory", 1, plants), start("cms/bob", 2, "echo fine"))
            await here.until(Phase.ENDED, 2)
            ended = await here.until(Phase.ENDED, 1)
            assert ended.exit_status == 0  # its script has the last word, and Slurm
            assert await here.driver.console(1) == ""
            assert (await here.driver.output(1)).text == ""  # type: ignore[attr-defined]
            assert (await here.driver.output(2)).text == "fine\n"  # type: ignore[attr-defined]
            await here.do(order(Verb.STOP, 1), order(Verb.STOP, 2))
            await here.until_gone(1)
            await here.until_gone(2)

    asyncio.run(play())


def test_a_job_of_a_stranger_is_none_of_ours_whatever_it_is_called(shared: SlurmRig, cluster: SlurmCluster) -> None:
    async def play() -> None:
        async with site(shared) as here:
            await here.do(start("atlas/alice", 1, "sleep 300"))
            await here.until(Phase.RUNNING)
            ours = cluster.run("squeue", "--noheader", "--format=%A|%j|%k").strip()
            number, name, comment = ours.split("|")
            theirs = cluster.submit(f"--job-name={name}", f"--comment={comment}")
            probe = cluster.submit(f"--comment=leasehold {comment.split()[1]} probe {cluster.nodes[0]}")
            cluster.until_state(theirs, "RUNNING")
            cluster.until_state(probe, "RUNNING")
            listed = {job.name for job in await here.driver.native_jobs()}  # type: ignore[attr-defined]
            assert listed == {theirs, probe}
            await here.do(order(Verb.STOP))
            await here.until_gone()
            assert cluster.state_of(number) != "RUNNING"
            assert (cluster.state_of(theirs), cluster.state_of(probe)) == ("RUNNING", "RUNNING")

    asyncio.run(play())


def test_a_guest_that_renames_its_job_does_not_get_away(shared: SlurmRig, cluster: SlurmCluster) -> None:
    async def play() -> None:
        async with site(shared) as here:
            await here.do(start("atlas/mallory", 1, "sleep 300"))
            await here.until(Phase.RUNNING)
            number = cluster.run("squeue", "--noheader", "--format=%A").strip()
            cluster.run("scontrol", "update", f"JobId={number}", "Name=wrap", "Comment=mine")
            seen = await here.seen()
            assert seen is not None
            assert seen.phase is Phase.RUNNING
            assert await here.driver.native_jobs() == []  # type: ignore[attr-defined]
            await here.do(order(Verb.STOP))
            await here.until_gone()
            assert cluster.state_of(number) != "RUNNING"

    asyncio.run(play())


class TestWhatIsNotOpened:
    """A site whose guests could become the gateway is refused, in one line that says what to do."""

    def refused(self, rig: SlurmRig, **options: object) -> str:
        told = {name: value for name, value in (rig.options | options).items() if value is not None}
        with pytest.raises(InvalidField) as refused:
            SlurmDriver(setup(rig.folder, **told))
        assert "\n" not in str(refused.value)
        return str(refused.value)

    def test_without_users(self, rig: SlurmRig) -> None:
        told = self.refused(rig, user=None)
        assert told.startswith("cluster a: slurm.user: missing, expected a Unix user for guests' jobs")
        assert "the gateway's own user root, and could read its tokens" in told

    @pytest.mark.parametrize("options", [{"user": "root"}, {"users": {"atlas": "root"}}])
    def test_with_root(self, rig: SlurmRig, options: dict[str, object]) -> None:
        assert "expected another user than root, whom no guest may be" in self.refused(rig, **options)

    def test_as_the_gateway_where_that_is_root(self, rig: SlurmRig) -> None:
        assert "run_as_gateway: got True, expected false" in self.refused(rig, user=None, run_as_gateway=True)

    def test_without_a_folder(self, rig: SlurmRig) -> None:
        told = self.refused(rig, job_folder=None)
        assert "slurm.job_folder: missing, expected a folder outside the data folder" in told

    def test_with_a_folder_in_the_data_folder(self, rig: SlurmRig) -> None:
        told = self.refused(rig, job_folder=str(rig.folder / "a" / "jobs"))
        assert f"expected a folder outside {rig.folder / 'a'}, which is the gateway's" in told

    def test_with_a_folder_that_others_may_change(self, rig: SlurmRig) -> None:
        folder = Path(rig.options["job_folder"])
        folder.mkdir()
        folder.chmod(0o777)
        assert "everybody may change" in self.refused(rig)
        folder.chmod(0o755)
        os.chown(folder, pwd.getpwnam(CMS).pw_uid, -1)
        assert "expected a folder of the gateway's own" in self.refused(rig)

    def test_with_a_slurm_conf_that_is_not_there(self, rig: SlurmRig) -> None:
        assert "slurm.conf: got 'nosuch.conf', expected the slurm.conf" in self.refused(rig, conf="nosuch.conf")

    def test_with_a_data_folder_that_guests_can_enter(self, rig: SlurmRig) -> None:
        data = Path(rig.options["job_folder"]).parent / "data"
        data.mkdir(mode=0o755)
        data.chmod(0o755)
        options = read_options(rig.options)
        assert [fault.field for fault in site_faults(options, [data])] == ["user"]
        data.chmod(0o700)
        assert list(site_faults(options, [data])) == []


def test_nothing_else_reads_what_a_job_has_written(shared: SlurmRig) -> None:
    """Also one that makes its own folder open to all: what lies above lets nobody look for it."""

    async def play() -> None:
        async with site(shared) as here:
            await said(here, start("atlas/alice", 1, "echo hello"))
            folder = work_folder(shared, 1)
            assert (folder.stat().st_mode & 0o777, folder.owner()) == (0o700, ATLAS)
            assert (folder / OUTPUT).owner() == ATLAS
            assert [path.stat().st_mode & 0o066 for path in (folder.parent, folder.parent.parent)] == [0, 0]

    asyncio.run(play())
