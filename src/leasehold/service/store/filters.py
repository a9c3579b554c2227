"""Which rows a reader asks for, and which it may see at all."""

from dataclasses import dataclass

from leasehold.jobs.job import AttemptState


@dataclass(frozen=True, slots=True)
class Visible:
    """Whose leases a reader may see: all, or its own, its groups' and its sites' together.

    By default none. An empty name matches none either: a lease without group is not seen by a manager of a
    group without name.

    ``consumer``  their own leases
    ``groups``    the leases of these groups
    ``sites``     the leases that are at one of these sites, or have it as their home
    """

    everything: bool = False
    consumer: str = ""
    groups: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()


EVERYTHING = Visible(everything=True)

HAS_JOB = tuple(state.value for state in AttemptState if state.is_open or state is AttemptState.SUCCEEDED)
"""A job is at the sites of its attempts in these states; where one only failed, it is no more."""


@dataclass(frozen=True, slots=True)
class LeaseFilter:
    """The leases that are visible and of which all of this is true; None and () ask for nothing.

    ``states``    in one of these states (`leasehold.model.lease.LeaseState`)
    ``site``      at this site, or with it as their home
    ``consumer``  of this consumer
    ``since_ms``  submitted at this Unix ms or later
    ``open``      True: not in a final state; False: in a final state
    ``queued``    in the queue: open, and without machines
    ``lease_type``, ``local``, ``reason``  of this type, of a site's own users or not, with this last reason
    """

    visible: Visible
    states: tuple[str, ...] = ()
    site: str | None = None
    consumer: str | None = None
    since_ms: int | None = None
    open: bool | None = None
    queued: bool = False
    lease_type: str | None = None
    local: bool | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class JobFilter:
    """The jobs that are visible and of which all of this is true; None and () ask for nothing.

    Of a site's are those that were ever tried there.

    ``states``    in one of these states (`leasehold.jobs.job.JobState`)
    ``site``      with an attempt at this site
    ``consumer``  of this consumer
    ``since_ms``  submitted at this Unix ms or later
    ``open``      True: not in a final state; False: in a final state
    ``array``     of the array with this number
    """

    visible: Visible
    states: tuple[str, ...] = ()
    site: str | None = None
    consumer: str | None = None
    since_ms: int | None = None
    open: bool | None = None
    array: int | None = None


@dataclass(frozen=True, slots=True)
class JournalFilter:
    """The lines of the journal that are visible and of which all of this is true; None and () say nothing.

    ``site``    happened at this site
    ``leases``  are about one of these leases
    ``job_id``  are about this job, or a lease of one of its attempts
    ``whats``   have one of these in their column ``what``
    ``reason``, ``consumer``  have this reason; are about leases of this consumer
    """

    visible: Visible
    site: str | None = None
    leases: tuple[int, ...] = ()
    job_id: int | None = None
    whats: tuple[str, ...] = ()
    reason: str | None = None
    consumer: str | None = None


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """The use between two moments (Unix ms) that is visible, and of which all of this is true.

    ``consumer``  on account of this path, or of one beneath it: ``atlas``, ``atlas/production``
    ``domain``    at a site of this virtual domain, or at the site of this name
    """

    visible: Visible
    from_ms: int
    to_ms: int
    consumer: str | None = None
    domain: str | None = None
