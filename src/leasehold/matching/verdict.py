"""Does a node satisfy needs? An ordered answer with a reason from a closed list; a sentence is made last."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Feasibility(IntEnum):
    """The two kinds of no, and yes: never < wait < fit."""

    NEVER = 0
    WAIT = 1
    FIT = 2


class Why(StrEnum):
    """Why it was answered so."""

    # never here
    SOFTWARE_NOT_THERE = "software-not-there"
    SOFTWARE_OTHER_VERSION = "software-other-version"
    TAKES_NO_FILES = "takes-no-files"
    TOO_FEW_CORES = "too-few-cores"
    TOO_LITTLE_MEMORY = "too-little-memory"
    CPU_TOO_SLOW = "cpu-too-slow"
    TOO_LITTLE_DISK = "too-little-disk"
    TOO_FEW_GPUS = "too-few-gpus"
    OTHER_GPU_MODEL = "other-gpu-model"
    GPUS_LENT_WHOLE = "gpus-lent-whole"
    DEADLINE_TOO_TIGHT = "deadline-too-tight"
    TOO_FEW_NODES = "too-few-nodes"
    NO_IMAGE = "no-image"
    NO_HOST = "no-host"
    WAITED_TOO_LONG = "waited-too-long"
    RELIABILITY_OUT_OF_REACH = "reliability-out-of-reach"
    # not now
    FACTS_TOO_OLD = "facts-too-old"
    NODES_DOWN = "nodes-down"
    CORES_IN_USE = "cores-in-use"
    MEMORY_IN_USE = "memory-in-use"
    DISK_IN_USE = "disk-in-use"
    GPUS_IN_USE = "gpus-in-use"
    DEADLINE_BEHIND_QUEUE = "deadline-behind-queue"
    TAKEN_BY_OTHERS = "taken-by-others"
    # yes
    FITS = "fits"
    NO_PHYSICAL_NODE = "no-physical-node"


SOFTWARE = frozenset({Why.SOFTWARE_NOT_THERE, Why.SOFTWARE_OTHER_VERSION})
"""Reasons that are about software alone."""

_SENTENCES: dict[Why, str] = {
    Why.SOFTWARE_NOT_THERE: "lacks the required software",
    Why.SOFTWARE_OTHER_VERSION: "has the software in a different version than required",
    Why.TAKES_NO_FILES: "is at a site that takes no files, and the job has some",
    Why.TOO_FEW_CORES: "has fewer cores than required",
    Why.TOO_LITTLE_MEMORY: "has less memory than required",
    Why.CPU_TOO_SLOW: "has slower cores than required",
    Why.TOO_LITTLE_DISK: "has less disk than required",
    Why.TOO_FEW_GPUS: "has fewer GPUs than required",
    Why.OTHER_GPU_MODEL: "has GPUs of a different model than required",
    Why.GPUS_LENT_WHOLE: "lends its GPUs only whole, and a fraction of one is required",
    Why.DEADLINE_TOO_TIGHT: "could not finish before the deadline if it started now",
    Why.TOO_FEW_NODES: "asks for more nodes than can serve it",
    Why.NO_IMAGE: "needs software that is in no image and cannot be built into one",
    Why.NO_HOST: "needs a virtual machine too large for any host",
    Why.WAITED_TOO_LONG: "found no room within the retry limit",
    Why.RELIABILITY_OUT_OF_REACH: "cannot be made as reliable as requested by its deadline",
    Why.FACTS_TOO_OLD: "has not been checked recently enough to be relied on",
    Why.NODES_DOWN: "could run on nodes that are down",
    Why.CORES_IN_USE: "has enough cores, but they are in use",
    Why.MEMORY_IN_USE: "has enough memory, but it is in use",
    Why.DISK_IN_USE: "has enough disk, but it is in use",
    Why.GPUS_IN_USE: "has enough GPUs, but they are in use",
    Why.DEADLINE_BEHIND_QUEUE: "would finish too late behind the jobs queued there",
    Why.TAKEN_BY_OTHERS: "could have run on nodes that were given to jobs ahead of it",
    Why.FITS: "has all that is required, and it is free",
    Why.NO_PHYSICAL_NODE: "gets a virtual machine, because no physical node has what it needs",
}


def sentence(why: Why) -> str:
    """Render a reason for a person."""
    return _SENTENCES[why]


@dataclass(frozen=True, slots=True, order=True)
class Verdict:
    """An answer with its reason, and the name of what is missing where there is one (a piece of software)."""

    answer: Feasibility
    why: Why
    what: str = ""


FITS = Verdict(Feasibility.FIT, Why.FITS)


def never(why: Why, what: str = "") -> Verdict:
    """Not here, even if all other jobs leave."""
    return Verdict(Feasibility.NEVER, why, what)


def wait(why: Why, what: str = "") -> Verdict:
    """Not now; it may be different later."""
    return Verdict(Feasibility.WAIT, why, what)


_ORDER = tuple(Why)


def nearness(verdict: Verdict) -> tuple[int, str]:
    """Order verdicts by how far a node came: the list of reasons is in the order in which they are tested."""
    return _ORDER.index(verdict.why), verdict.what
