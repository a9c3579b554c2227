"""As which Unix user does a guest's job run, and is the rest of the machine safe from it?

A lease runs commands of its consumer's choice on the nodes. So those run as a user who has nothing else: not as
root, not as the gateway, and consumers who do not trust each other as different users.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from pwd import getpwnam, getpwuid

from leasehold.model.errors import InvalidField
from leasehold.service.drivers.slurm.options import SlurmOptions
from leasehold.sharing.parties import prefixes

_FOR_GROUP, _FOR_EVERYBODY = 0o020, 0o002
_STICKY = 0o1000


@dataclass(frozen=True, slots=True)
class JobUser:
    """A user of this machine and of all nodes, as whom jobs run; ``is_gateway``: it is the gateway's own."""

    name: str
    uid: int
    gid: int
    home: str
    is_gateway: bool = False

    @classmethod
    def named(cls, name: str) -> "JobUser":
        """Look a user up; raises KeyError where there is none."""
        found = getpwnam(name)
        return cls(name, found.pw_uid, found.pw_gid, found.pw_dir, found.pw_uid == os.geteuid())

    @classmethod
    def of_gateway(cls) -> "JobUser":
        """The user as whom this process runs."""
        found = getpwuid(os.geteuid())
        return cls(found.pw_name, os.geteuid(), os.getegid(), found.pw_dir, is_gateway=True)

    @property
    def sbatch_options(self) -> dict[str, str]:
        """How ``sbatch`` submits for this user; only root may. Without its group, a job would run with root's."""
        return {} if self.is_gateway else {"uid": self.name, "gid": str(self.gid)}

    @property
    def environment(self) -> dict[str, str]:
        """What a job of this user finds in its environment."""
        return {} if self.is_gateway else {"USER": self.name, "HOME": self.home}


class JobUsers:
    """The users of one site.

    ``default``  as whom probes run, and the jobs of consumers that are not named; None: of those none are taken
    """

    def __init__(self, options: SlurmOptions) -> None:
        self._by_account = {account: JobUser.named(name) for account, name in options.users.items()}
        self.default: JobUser | None = None
        if options.user:
            self.default = JobUser.named(options.user)
        elif options.run_as_gateway:
            self.default = JobUser.of_gateway()
        self.uids = frozenset(user.uid for user in self.all())

    def of(self, account: str) -> JobUser | None:
        """Find the user for a consumer, by the longest of the groups that it is in; None: there is none."""
        named = (self._by_account[path] for path in reversed(prefixes(account)) if path in self._by_account)
        return next(named, self.default)

    def all(self) -> list[JobUser]:
        """List every user as whom jobs may run."""
        return [*self._by_account.values(), *([self.default] if self.default else [])]


def check_site(site: str, options: SlurmOptions, private: Sequence[Path]) -> None:
    """Refuse a site whose guests could get at the gateway; raises InvalidField for what lets them.

    ``private`` are the folders that no guest may enter.
    """
    for fault in site_faults(options, private):
        raise InvalidField(f"cluster {site}: slurm.{fault.field}", fault.value, fault.expected)


def site_faults(options: SlurmOptions, private: Sequence[Path]) -> Iterator[InvalidField]:
    """List what keeps a site from being opened: what lets guests get at the gateway, or is missing."""
    if options.conf and not os.access(options.conf, os.R_OK):
        yield InvalidField("conf", options.conf, "the slurm.conf of the cluster, a file that can be read")
    users = JobUsers(options).all()
    guests = [user for user in users if not user.is_gateway]
    yield from _user_faults(options, users)
    yield from _folder_faults(options, guests, private)
    for user in guests:
        for folder in private:
            if may_enter(user, folder):
                yield InvalidField("user", user.name, f"a user who cannot enter {folder}: chmod 700 {folder}")


def _user_faults(options: SlurmOptions, users: Sequence[JobUser]) -> Iterator[InvalidField]:
    if not options.user and not options.users and not options.run_as_gateway:
        expected = (
            "a Unix user for guests' jobs, or a table [cluster.slurm.users] of them: without, they would run as"
            f" the gateway's own user {JobUser.of_gateway().name}, and could read its tokens"
        )
        yield InvalidField("user", None, expected)
    if options.run_as_gateway and os.geteuid() == 0:
        yield InvalidField("run_as_gateway", value=True, expected="false: the gateway runs as root")
    for user in users:
        if user.is_gateway and not options.run_as_gateway:
            expected = "another user than the gateway's own, whose tokens guests could read"
            yield InvalidField("user", user.name, expected)


def _folder_faults(options: SlurmOptions, guests: Sequence[JobUser], private: Sequence[Path]) -> Iterator[InvalidField]:
    if not options.job_folder:
        expected = "a folder outside the data folder, under the same path on the gateway and on all nodes"
        yield InvalidField("job_folder", None, expected)
        return
    folder = Path(options.job_folder).resolve()
    for closed in private:
        if folder.is_relative_to(closed.resolve()):
            yield InvalidField("job_folder", str(folder), f"a folder outside {closed}, which is the gateway's")
    for path in filter(Path.exists, (folder, *folder.parents)):
        others = _who_else_may_change(path) if path == folder else _who_else_may_replace(path, guests)
        if others:
            yield InvalidField("job_folder", str(folder), f"a folder of the gateway's own: {others} may change {path}")


def _who_else_may_change(folder: Path) -> str:
    """Say which others can make and rename what lies in the job folder; empty where none can."""
    found = folder.stat()
    if found.st_uid not in {0, os.geteuid()}:
        return f"user {found.st_uid}"
    if found.st_mode & _FOR_EVERYBODY:
        return "everybody"
    return "its group" if found.st_mode & _FOR_GROUP else ""


def _who_else_may_replace(folder: Path, guests: Sequence[JobUser]) -> str:
    """Say which others can put something else in the place of ours, in a folder above; empty where none can.

    Above there may be other people and groups, as long as no guest is one of them: as root the gateway would then
    work in whatever a guest has put there.
    """
    found = folder.stat()
    others = [guest for guest in guests if guest.uid == found.st_uid]  # sticky or not, its owner may do anything
    if not others and not found.st_mode & _STICKY:
        if found.st_mode & _FOR_EVERYBODY:
            return "everybody"
        if found.st_mode & _FOR_GROUP:  # an access list looks the same
            others = [
                guest
                for guest in guests
                if found.st_gid in os.getgrouplist(guest.name, guest.gid) or _finds(guest, 'test -w "$1"', folder)
            ]
    return f"user {others[0].name}" if others else ""


def may_enter(user: JobUser, folder: Path) -> bool:
    """Whether a user can read or enter a folder."""
    return _finds(user, 'test -r "$1" || test -x "$1"', folder)


def _finds(user: JobUser, true: str, folder: Path) -> bool:
    """Whether something is true of a folder: tried as that user, so that access lists count too."""
    done = subprocess.run(  # noqa: S603 - our own words, and a path
        ["/bin/sh", "-c", true, "sh", folder],
        user=user.uid,
        group=user.gid,
        extra_groups=os.getgrouplist(user.name, user.gid),
        cwd="/",
        env={},
        check=False,
    )
    return done.returncode == 0
