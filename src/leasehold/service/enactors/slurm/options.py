"""What can the configuration say to a site whose machines belong to Slurm? All of it has a default."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pwd import getpwnam

from leasehold.configuration.keys import NOTHING, Keys
from leasehold.model.errors import InvalidField


class OnSuspend(StrEnum):
    """What is done with a job whose lease is suspended.

    PAUSE    its processes are stopped, and Slurm gives its CPUs away; its memory stays where it is
    REQUEUE  it is ended and held, and begins anew when it is resumed: for programs that keep checkpoints
    NONE     leases cannot be suspended here
    """

    PAUSE = "pause"
    REQUEUE = "requeue"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class SlurmOptions:
    """The options of one site.

    ``conf``             the slurm.conf of the cluster; empty: the machine's own
    ``cluster``          its name, where slurmdbd knows several; empty: the one of ``conf``
    ``partition``        where guests' jobs go; empty: the default partition, and all nodes count
    ``qos``, ``account``  what they are given; empty: nothing
    ``user``             as whom jobs run of whoever is not named in ``users``, and probes; empty: none do
    ``users``            as whom the jobs of a consumer run, or of a VO or a group and all who are in it
    ``run_as_gateway``   whether that may be the gateway's own user, who can read its tokens; never root
    ``cpus_per_vm``      how many CPUs a VM is
    ``memory``           whether Slurm gives memory out as it does CPUs: then guests' jobs ask for theirs
    ``nice``             how far they step back in the queue
    ``suspend``          what SUSPEND does
    ``suspended_jobs``   whether own jobs that somebody else suspended keep their room
    ``extra``            more words for sbatch
    ``environment``      what guests' commands find in their environment
    ``job_folder``       where jobs write, seen by us and by all nodes, and no part of the data folder
    ``modules``          folders of modulefiles that all nodes have; ``modules_command`` lists more of them
    ``probe_every_ms``   how often each node is asked what is installed there, by a small job; 0: never
    ``look_every_ms``    how often Slurm is asked while nothing is ordered
    ``answer_within_ms``  how long one of its commands may take
    """

    conf: str = ""
    cluster: str = ""
    partition: str = ""
    qos: str = ""
    account: str = ""
    user: str = ""
    users: Mapping[str, str] = field(default_factory=dict)
    run_as_gateway: bool = False
    cpus_per_vm: int = 1
    memory: bool = False
    nice: int = 100_000
    suspend: OnSuspend = OnSuspend.PAUSE
    suspended_jobs: bool = True
    extra: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    job_folder: str = ""
    modules: tuple[str, ...] = ()
    modules_command: str = ""
    probe_every_ms: int = 86_400_000
    look_every_ms: int = 2_000
    answer_within_ms: int = 15_000


def read_options(options: Mapping[str, object]) -> SlurmOptions:
    """Read the options; raises InvalidField or UnknownName with the key as field.

    The keys are the fields of `SlurmOptions`, its times as ``look_every_s``, ``answer_within_s`` and
    ``probe_every_s``.
    """
    keys, usual = Keys(options), SlurmOptions()
    read = SlurmOptions(
        **{name: keys.text(name, "") for name in ("conf", "cluster", "partition", "qos", "account")},
        user=_user(keys, "user", ""),
        users=_users(keys),
        run_as_gateway=keys.flag("run_as_gateway", default=usual.run_as_gateway),
        cpus_per_vm=keys.whole("cpus_per_vm", usual.cpus_per_vm),
        memory=keys.flag("memory", default=usual.memory),
        nice=keys.whole("nice", usual.nice, least=0),
        suspend=OnSuspend(keys.name_of("suspend", OnSuspend, usual.suspend)),
        suspended_jobs=keys.flag("suspended_jobs", default=usual.suspended_jobs),
        extra=keys.texts("extra", usual.extra),
        environment=_environment(keys),
        job_folder=keys.text("job_folder", ""),
        modules=keys.texts("modules", usual.modules),
        modules_command=keys.text("modules_command", ""),
        probe_every_ms=keys.milliseconds("probe_every_s", usual.probe_every_ms),
        look_every_ms=keys.milliseconds("look_every_s", usual.look_every_ms, least_ms=1),
        answer_within_ms=keys.milliseconds("answer_within_s", usual.answer_within_ms, least_ms=1),
    )
    keys.done()
    if read.memory and read.suspend is OnSuspend.PAUSE:
        raise InvalidField(
            "suspend",
            read.suspend.value,
            "requeue or none where memory = true: a paused job keeps its memory",
        )
    return read


def _users(keys: Keys) -> dict[str, str]:
    """Read for each consumer or group the name of its user."""
    table = keys.table("users")
    read = {account: _user(table, account) for account in table.left()}
    table.done()
    return read


def _user(keys: Keys, key: str, default: str = NOTHING) -> str:
    """Read the name of a user as whom jobs may run."""
    user = keys.text(key, default)
    if user:
        try:
            found = getpwnam(user)
        except KeyError:
            raise InvalidField(keys.where(key), user, "a user of this machine") from None
        if found.pw_uid == 0:
            raise InvalidField(keys.where(key), user, "another user than root, whom no guest may be")
        if os.geteuid() not in {0, found.pw_uid}:
            raise InvalidField(keys.where(key), user, "nothing, as only root may submit jobs for others")
    return user


def _environment(keys: Keys) -> dict[str, str]:
    """Read the names and values of a table; each is a text."""
    table = keys.table("environment")
    read = {name: table.text(name) for name in table.left()}
    table.done()
    return read
