"""What whoever runs the API decides about it."""

from dataclasses import dataclass, field

from leasehold.service.auth.limits import RateLimit


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """How the API meets the world.

    ``version``               of the program, as its OpenAPI tells it
    ``body_kib``              the largest body that is read, in KiB
    ``rate``                  how many requests a consumer may make
    ``submissions``           how many leases, co-allocations and jobs a consumer may ask for
    ``streams_per_consumer``  how many streams of changes a consumer may have open
    ``probes_need_token``     whether /healthz and /readyz are only for who may see metrics
    ``metrics_need_token``    whether /metrics is
    ``page_needs_token``      whether the page at / tells how the sites are only to who shows a token
    """

    version: str
    body_kib: int = 64
    rate: RateLimit = field(default_factory=lambda: RateLimit(rate_per_s=200, burst=400))
    submissions: RateLimit = field(default_factory=lambda: RateLimit(rate_per_s=0))
    streams_per_consumer: int = 8
    probes_need_token: bool = False
    metrics_need_token: bool = True
    page_needs_token: bool = False
