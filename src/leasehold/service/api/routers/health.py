"""Liveness, readiness and metrics. Outside /v1: probes know no API versions."""

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from pydantic import Field

from leasehold.protocol.base import ResponseModel
from leasehold.protocol.problems import Kind
from leasehold.service.api.authorizer import Authorized, GuardedRoute, needs
from leasehold.service.api.openapi import refuses
from leasehold.service.api.routers.dashboard import OPEN_PAGES
from leasehold.service.api.settings import ApiSettings
from leasehold.service.auth.permissions import Permission
from leasehold.service.errors import Unavailable

PROBES = ("/healthz", "/readyz")
METRICS = "/metrics"

router = APIRouter(tags=["health"], route_class=GuardedRoute)


class Healthy(ResponseModel):
    """The service is healthy; any other answer is a problem that states why."""

    status: str = "ok"


class Ready(Healthy):
    """Requests are decided; there may be something to look at even so."""

    warnings: list[str] = Field(description="What an operator should look at.")


def open_to_all(settings: ApiSettings) -> frozenset[str]:
    """The paths that take no token."""
    probes = () if settings.probes_need_token else PROBES
    metrics = () if settings.metrics_need_token else (METRICS,)
    return frozenset((*OPEN_PAGES, *probes, *metrics))


@router.get("/healthz", operation_id="isAlive", responses=refuses(Kind.UNAVAILABLE))
@needs(Permission.METRICS_SEE)
async def is_alive(call: Authorized) -> Healthy:
    """Whether the service works; if not, it should be restarted."""
    health = call.federation.health
    if not health.alive:
        raise Unavailable("an invariant is violated; the log names it")
    return Healthy()


@router.get("/readyz", operation_id="isReady", responses=refuses(Kind.UNAVAILABLE))
@needs(Permission.METRICS_SEE)
async def is_ready(call: Authorized) -> Ready:
    """Whether requests are accepted; after a restart, only once every promise has been checked.

    A machine whose clock is wrong is ready, with a warning: no lease is shorter or longer for it.
    """
    health = call.federation.health
    if not health.ready:
        raise Unavailable(health.why_not) from health.cause
    return Ready(warnings=health.warnings)


@router.get("/metrics", operation_id="showMetrics", response_class=PlainTextResponse)
@needs(Permission.METRICS_SEE)
async def show_metrics(call: Authorized) -> Response:
    """Everything that is measured, for Prometheus."""
    body, media_type = await call.federation.render_metrics()
    return Response(body, media_type=media_type)
