"""Everything that can be known of a scenario without running it."""

from typing import Any

from leasehold.analysis.wording import count
from leasehold.cli.source import scenario_of
from leasehold.simulation.scenario.from_log import LogOptions
from leasehold.simulation.scenario.sites import routing, site_settings
from leasehold.simulation.scenario.sources import open_streams, with_sizes
from leasehold.simulation.workload.log_record import ReadingNotes


def examine(source: str) -> dict[str, Any]:
    """Read a scenario and all its streams; raises whatever a run would raise on bad input."""
    scenario = with_sizes(scenario_of(source, LogOptions(), {}))
    settings, notes = site_settings(scenario), list[ReadingNotes]()
    routing(scenario)
    jobs = {"local": 0, "external": 0, "coallocation": 0}
    for job in open_streams(scenario, notes):
        jobs["external" if job.site is None else "local"] += 1
        jobs["coallocation"] += job.together is not None
    return {
        "name": scenario.name,
        "clusters": len(settings),
        "slots": sum(site.slots for site in settings),
        "streams": len(scenario.streams),
        "jobs": jobs,
        "notes": [sentence for note in notes for sentence in note.sentences()],
    }


def counted(findings: dict[str, Any]) -> str:
    """Say what was found in one line."""
    clusters = count(findings["clusters"], "cluster")
    jobs = findings["jobs"]
    coallocation = f", {jobs['coallocation']:,} of them co-allocations" if jobs["coallocation"] else ""
    return (
        f"{findings['name']} is fine: {clusters} with {count(findings['slots'], 'slot')}, "
        f"{count(findings['streams'], 'stream')} with {count(jobs['local'], 'local job')} and "
        f"{count(jobs['external'], 'guest')}{coallocation}"
    )
