"""Settings of the API."""

import secrets
from dataclasses import dataclass, field

from leasehold.service.auth.limits import RateLimit


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Limits and access of the API.

    ``version``               of the program, as shown in its OpenAPI document
    ``body_kib``              the largest body that is read, in KiB
    ``rate``                  limit on the requests of a consumer
    ``submissions``           limit on the leases, co-allocations and jobs that a consumer submits
    ``streams_per_consumer``  most streams of changes that a consumer may have open
    ``probes_need_token``     whether /healthz and /readyz require permission to see metrics
    ``metrics_need_token``    whether /metrics requires it
    ``page_needs_token``      whether the page at / shows the state of the sites only to callers with a token
    ``session_key``           signs the sessions of the dashboard; without one they end with the process
    ``prefix``                the path under which the gateway is reached behind a proxy, "" for none: `/leasehold`
    """

    version: str
    body_kib: int = 64
    rate: RateLimit = field(default_factory=lambda: RateLimit(rate_per_s=200, burst=400))
    submissions: RateLimit = field(default_factory=lambda: RateLimit(rate_per_s=0))
    streams_per_consumer: int = 8
    probes_need_token: bool = False
    metrics_need_token: bool = True
    page_needs_token: bool = False
    session_key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    prefix: str = ""
