"""The filters as conditions that a database understands."""

from collections.abc import Iterator

from sqlalchemy import ColumnElement, Table, TextClause, and_, false, func, or_, select, true

from leasehold.service.store.filters import (
    HAS_JOB,
    JobFilter,
    JournalFilter,
    LeaseFilter,
    UsageFilter,
    Visible,
)
from leasehold.service.store.rows import (
    ATTEMPTS,
    CLOSED,
    CLOSED_JOBS,
    JOBS,
    JOURNAL,
    LEASES,
    LIVE,
    OPEN_JOBS,
    USAGE,
)

leases, journal, jobs, attempts, usage = (each.table for each in (LEASES, JOURNAL, JOBS, ATTEMPTS, USAGE))


def leases_that(which: LeaseFilter) -> ColumnElement[bool]:
    """The leases that a filter asks for."""
    return and_(true(), *_about_leases(which))


def lines_that(which: JournalFilter) -> ColumnElement[bool]:
    """The lines of the journal that a filter asks for."""
    at_site = true() if which.site is None else journal.c.site == which.site
    of_leases = journal.c.lease_id.in_(which.leases) if which.leases else true()
    of_job = true() if which.job_id is None else journal.c.job_id == which.job_id
    return and_(_visible(which.visible, journal, ("site",)), at_site, of_leases, of_job)


def jobs_that(which: JobFilter) -> ColumnElement[bool]:
    """The jobs that a filter asks for."""
    return and_(true(), *_about_jobs(which))


def _about_jobs(which: JobFilter) -> Iterator[ColumnElement[bool] | TextClause]:
    yield _visible_job(which.visible)
    if which.states:
        yield jobs.c.state.in_(which.states)
    if which.site is not None:
        yield _tried_at(which.site)
    if which.consumer is not None:
        yield jobs.c.consumer == which.consumer
    if which.since_ms is not None:
        yield jobs.c.submitted_ms >= which.since_ms
    if which.open is not None:
        yield OPEN_JOBS if which.open else CLOSED_JOBS


def _visible_job(visible: Visible) -> ColumnElement[bool]:
    if visible.everything:
        return true()
    own = jobs.c.consumer == visible.consumer if visible.consumer else false()
    groups = jobs.c.group.in_([group for group in visible.groups if group])
    return or_(own, groups, _is_at(visible.sites))


def _tried_at(site: str) -> ColumnElement[bool]:
    return jobs.c.id.in_(select(attempts.c.job_id).where(attempts.c.site == site))


def _is_at(sites: tuple[str, ...]) -> ColumnElement[bool]:
    """Jobs that are tried at a site now, or have succeeded there; one that only failed there is gone."""
    is_there = attempts.c.site.in_([site for site in sites if site]), attempts.c.state.in_(HAS_JOB)
    return jobs.c.id.in_(select(attempts.c.job_id).where(*is_there))


def _about_leases(which: LeaseFilter) -> Iterator[ColumnElement[bool] | TextClause]:
    yield _visible(which.visible, leases, ("site", "home"))
    if which.states:
        yield leases.c.state.in_(which.states)
    if which.site is not None:
        yield or_(leases.c.site == which.site, leases.c.home == which.site)
    if which.consumer is not None:
        yield leases.c.consumer == which.consumer
    if which.since_ms is not None:
        yield leases.c.submit_ms >= which.since_ms
    if which.open is not None:
        yield LIVE if which.open else CLOSED


def _visible(visible: Visible, table: Table, places: tuple[str, ...]) -> ColumnElement[bool]:
    if visible.everything:
        return true()
    whose = [("consumer", (visible.consumer,)), ("group", visible.groups)]
    whose += [(place, visible.sites) for place in places]
    named = ((column, [name for name in names if name]) for column, names in whose)
    return or_(false(), *(table.c[column].in_(names) for column, names in named if names))


def used_by(which: UsageFilter) -> ColumnElement[bool]:
    """The use that a filter asks for: whatever lies in its time at least in part."""
    return and_(usage.c.end_ms > which.from_ms, usage.c.begin_ms < which.to_ms, *_about_use(which))


def _about_use(which: UsageFilter) -> Iterator[ColumnElement[bool]]:
    if not which.visible.everything:
        yield _visible_use(which.visible)
    if which.consumer is not None:
        yield _beneath(which.consumer)
    if which.domain is not None:
        yield or_(usage.c.domain == which.domain, usage.c.site == which.domain)


def _visible_use(visible: Visible) -> ColumnElement[bool]:
    """A group's is what was used on account of whatever is beneath it."""
    groups = (_beneath(group) for group in visible.groups if group)
    own = usage.c.consumer == visible.consumer if visible.consumer else false()
    return or_(own, usage.c.site.in_(visible.sites), *groups)


def _beneath(path: str) -> ColumnElement[bool]:
    prefix = f"{path}/"  # no LIKE, which in SQLite takes atlas for ATLAS
    return or_(usage.c.path == path, func.substr(usage.c.path, 1, len(prefix)) == prefix)
