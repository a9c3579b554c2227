"""Slurm clusters for a while: private ones on this machine, in a folder of their own, and gone with it.

::

    with slurm_clusters("alpha", "beta") as (alpha, beta):
        alpha.run("sbatch", "--wrap", "sleep 60")
        alpha.kill_node("alpha1")

Each has a controller and three nodes of four CPUs, all on loopback, with a munge daemon between them.
Everything runs in namespaces of its own (`Namespaces`), which end with the process that made
them, jobs and all, even by kill -9. Only root can have that. ``python -m leasehold.testing.slurm alpha --
COMMAND`` runs a cluster for as long as a command runs; meanwhile ``alpha.conf`` leads to its slurm.conf, and
``alpha.jobs`` to a folder that other users can get to.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from leasehold.model.errors import LeaseholdError
from leasehold.testing.debian import ProgramMissing, find_or_install

HOST = "leasehold"

_FIRST = (
    'echo "$1" > /proc/sys/kernel/hostname && mount --bind "$2" /etc/hosts && echo ready'
    " && trap '' CHLD && exec cat"  # an ignored SIGCHLD: the kernel buries orphans
)
_GRACE_S = 20


class NoNamespaces(LeaseholdError):
    """The kernel refused to create namespaces; contains its error."""


@dataclass(frozen=True, slots=True)
class Resident:
    """One program that runs in namespaces."""

    process: subprocess.Popen[bytes]
    pid: int

    def stop(self) -> None:
        """Ask it to end, and wait until it has; kill it where it does not."""
        self._send(signal.SIGTERM)
        try:
            self.process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def reload(self) -> None:
        """Ask it to read its configuration again."""
        self._send(signal.SIGHUP)

    def kill(self) -> None:
        """Kill it, and wait until it is gone."""
        self._send(signal.SIGKILL)
        self.process.wait()

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(self.pid, number)


class Namespaces:
    """Namespaces of processes, mounts and host name for the length of a ``with`` block.

    With the first process in them, the kernel ends all others, also those that have become daemons of their own.
    The first ends with the thread that made it, so that nothing is left of a maker that was killed with kill -9.
    Inside, the host is called `HOST`; the network is that of the machine. ``home`` is a folder for their own files.

    Raises NoNamespaces where they cannot be had: only root can make them.
    """

    def __init__(self, home: Path) -> None:
        hosts = home / "hosts"
        hosts.write_text(f"127.0.0.1 localhost {HOST}\n", encoding="utf-8")
        namespaces = ("--pid", "--mount", "--uts", "--fork", "--kill-child", "--mount-proc")
        self._maker = subprocess.Popen(  # noqa: S603 - our own
            ["setpriv", "--pdeathsig", "KILL", "unshare", *namespaces, "sh", "-c", _FIRST, "sh", HOST, hosts],  # noqa: S607
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._maker.stdout is not None
        if self._maker.stdout.readline() != b"ready\n":
            raise NoNamespaces(f"no namespaces: {self._maker.communicate()[1].decode().strip()}")
        (self._first,) = _children(self._maker.pid)
        self._residents: list[Resident] = []

    def start(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Resident:
        """Start a program that stays in the foreground."""
        enter = ["nsenter", "--target", str(self._first), "--pid", "--mount", "--uts"]
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603 - our own
                [*enter, *command],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        resident = Resident(process, _only_child(process))
        self._residents.append(resident)
        return resident

    def kill_with_makers(self, environment: str) -> None:
        """Kill all that has this in its environment (``NAME=value``), those that started it first."""
        wanted = environment.encode()
        inside = self._inside()
        for pid in inside:
            if wanted in _read(pid, "environ").split(b"\0"):
                for maker in _line_of(pid, inside):
                    with suppress(ProcessLookupError):
                        os.kill(maker, signal.SIGKILL)

    def close(self) -> None:
        """End everything inside, and wait until it is gone."""
        self._maker.communicate()
        for one in self._residents:
            one.process.wait()

    def _inside(self) -> set[int]:
        """Find all processes in the namespace, except the first, whose end would end them all."""
        namespace = _namespace(self._first)
        pids = (int(folder.name) for folder in Path("/proc").glob("[0-9]*"))
        return {pid for pid in pids if _namespace(pid) == namespace} - {self._first}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _line_of(pid: int, inside: set[int]) -> list[int]:
    """Give a process and those it descends from, the oldest first, none of whom lives outside."""
    line: list[int] = []
    while pid in inside:
        line.insert(0, pid)
        pid = _parent(pid)
    return line


def _namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _parent(pid: int) -> int:
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if fields else 0


def _children(pid: int) -> list[int]:
    return [int(child) for child in _read(pid, f"task/{pid}/children").split()]


def _only_child(process: "subprocess.Popen[bytes]") -> int:
    """Wait for the child that nsenter makes in the namespace."""
    while process.poll() is None:
        for child in _children(process.pid):
            return child
    raise NoNamespaces(f"nsenter ended with status {process.returncode}")


PACKAGES = ("slurm-wlm", "slurm-wlm-basic-plugins", "munge")
ACCOUNTING_PACKAGES = ("slurmdbd", "slurm-wlm-mysql-plugin", "mariadb-server")
NODES = 3
CPUS_PER_NODE = 4
MEMORY_PER_NODE_MIB = 2_000
IDLE = "IDLE"

_PREFIX = "leasehold-slurm-"
_PATIENCE_S = 120
_POLL_S = 0.05
_PORTS = range(16_000, 32_000)
"""Below those that the kernel gives to connections, so that what was free a moment ago still is."""


class SlurmFailed(LeaseholdError):
    """A cluster could not be started, or a command on it failed; contains its output."""


@dataclass(slots=True)
class SlurmCluster:
    """One running cluster.

    ``conf``   its slurm.conf: with ``SLURM_CONF=conf`` every Slurm command speaks to it
    ``nodes``  the names of its nodes, as ``alpha1``
    """

    name: str
    folder: Path
    nodes: tuple[str, ...]
    cpus_per_node: int
    _namespaces: Namespaces
    _port: int
    _daemons: dict[str, Resident] = field(default_factory=dict)

    @property
    def conf(self) -> Path:
        """Its slurm.conf."""
        return self.folder / "slurm.conf"

    @property
    def slots(self) -> int:
        """How many CPUs it has in all."""
        return len(self.nodes) * self.cpus_per_node

    def run(self, *command: str) -> str:
        """Run a Slurm command in its folder, and give what it wrote; raises SlurmFailed where it failed.

        There a job without `--output` leaves its ``slurm-N.out``.
        """
        done = subprocess.run(  # noqa: S603 - our own
            command,
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        if done.returncode:
            raise SlurmFailed(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def environment(self) -> dict[str, str]:
        """What Slurm commands have to find in their environment to speak to this cluster."""
        return os.environ | {"PATH": _path(), "SLURM_CONF": str(self.conf)}

    def submit(self, *options: str, command: str = "sleep 300") -> str:
        """Give it a job as one of its users would, and return the job's number."""
        output = str(self.folder / "native-%j.log")
        submitted = self.run("sbatch", "--parsable", f"--output={output}", *options, "--wrap", command)
        return submitted.strip().partition(";")[0]

    def state_of(self, job: str) -> str:
        """Give the state of a job, as ``RUNNING``; empty where it is not known (any more)."""
        with suppress(SlurmFailed):
            return self.run("squeue", "--noheader", "--states=all", "--format=%T", "--jobs", job).strip()
        return ""

    def until(self, what: Callable[[], bool], so_long_s: float = _PATIENCE_S) -> None:
        """Wait until something is so; raises SlurmFailed where it never is."""
        give_up_s = time.monotonic() + so_long_s
        while not what():
            if time.monotonic() > give_up_s:
                raise SlurmFailed(f"cluster {self.name}: not so within {so_long_s:g} s; {self.run('squeue')}")
            time.sleep(_POLL_S)

    def until_state(self, job: str, *states: str) -> None:
        """Wait until a job is in one of these states."""
        self.until(lambda: self.state_of(job) in states)

    def until_idle(self) -> None:
        """Wait until every node is up and has nothing to do."""
        self.until(lambda: set(self._node_states()) == {IDLE})

    def clear(self) -> None:
        """Cancel every job, mend every node, and wait until all is idle again."""
        jobs = self.run("squeue", "--noheader", "--array", "--format=%A").split()
        if jobs:
            self.run("scancel", *jobs)
        for node in self.nodes:
            self.start_node(node)
            with suppress(SlurmFailed):  # it complains where there is nothing to resume
                self.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
        self.until_idle()

    # daemons

    def start_controller(self) -> None:
        """Start slurmctld, and wait until it answers; where it runs there is nothing to do."""
        self._start("slurmctld", ["slurmctld", "-D", "-f", str(self.conf)])
        self.until(self._controller_answers)
        for node in self.nodes:
            if node in self._daemons:  # it says at once that it is there, else only when it is asked next
                self._daemons[node].reload()

    def stop_controller(self) -> None:
        """Stop slurmctld as an operator would; it writes its state down first."""
        self._daemons.pop("slurmctld").stop()

    def kill_controller(self) -> None:
        """Kill slurmctld with SIGKILL."""
        self._daemons.pop("slurmctld").kill()

    def start_node(self, node: str) -> None:
        """Start slurmd on a node; where it runs there is nothing to do."""
        self._start(node, ["slurmd", "-D", "-N", node, "-f", str(self.conf)])

    def kill_node(self, node: str) -> None:
        """Lose a node: its slurmd, and all that runs on it."""
        self._daemons.pop(node).kill()
        self._namespaces.kill_with_makers(f"SLURMD_NODENAME={node}")

    def kill_slurmd(self, node: str) -> None:
        """Kill only slurmd on a node; its jobs keep running."""
        self._daemons.pop(node).kill()

    def _start(self, name: str, command: Sequence[str]) -> None:
        if name not in self._daemons:
            log = self.folder / "log" / f"{name}.out"
            self._daemons[name] = self._namespaces.start(command, log, self.environment())

    def _controller_answers(self) -> bool:
        """Whether it accepts connections, and then answers: a command sent too early waits for seconds."""
        with suppress(SlurmFailed, ConnectionError):
            socket.create_connection(("127.0.0.1", self._port)).close()
            self.run("scontrol", "--quiet", "show", "node")
            return True
        return False

    def _node_states(self) -> list[str]:
        with suppress(SlurmFailed):
            shown = self.run("scontrol", "--oneliner", "show", "node")
            return [word[6:] for word in shown.split() if word.startswith("State=")]
        return []


@contextmanager
def slurm_clusters(*names: str, gpus: Sequence[str] = (), **settings: str) -> Iterator[tuple[SlurmCluster, ...]]:
    """Run a cluster of each name for the length of the block.

    ``gpus`` are those of the first nodes of each, as ``("a100:2", "", "t4:1")``: Slurm counts them, and there are none.
    ``settings`` go into each slurm.conf, as ``SelectTypeParameters="CR_Core"``. ProgramMissing where Slurm is
    not installed and cannot be, or we are not root; SlurmFailed where it does not start.
    """
    install()
    with _running(names, (NODES, CPUS_PER_NODE), settings, gpus, accounting=False) as clusters:
        yield clusters


@contextmanager
def accounted_cluster(
    name: str, nodes: int = NODES, cpus_per_node: int = CPUS_PER_NODE, **settings: str
) -> Iterator[SlurmCluster]:
    """Run a cluster with a slurmdbd and its database, so that ``sacct`` answers; otherwise as `slurm_clusters`."""
    install()
    for package in ACCOUNTING_PACKAGES:
        find_or_install(_installed(package), "Slurm's accounting", package)
    with _running([name], (nodes, cpus_per_node), settings, (), accounting=True) as (cluster,):
        yield cluster


@contextmanager
def _running(
    names: Sequence[str], size: tuple[int, int], settings: dict[str, str], gpus: Sequence[str], *, accounting: bool
) -> Iterator[tuple[SlurmCluster, ...]]:
    _clear_up_after_the_dead()
    home = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    home.chmod(0o755)  # guests' jobs may run as another user
    try:
        with Namespaces(home) as namespaces:
            _start_munge(home, namespaces)
            if accounting:
                settings = _start_accounting(names, home, namespaces) | settings
            yield tuple(_start(name, home, namespaces, size, settings, gpus) for name in names)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _clear_up_after_the_dead() -> None:
    """Remove the folders of processes that were killed before they could."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        maker = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if maker.isdigit() and not Path("/proc", maker).exists():
            shutil.rmtree(folder, ignore_errors=True)


def install() -> None:
    """See that Slurm is here, as `find_or_install` does; only root can run one."""
    if os.geteuid() != 0:
        raise ProgramMissing("a private Slurm", " ".join(PACKAGES), "only root can run one")
    for package in PACKAGES:
        find_or_install(_installed(package), "Slurm", package)


def _installed(package: str) -> Callable[[], Path | None]:
    needed = {"munge": "munged", "slurm-wlm": "slurmctld", "slurmdbd": "slurmdbd", "mariadb-server": "mariadbd"}.get(
        package
    )
    if needed is None:
        plugin = "accounting_storage_mysql" if package == "slurm-wlm-mysql-plugin" else "select_cons_tres"
        return lambda: next(Path("/usr/lib").glob(f"*/slurm*/{plugin}.so"), None)
    return lambda: Path(found) if (found := shutil.which(needed, path=_path())) else None


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def _start_munge(home: Path, namespaces: Namespaces) -> None:
    folder = home / "munge"
    folder.mkdir(mode=0o755)
    key = folder / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    files = {"key-file": key, "socket": _munge_socket(home), "pid-file": folder / "pid"}
    files |= {"log-file": folder / "log", "seed-file": folder / "seed"}
    options = [f"--{name}={path}" for name, path in files.items()]
    namespaces.start(["munged", "--foreground", "--force", *options], folder / "out", os.environ | {"PATH": _path()})
    give_up_s = time.monotonic() + _PATIENCE_S
    while not _munge_socket(home).exists():
        if time.monotonic() > give_up_s:
            raise SlurmFailed(f"munged: {(folder / 'out').read_text()}")
        time.sleep(_POLL_S)


def _munge_socket(home: Path) -> Path:
    return home / "munge" / "socket"


def _start_accounting(names: Sequence[str], home: Path, namespaces: Namespaces) -> dict[str, str]:
    """Start a database and slurmdbd with these clusters; gives the settings by which a controller reports to it."""
    folder = home / "accounting"
    folder.mkdir(mode=0o755)
    database_port, port = _free_ports(2)
    environment = os.environ | {"PATH": _path(), "SLURM_CONF": str(folder / "slurmdbd.conf")}
    data = folder / "data"
    made = subprocess.run(  # noqa: S603 - our own
        ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}", "--skip-test-db"],  # noqa: S607
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise SlurmFailed(f"mariadb-install-db: {made.stderr.strip()}")
    # Whoever reaches the port may do everything: it is on loopback, and the data are gone with the test.
    options = [
        "--user=root",
        "--bind-address=127.0.0.1",
        "--skip-grant-tables",
        "--skip-name-resolve",
        "--skip-log-bin",
    ]
    options += [f"--datadir={data}", f"--socket={folder / 'socket'}", f"--pid-file={folder / 'pid'}"]
    options += [f"--port={database_port}", "--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900"]
    namespaces.start(["mariadbd", "--no-defaults", *options], folder / "mariadbd.out", environment)
    _wait_for_port(database_port, folder / "mariadbd.out")
    values = {
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={_munge_socket(home)}",
        "DbdHost": HOST,
        "DbdAddr": "127.0.0.1",
        "DbdPort": str(port),
        "SlurmUser": "root",
        "LogFile": str(folder / "slurmdbd.log"),
        "PidFile": str(folder / "slurmdbd.pid"),
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "127.0.0.1",
        "StoragePort": str(database_port),
        "StorageUser": "root",
        "StorageLoc": "slurm_acct_db",
    }
    conf = folder / "slurmdbd.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in values.items()), encoding="utf-8")
    conf.chmod(0o600)
    namespaces.start(["slurmdbd", "-D"], folder / "slurmdbd.out", environment)
    _wait_for_port(port, folder / "slurmdbd.log")
    settings = {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "127.0.0.1",
        "AccountingStoragePort": str(port),
        "AccountingStoragePass": str(_munge_socket(home)),
    }
    _add_clusters(names, folder, settings, home)
    return settings


def _add_clusters(names: Sequence[str], folder: Path, settings: Mapping[str, str], home: Path) -> None:
    """Tell the accounting about the clusters, before their controllers report to it."""
    values = {"ClusterName": "none", "SlurmctldHost": HOST, "AuthInfo": f"socket={_munge_socket(home)}", **settings}
    conf = folder / "slurm.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in values.items()), encoding="utf-8")
    environment = os.environ | {"PATH": _path(), "SLURM_CONF": str(conf)}
    command = ["sacctmgr", "--immediate", "add", "cluster", *names]
    added = subprocess.run(  # noqa: S603 - our own
        command, env=environment, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
    )
    if added.returncode:
        raise SlurmFailed(f"{' '.join(command)}: {added.stdout.strip()} {added.stderr.strip()}")


def _wait_for_port(port: int, log: Path) -> None:
    give_up_s = time.monotonic() + _PATIENCE_S
    while True:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        if time.monotonic() > give_up_s:
            raise SlurmFailed(f"{log.stem}: {log.read_text() if log.exists() else 'does not answer'}")
        time.sleep(_POLL_S)


def _start(
    name: str,
    home: Path,
    namespaces: Namespaces,
    size: tuple[int, int],
    settings: dict[str, str],
    gpus: Sequence[str],
) -> SlurmCluster:
    """Start a cluster of so many nodes with so many CPUs each."""
    count, cpus_per_node = size
    folder = home / name
    for part in ("state", "spool", "log"):
        (folder / part).mkdir(parents=True)
    nodes = tuple(f"{name}{number}" for number in range(1, count + 1))
    port, *ports = _free_ports(1 + len(nodes))
    cluster = SlurmCluster(name, folder, nodes, cpus_per_node, namespaces, port)
    of_nodes = dict(zip(nodes, gpus, strict=False))
    cluster.conf.write_text(_conf(cluster, home, [port, *ports], settings, of_nodes), encoding="utf-8")
    (folder / "gres.conf").write_text(_gres(of_nodes, folder), encoding="utf-8")
    cluster.start_controller()
    for node in nodes:
        cluster.start_node(node)
    cluster.until_idle()
    return cluster


def _conf(
    cluster: SlurmCluster, home: Path, ports: list[int], settings: dict[str, str], gpus: Mapping[str, str]
) -> str:
    controller, *others = ports
    folder = cluster.folder
    values = {
        "ClusterName": cluster.name,
        "SlurmctldHost": f"{HOST}(127.0.0.1)",
        "SlurmctldPort": str(controller),
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "CryptoType": "crypto/munge",
        # cred_expire: a requeued job waits that long, 120 s otherwise
        "AuthInfo": f"socket={_munge_socket(home)},cred_expire=5",
        "StateSaveLocation": str(folder / "state"),
        "SlurmdSpoolDir": str(folder / "spool" / "%n"),
        "SlurmctldPidFile": str(folder / "slurmctld.pid"),
        "SlurmdPidFile": str(folder / "slurmd-%n.pid"),
        "SlurmctldLogFile": str(folder / "log" / "slurmctld"),
        "SlurmdLogFile": str(folder / "log" / "slurmd-%n"),
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/none",
        "AccountingStorageType": "accounting_storage/none",
        "JobCompType": "jobcomp/none",
        "MpiDefault": "none",
        "ReturnToService": "2",
        "SlurmdTimeout": "5",
        "SlurmctldTimeout": "30",
        "MessageTimeout": "5",
        "KillWait": "1",
        "MinJobAge": "300",
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": "bf_interval=1,sched_interval=1,batch_sched_delay=0,sched_min_interval=0",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "SlurmdParameters": "config_overrides",
        "JobRequeue": "1",
        "DebugFlags": "NO_CONF_HASH",
    }
    values |= {"GresTypes": "gpu"} if any(gpus.values()) else {}
    values |= settings
    lines = [f"{key}={value}" for key, value in values.items()]
    both = zip(cluster.nodes, others, strict=True)
    lines += [_node_line(node, port, cluster.cpus_per_node, gpus.get(node, "")) for node, port in both]
    lines.append(f"PartitionName=main Nodes={','.join(cluster.nodes)} Default=YES MaxTime=INFINITE State=UP")
    return "\n".join(lines) + "\n"


def _gres(gpus: Mapping[str, str], folder: Path) -> str:
    """Write gres.conf, with a file in place of each device: Slurm looks no closer, and binds nothing."""
    lines = ["AutoDetect=off"]
    for node, text in gpus.items():
        model, _, count = text.partition(":")
        for number in range(int(count or 0)):
            device = folder / f"{node}-gpu{number}"
            device.touch()
            lines.append(f"NodeName={node} Name=gpu Type={model} File={device}")
    return "\n".join(lines) + "\n"


def _node_line(node: str, port: int, cpus: int, gpus: str) -> str:
    return (
        f"NodeName={node} NodeHostname={HOST} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} Boards=1"
        f" SocketsPerBoard=1 CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory={MEMORY_PER_NODE_MIB}"
        f"{f' Gres=gpu:{gpus}' if gpus else ''}"
    )


def _free_ports(count: int) -> list[int]:
    """Find unused ports; two processes searching at once start at different ones."""
    ports: list[int] = []
    first = os.getpid() * 16 + time.monotonic_ns()
    for step in range(len(_PORTS)):
        port = _PORTS[(first + step) % len(_PORTS)]
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            ports.append(port)
        if len(ports) == count:
            return ports
    raise SlurmFailed("no free ports")


def main(arguments: Sequence[str]) -> int:
    """Run clusters of these names for as long as the command behind ``--`` does; returns its exit status."""
    names, command = _parted(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with slurm_clusters(*names) as clusters, ExitStack() as links, suppress(KeyboardInterrupt):
        for cluster in clusters:
            jobs = cluster.folder / "jobs"
            jobs.mkdir(mode=0o755)
            for ending, goal in (("conf", cluster.conf), ("jobs", jobs)):
                link = Path(f"{cluster.name}.{ending}")
                link.symlink_to(goal)
                links.callback(link.unlink)
        return subprocess.run(command, check=False).returncode  # noqa: S603 - the caller's own
    return 130


def _parted(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    if "--" not in arguments:
        return arguments, ("sleep", "infinity")
    border = arguments.index("--")
    return arguments[:border], arguments[border + 1 :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
