"""The application: everything of the API put together. Any ASGI server can run it."""

from typing import Any

from fastapi import FastAPI

from leasehold.service.api import error_handlers
from leasehold.service.api.authorizer import Authorizer
from leasehold.service.api.middleware import BodyLimit, MetricsMiddleware, ProblemPages
from leasehold.service.api.openapi import DESCRIPTION, TAGS, TITLE, finish
from leasehold.service.api.routers import (
    agreements,
    changes,
    coallocations,
    form,
    health,
    home,
    images,
    jobs,
    leases,
    messages,
    nodes,
    peers,
    sites,
    usage,
)
from leasehold.service.api.routers import tokens as tokens_
from leasehold.service.api.settings import ApiSettings
from leasehold.service.api.streams import Streams
from leasehold.service.auth.authenticator import Authenticator
from leasehold.service.auth.limits import Limiter
from leasehold.service.auth.tokens import Tokens
from leasehold.service.federation import Federation

DOCUMENT = "/v1/openapi.json"
"""The one path beside the probes that takes no token."""

ROUTERS = (
    *(leases.router, coallocations.router, jobs.router, nodes.router, images.router),
    *(sites.router, changes.router, tokens_.router, messages.router, form.router, peers.router),
    *(agreements.router, agreements.penalties, usage.router, health.router, home.router),
)
"""Asked in this order: the one that has most to do first."""


class Api(FastAPI):
    """The application. Call `close_streams` when the service begins to stop: streams end by nothing else."""

    def close_streams(self) -> None:
        """End all streams of changes, and refuse new ones; clients resume at the next process."""
        self.state.streams.close()
        self.state.messages.close()

    def openapi(self) -> dict[str, Any]:
        """Give the OpenAPI document."""
        if not self.openapi_schema:
            finish(super().openapi(), health.open_to_all(self.state.settings))
        return super().openapi()


def create_app(federation: Federation, authenticator: Authenticator, tokens: Tokens, settings: ApiSettings) -> Api:
    """Put the API in front of a federation; ``tokens`` are those that the authenticator asks, too."""
    app = Api(
        title=TITLE,
        version=settings.version,
        description=DESCRIPTION,
        openapi_tags=TAGS,
        openapi_url=DOCUMENT,
        docs_url=None,  # it would load its script from another network
        redoc_url=None,
        redirect_slashes=False,
        routes=[route for router in ROUTERS for route in router.routes],
    )
    app.state.settings = settings
    app.state.tokens = tokens
    app.state.messages = federation.messages
    app.state.last_look = home.LastLook()
    app.state.streams = Streams(settings.streams_per_consumer, federation.metrics)
    limiter = Limiter(settings.rate, "there were too many requests")
    submissions = Limiter(settings.submissions, "more was submitted than one consumer may in an hour")
    open_paths = health.open_to_all(settings)
    app.state.authorizer = Authorizer(federation, authenticator, limiter, open_paths, submissions)
    # the last one added is the first one asked
    app.add_middleware(BodyLimit, most_bytes=settings.body_kib * 1024)
    app.add_middleware(error_handlers.UnhandledErrors)
    app.add_middleware(ProblemPages, version=settings.version)
    app.add_middleware(MetricsMiddleware, metrics=federation.metrics)
    error_handlers.install(app)
    return app
