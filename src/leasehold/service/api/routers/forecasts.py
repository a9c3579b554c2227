"""Forecasts: estimates of leases, their calibration, what-if, and snapshots to work with elsewhere."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from leasehold.forecasting import file
from leasehold.forecasting.calibration import COVERAGE
from leasehold.forecasting.estimates import Estimate as CoreEstimate
from leasehold.forecasting.file import Recording
from leasehold.protocol.fields import Number, moment_at, read_duration, show_duration
from leasehold.protocol.forecasts import (
    Calibration,
    Estimate,
    EstimateList,
    JobEstimate,
    LeaseEstimate,
    ScoredPrediction,
    SiteShare,
    SnapshotQuery,
    WhatIf,
    WhatIfSpec,
    show_comparison,
    show_score,
)
from leasehold.protocol.problems import Kind
from leasehold.service.api.authorizer import Authorized, GuardedRoute, jobs_seen_by, needs, seen_by
from leasehold.service.api.openapi import refuses
from leasehold.service.auth.permissions import FEDERATION, Permission, require
from leasehold.service.errors import NoSuchLease
from leasehold.service.forecasts import Estimated, Prediction

router = APIRouter(prefix="/v1", tags=["forecasts"], route_class=GuardedRoute)

_SHOWN = 500


@router.get("/estimates", operation_id="listEstimates")
@needs(Permission.LEASE_SEE)
async def list_estimates(call: Authorized) -> EstimateList:
    """List when open leases are expected to start, to continue and to end, and jobs that wait for nodes likewise.

    With 90 % intervals. Estimates are made now and then; each says how old it is. What was just submitted has none yet.
    """
    forecasts, now_ms = call.federation.forecasts, call.federation.clock()
    found, waiting = forecasts.all(), forecasts.jobs()
    may_see = await run_in_threadpool(seen_by, call, Permission.LEASE_SEE, [one.of.number for one in found])
    visible = await run_in_threadpool(jobs_seen_by, call, [job_id for job_id, _ in waiting])
    return EstimateList(
        leases=tuple(show(one, now_ms) for one in found if may_see(one.of.number)),
        jobs=tuple(job_estimate(job_id, one, now_ms) for job_id, one in waiting if job_id in visible),
    )


@router.get("/estimates/{lease_id}", operation_id="showEstimate", responses=refuses(Kind.NO_SUCH_LEASE))
@needs(Permission.LEASE_SEE)
async def show_estimate(call: Authorized, lease_id: Number) -> LeaseEstimate:
    """Show when a lease is expected to start, to continue and to end; 404 while nothing is known of it."""
    may_see = await run_in_threadpool(seen_by, call, Permission.LEASE_SEE, [lease_id])
    found = call.federation.forecasts.of(lease_id)
    if found is None or not may_see(lease_id):
        raise NoSuchLease(lease_id)
    return show(found, call.federation.clock())


@router.get("/calibration", operation_id="showCalibration")
@needs(Permission.SITE_SEE)
async def show_calibration(call: Authorized) -> Calibration:
    """Show how earlier predictions did: how many intervals contained what happened, by kind and site."""
    forecasts = call.federation.forecasts
    last = list(forecasts.scored)[-_SHOWN:]
    leases = {one.lease_id for one in last if one.lease_id is not None}
    may_see = await run_in_threadpool(seen_by, call, Permission.LEASE_SEE, leases)
    visible = await run_in_threadpool(jobs_seen_by, call, {one.job_id for one in last if one.job_id is not None})
    return Calibration(
        coverage=COVERAGE,
        scores=tuple(map(show_score, forecasts.calibration.scores())),
        predictions=tuple(
            _prediction(one)
            for one in last
            if one.job_id in visible or (one.lease_id is not None and may_see(one.lease_id))
        ),
    )


@router.post("/whatif", operation_id="askWhatIf")
@needs(Permission.FUTURE_ASK)
async def ask_what_if(call: Authorized, body: WhatIfSpec) -> WhatIf:
    """Simulate the future as things stand and after changes, side by side. Nothing is changed.

    The gateway gives it a few seconds of one processor; where that is not enough, there are fewer replications.
    """
    require(call.principal, Permission.FUTURE_ASK, FEDERATION)
    found = await call.federation.forecasts.compare(
        body.changes, horizon_ms=read_duration(body.horizon_s), replications=body.replications, seed=body.seed
    )
    return show_comparison(found)


@router.get(
    "/snapshot",
    operation_id="takeSnapshot",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "The content of a snapshot file."}},
)
@needs(Permission.SNAPSHOT_TAKE)
async def take_snapshot(call: Authorized, query: Annotated[SnapshotQuery, Query()]) -> Response:
    """Take a snapshot of what decisions rest on, and record the decisions that follow it for some time.

    To record, the gateway goes on from what it wrote down, as after a restart; machines are not touched.
    """
    require(call.principal, Permission.SNAPSHOT_TAKE, FEDERATION)
    federation, record_s = call.federation, query.record_s
    recording = await federation.record(record_s) if record_s else Recording(await federation.forecasts.snapshot())
    content = await run_in_threadpool(file.content, recording)
    return Response(content, media_type="application/octet-stream")


def show(found: Estimated, now_ms: int) -> LeaseEstimate:
    """Show what is expected of a lease."""
    return LeaseEstimate(lease=found.of.number, **_expectation(found, now_ms))


def job_estimate(job_id: int, found: Estimated, now_ms: int) -> JobEstimate:
    """Show what is expected of a job that waits for nodes."""
    return JobEstimate(job=job_id, **_expectation(found, now_ms))


def _expectation(found: Estimated, now_ms: int) -> dict[str, Any]:
    return {
        "made_at": moment_at(found.made_ms),
        "age_s": show_duration(max(0, now_ms - found.made_ms)),
        "preempted_share": found.of.preempted_share,
        "estimates": tuple(map(_estimate, found.of.estimates)),
    }


def _estimate(one: CoreEstimate) -> Estimate:
    times = one.interval
    return Estimate(
        what=one.what,
        earliest_at=None if times is None else moment_at(times.low_ms),
        expected_at=None if times is None else moment_at(times.median_ms),
        latest_at=None if times is None else moment_at(times.high_ms),
        sites=tuple(SiteShare(site=name, share=share) for name, share in one.sites),
        moved_by=one.moved_by,
    )


def _prediction(one: Prediction) -> ScoredPrediction:
    assert one.happened_ms is not None
    return ScoredPrediction(
        lease=one.lease_id,
        job=one.job_id,
        what=one.what,
        made_at=moment_at(one.made_ms),
        earliest_at=moment_at(one.low_ms),
        expected_at=moment_at(one.median_ms),
        latest_at=moment_at(one.high_ms),
        happened_at=moment_at(one.happened_ms),
    )
