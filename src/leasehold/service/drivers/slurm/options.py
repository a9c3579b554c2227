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
from leasehold.service.drivers.images import ImageTable, command_prefix
from leasehold.service.drivers.protocol import Capabilities


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

    conf: Annotated[str, Text("`slurm.conf` of the cluster", unset="that of the machine")] = ""
    cluster: Annotated[str, Text("name of the cluster, if `slurmdbd` knows several", unset="that of `conf`")] = ""
    partition: Annotated[
        str, Text("partition of guests' jobs; only its nodes count", unset="the default one, and all nodes")
    ] = ""
    qos: Annotated[str, Text("QOS of guests' jobs", unset="none")] = ""
    account: Annotated[str, Text("account of guests' jobs", unset="none")] = ""
    user: Annotated[
        str,
        Text(
            "user of probes, and of guests' jobs without an entry in `users`",
            more=" ([why](#users-for-guests-commands))",
            unset="none",
            convert=_user,
        ),
    ] = ""
    users: Annotated[Mapping[str, str], TextTable("users of guests' jobs, by consumer, VO or group", convert=_user)] = (
        field(default_factory=dict)
    )
    run_as_gateway: Annotated[bool, Flag("guests' jobs may run as the user of the gateway; never as root")] = (
        False  # which can read its tokens
    )
    cpus_per_vm: Annotated[int, Whole("CPUs of a VM")] = 1
    memory: Annotated[bool, Flag("memory is a consumable resource, like CPUs")] = False
    nice: Annotated[int, Whole("nice value of guests' jobs in the queue", least=0)] = 100_000
    suspend: Annotated[
        OnSuspend, Choice("effect of suspending a Suspendable lease: pause, requeue or none", of=OnSuspend)
    ] = OnSuspend.PAUSE
    suspended_jobs: Annotated[bool, Flag("suspended native jobs keep their room")] = True
    extra: Annotated[
        tuple[str, ...], Texts("additional options of `sbatch`", more=', such as `["--constraint=avx2"]`')
    ] = ()
    environment: Annotated[Mapping[str, str], TextTable("environment of guests' commands")] = field(
        default_factory=dict
    )
    images: Annotated[
        Mapping[str, str],
        ImageTable(
            "commands that run the command of a lease in an image that it names",
            more=', such as `{ pytorch = "apptainer exec --nv /images/pytorch.sif" }`',
            convert=command_prefix,
        ),
    ] = field(default_factory=dict)
    job_folder: Annotated[
        str, Text("folder for the files of guests' jobs, visible to the gateway and all nodes; required", unset="none")
    ] = ""
    modules: Annotated[
        tuple[str, ...], Texts("folders of modulefiles that all nodes have", more=', such as `["/opt/modulefiles"]`')
    ] = ()
    modules_command: Annotated[
        str,
        Text("command that lists more modules", more=""", such as `"bash -lc 'module -t avail'"`""", unset="none"),
    ] = ""
    probe_every_ms: Annotated[int, Seconds("interval of the probes of each node's software; 0: never")] = 86_400_000
    look_every_ms: Annotated[int, Seconds("interval of `squeue`", more=" while no orders are open", least_ms=1)] = 2_000
    answer_within_ms: Annotated[int, Seconds("timeout of a Slurm command", least_ms=1)] = 15_000

    @property
    def able(self) -> Capabilities:
        """What its machines can do."""
        return Capabilities(
            suspend=self.suspend is not OnSuspend.NONE,
            migrate=False,
            commands=True,
            native_queue=True,
            notice=True,
            images=tuple(sorted(self.images)),
        )


OPTIONS = Table(SlurmOptions, "Machines of the site under Slurm.")


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
