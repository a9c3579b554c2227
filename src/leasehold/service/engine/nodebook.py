"""The nodes of all sites: what was last seen of each, how often it failed, and what is to be written of that.

What a node is like is found, and kept with the time at which it was seen: after a restart it is what is known
until somebody has looked again. A failure counts once, however often the node is seen with it.
"""

from collections.abc import Collection

from leasehold.jobs.events import JobEvent, NodeFell, NodeOffers, NodesSeen, SeenNode
from leasehold.jobs.job import Fault
from leasehold.matching.amounts import Amounts
from leasehold.matching.capabilities import Capabilities, Node
from leasehold.service.commands import JobNodesSeen, JobSiteSilent
from leasehold.service.enactors.facts import NodeFacts
from leasehold.service.engine.places import software_of, software_text
from leasehold.service.store.batch import Batch, Seen
from leasehold.service.store.rows import NodeRow

GONE = "is not among the nodes of its site any more"
_USUAL_BYTES_PER_S = 125_000_000
_FAULTS = {fault.value: fault for fault in Fault}


class NodeBook:
    """Reads what is seen of nodes; ``rows`` are all that were ever seen."""

    def __init__(self, rows: Collection[NodeRow]) -> None:
        """Begin with those in the store."""
        self.rows: dict[str, NodeRow] = {row["name"]: row for row in rows}
        self._changed: dict[str, NodeRow] = {}
        self._seen: dict[str, Seen] = {}

    def sites(self) -> list[str]:
        """List the sites that ever told of their nodes."""
        return sorted({row["site"] for row in self.rows.values()})

    def remembered(self, site: str, closed: Collection[str]) -> NodesSeen:
        """Tell again what was last seen of a site's nodes; ``closed`` are sites that take nobody now."""
        sound = (row for row in self.rows.values() if row["site"] == site and not row["fault"])
        return NodesSeen(site, tuple(_seen_node(row, closed) for row in sound))

    def see(self, command: JobNodesSeen, closed: Collection[str], now_ms: int) -> list[JobEvent]:
        """Take in all nodes of a site; those that have failed come first."""
        before = {name: row for name, row in self.rows.items() if row["site"] == command.site}
        there = {f"{command.site}/{facts.name}": facts for facts in command.nodes}
        for name, facts in there.items():
            self._keep(_row(name, command.site, facts, before.get(name), now_ms))
        for name in before.keys() - there.keys():
            self._be_gone(self.rows[name], now_ms)
        fell = [event for name in there if (event := self._fell(before.get(name), self.rows[name]))]
        offers = (self._offer(before.get(name), self.rows[name], closed) for name in there)
        return [*fell, self.remembered(command.site, closed), *(offer for offer in offers if offer)]

    def lose(self, command: JobSiteSilent, now_ms: int) -> list[JobEvent]:
        """A site does not answer: its nodes cannot be reached."""
        fault = Fault.NETWORK_FAILED
        events: list[JobEvent] = []
        for name, row in self.rows.items():
            if row["site"] == command.site and not row["fault"]:
                failed: NodeRow = {**row, "problem": command.why, "fault": fault.value, "failed_ms": now_ms}
                failed["failures"] += 1
                self._keep(failed)
                events.append(NodeFell(name, fault, command.why))
        return events

    # What is written

    def has_news(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._changed or self._seen)

    def save(self, batch: Batch) -> None:
        """Write everything into the store."""
        batch.save_nodes(list(self._changed.values()))
        batch.see_nodes(list(self._seen.values()))

    def saved(self) -> None:
        """Everything is in the store."""
        self._changed.clear()
        self._seen.clear()

    # How

    def _keep(self, row: NodeRow) -> None:
        """Keep what is new; where only what is free has changed, no more than that is written."""
        before = self.rows.get(row["name"])
        self.rows[row["name"]] = row
        is_known = before is not None and {**before, **_light(row)} == row
        if not is_known or row["name"] in self._changed:
            self._changed[row["name"]] = row
        else:
            self._seen[row["name"]] = _light(row)

    def _be_gone(self, row: NodeRow, now_ms: int) -> None:
        if row["problem"] != GONE:
            gone: NodeRow = {**row, "problem": GONE, "fault": Fault.NODE_DIED.value, "failed_ms": now_ms}
            gone["failures"] += 1
            self._keep(gone)

    def _fell(self, before: NodeRow | None, row: NodeRow) -> NodeFell | None:
        if not row["fault"] or (before is not None and before["fault"] == row["fault"]):
            return None
        return NodeFell(row["name"], _FAULTS[row["fault"]], row["problem"])

    def _offer(self, before: NodeRow | None, row: NodeRow, closed: Collection[str]) -> NodeOffers | None:
        """A node that has just become idle says so."""
        if before is None or row["problem"] or _is_idle(before) or not _is_idle(row):
            return None
        return NodeOffers(_seen_node(row, closed))


def node_of(row: NodeRow) -> Node:
    """Read a node as matching knows it."""
    capabilities = Capabilities(
        name=row["name"],
        total=Amounts(row["cores"], row["memory_mib"], row["disk_mib"]),
        cpu_mhz=row["cpu_mhz"],
        software=software_of(row["software"]),
        place=row["site"],
        bytes_per_s=row["bytes_per_s"] or _USUAL_BYTES_PER_S,
    )
    free = Amounts(row["free_cores"], row["free_memory_mib"], row["free_disk_mib"])
    return Node(capabilities=capabilities, free=free, seen_ms=row["seen_ms"])


def _seen_node(row: NodeRow, closed: Collection[str]) -> SeenNode:
    """Nobody is sent where nothing can run now, be it the node or its whole site."""
    is_open = not row["problem"] and row["site"] not in closed
    return SeenNode(node_of(row), is_open and bool(row["is_host"]), is_open and bool(row["runs"]))


def _row(name: str, site: str, facts: NodeFacts, before: NodeRow | None, now_ms: int) -> NodeRow:
    fault = facts.fault if facts.fault in _FAULTS else ""
    has_failed = bool(fault) and (before is None or before["fault"] != fault)
    failed_ms = None if before is None else before["failed_ms"]
    return {
        "name": name,
        "site": site,
        "cores": facts.cores,
        "memory_mib": facts.memory_mib,
        "disk_mib": facts.disk_mib,
        "free_cores": min(facts.free_cores, facts.cores),
        "free_memory_mib": min(facts.free_memory_mib, facts.memory_mib),
        "free_disk_mib": min(facts.free_disk_mib, facts.disk_mib),
        "cpu_mhz": facts.cpu_mhz,
        "bytes_per_s": facts.bytes_per_s,
        "software": software_text(facts.software),
        "is_host": int(facts.is_host),
        "runs": int(facts.runs),
        "problem": facts.problem,
        "fault": fault,
        "seen_ms": now_ms,
        "first_ms": now_ms if before is None else before["first_ms"],
        "failures": (0 if before is None else before["failures"]) + has_failed,
        "failed_ms": now_ms if has_failed else failed_ms,
    }


def _light(row: NodeRow) -> Seen:
    return {
        "name": row["name"],
        "free_cores": row["free_cores"],
        "free_memory_mib": row["free_memory_mib"],
        "free_disk_mib": row["free_disk_mib"],
        "seen_ms": row["seen_ms"],
    }


def _is_idle(row: NodeRow) -> bool:
    return row["free_cores"] == row["cores"] and row["free_memory_mib"] == row["memory_mib"]
