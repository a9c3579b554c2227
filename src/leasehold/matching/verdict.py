"""Does a node satisfy needs? An ordered answer with a reason from a closed list; a sentence is made last."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Answer(IntEnum):
    """The two kinds of no, and yes: never < wait < fit."""

    NEVER = 0
    WAIT = 1
    FIT = 2


class Why(StrEnum):
    """Why it was answered so."""

    # never here
    SOFTWARE_NOT_THERE = "software-not-there"
    SOFTWARE_OTHER_VERSION = "software-other-version"
    TOO_FEW_CORES = "too-few-cores"
    TOO_LITTLE_MEMORY = "too-little-memory"
    CPU_TOO_SLOW = "cpu-too-slow"
    TOO_LITTLE_DISK = "too-little-disk"
    DEADLINE_TOO_TIGHT = "deadline-too-tight"
    TOO_FEW_NODES = "too-few-nodes"
    NO_IMAGE = "no-image"
    NO_HOST = "no-host"
    WAITED_TOO_LONG = "waited-too-long"
    RELIABILITY_OUT_OF_REACH = "reliability-out-of-reach"
    # not now
    FACTS_TOO_OLD = "facts-too-old"
    CORES_IN_USE = "cores-in-use"
    MEMORY_IN_USE = "memory-in-use"
    DISK_IN_USE = "disk-in-use"
    DEADLINE_BEHIND_QUEUE = "deadline-behind-queue"
    TAKEN_BY_OTHERS = "taken-by-others"
    # yes
    FITS = "fits"
    NO_PHYSICAL_NODE = "no-physical-node"


_SENTENCES: dict[Why, str] = {
    Why.SOFTWARE_NOT_THERE: "has not the software that is needed",
    Why.SOFTWARE_OTHER_VERSION: "has the software in another version than is needed",
    Why.TOO_FEW_CORES: "has fewer cores than are needed",
    Why.TOO_LITTLE_MEMORY: "has less memory than is needed",
    Why.CPU_TOO_SLOW: "has slower cores than are needed",
    Why.TOO_LITTLE_DISK: "has less disk than is needed",
    Why.DEADLINE_TOO_TIGHT: "could not finish before the deadline if it began now",
    Why.TOO_FEW_NODES: "asks for more nodes than there are that could serve it",
    Why.NO_IMAGE: "needs software that no image has, and that no image could be built with",
    Why.NO_HOST: "needs a virtual machine that no host has room for, even when empty",
    Why.WAITED_TOO_LONG: "was tried again as long as is allowed, and there was no room",
    Why.RELIABILITY_OUT_OF_REACH: "cannot be made as reliable as is asked by its deadline",
    Why.FACTS_TOO_OLD: "has not been looked at for too long to be relied upon",
    Why.CORES_IN_USE: "has the cores, but others use them",
    Why.MEMORY_IN_USE: "has the memory, but others use it",
    Why.DISK_IN_USE: "has the disk, but others use it",
    Why.DEADLINE_BEHIND_QUEUE: "would finish too late behind those who wait there",
    Why.TAKEN_BY_OTHERS: "could be served by nodes that went to jobs ahead of it",
    Why.FITS: "has all that is needed, and it is free",
    Why.NO_PHYSICAL_NODE: "gets a virtual machine, because no physical node has what it needs",
}


def sentence(why: Why) -> str:
    """Render a reason for a person."""
    return _SENTENCES[why]


@dataclass(frozen=True, slots=True, order=True)
class Verdict:
    """An answer with its reason, and the name of what is missing where there is one (a piece of software)."""

    answer: Answer
    why: Why
    what: str = ""


FITS = Verdict(Answer.FIT, Why.FITS)


def never(why: Why, what: str = "") -> Verdict:
    """Not here, whoever leaves."""
    return Verdict(Answer.NEVER, why, what)


def wait(why: Why, what: str = "") -> Verdict:
    """Not now; it may be different later."""
    return Verdict(Answer.WAIT, why, what)


_ORDER = tuple(Why)


def nearness(verdict: Verdict) -> tuple[int, str]:
    """Order verdicts by how far a node came: the list of reasons is in the order in which they are tested."""
    return _ORDER.index(verdict.why), verdict.what
