"""The options of a Slurm site, `[cluster.slurm]`. All have defaults."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pwd import getpwnam
from typing import Annotated

from leasehold.configuration.declaration import Choice, Flag, Seconds, Table, Text, Texts, TextTable, Whole
from leasehold.configuration.keys import Keys
from leasehold.model.errors import InvalidField


class OnSuspend(StrEnum):
    """What is done with a job whose lease is suspended.

    PAUSE    its processes are stopped, and Slurm gives its CPUs away; its memory stays where it is
    REQUEUE  it is ended and held, and begins again when it is resumed: for programs that keep checkpoints
    NONE     leases cannot be suspended here
    """

    PAUSE = "pause"
    REQUEUE = "requeue"
    NONE = "none"


def _user(name: str) -> str:
    """Check the name of a user as whom jobs may run."""
    try:
        found = getpwnam(name)
    except KeyError:
        raise InvalidField("user", name, "a user of this machine") from None
    if found.pw_uid == 0:
        raise InvalidField("user", name, "another user than root, whom no guest may be")
    if os.geteuid() not in {0, found.pw_uid}:
        raise InvalidField("user", name, "nothing, as only root may submit jobs for others")
    return name


@dataclass(frozen=True, slots=True)
class SlurmOptions:
    """The options of one site."""

    conf: Annotated[str, Text("the `slurm.conf` of the cluster", unset="the machine's own")] = ""
    cluster: Annotated[str, Text("its name, where `slurmdbd` knows several", unset="that of `conf`")] = ""
    partition: Annotated[
        str, Text("where guests' jobs go; its nodes are those that count", unset="the default one, and all nodes")
    ] = ""
    qos: Annotated[str, Text("of guests' jobs", unset="none")] = ""
    account: Annotated[str, Text("of guests' jobs", unset="none")] = ""
    user: Annotated[
        str,
        Text(
            "the user of probes, and of guests' jobs that `users` does not name",
            more=" ([why](#users-for-guests-commands))",
            unset="none",
            convert=_user,
        ),
    ] = ""
    users: Annotated[
        Mapping[str, str], TextTable("the users of guests' jobs, by consumer, VO or group", convert=_user)
    ] = field(default_factory=dict)
    run_as_gateway: Annotated[bool, Flag("whether guests' jobs may run as the gateway's own user; never as root")] = (
        False  # which can read its tokens
    )
    cpus_per_vm: Annotated[int, Whole("CPUs of a VM")] = 1
    memory: Annotated[bool, Flag("whether memory is a consumable resource, as CPUs are")] = False
    nice: Annotated[int, Whole("how far guests' jobs step back in the queue", least=0)] = 100_000
    suspend: Annotated[
        OnSuspend, Choice("what is done with a Suspendable lease: pause, requeue or none", of=OnSuspend)
    ] = OnSuspend.PAUSE
    suspended_jobs: Annotated[bool, Flag("whether native jobs that are suspended keep their room")] = True
    extra: Annotated[tuple[str, ...], Texts("more options for `sbatch`", more=', as `["--constraint=avx2"]`')] = ()
    environment: Annotated[Mapping[str, str], TextTable("the environment of guests' commands")] = field(
        default_factory=dict
    )
    job_folder: Annotated[
        str, Text("where guests' jobs write, seen by the gateway and all nodes; required", unset="none")
    ] = ""
    modules: Annotated[
        tuple[str, ...], Texts("folders of modulefiles, which all nodes have", more=', as `["/opt/modulefiles"]`')
    ] = ()
    modules_command: Annotated[
        str,
        Text("a command that lists more modules", more=""", as `"bash -lc 'module -t avail'"`""", unset="none"),
    ] = ""
    probe_every_ms: Annotated[int, Seconds("how often a probe looks what is installed on each node; 0: never")] = (
        86_400_000
    )
    look_every_ms: Annotated[
        int, Seconds("how often `squeue` is run", more=" while there are no orders", least_ms=1)
    ] = 2_000
    answer_within_ms: Annotated[int, Seconds("how long a command of Slurm's may take", least_ms=1)] = 15_000


OPTIONS = Table(SlurmOptions, "Its machines, which belong to Slurm.")


def read_options(options: Mapping[str, object]) -> SlurmOptions:
    """Read the options; raises InvalidField or UnknownName with the key as field."""
    read = OPTIONS.read(Keys(options))
    if read.memory and read.suspend is OnSuspend.PAUSE:
        raise InvalidField(
            "suspend",
            read.suspend.value,
            "requeue or none where memory = true: a paused job keeps its memory",
        )
    return read
