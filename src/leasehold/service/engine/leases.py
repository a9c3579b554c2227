"""The open leases of one engine: their metadata, their number per consumer, and the admission of new ones."""

from collections.abc import Iterable
from dataclasses import replace

from leasehold.model.copier import copier
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.lease import Lease
from leasehold.model.request import Request, check_request
from leasehold.model.resources import check_model, gpus_of
from leasehold.service.commands import Submit
from leasehold.service.engine.agreements import AgreementRepository
from leasehold.service.engine.context import EngineContext
from leasehold.service.engine.nodes import NodeRepository
from leasehold.service.errors import NoSuchLease, TooManyOpen
from leasehold.service.store.rows import LEASES, LeaseMetadata, LeaseRow

_copy_lease, _copy_metadata = copier(Lease), copier(LeaseMetadata)


class OpenRequests:
    """How many open requests each consumer has: leases of its own and jobs, but no attempts of jobs.

    ``counts``  by consumer; ``most``  how many it may have at a time, None: any number
    """

    def __init__(self, rows: Iterable[LeaseRow], most: int | None) -> None:
        self.most = most
        self.counts: dict[str, int] = {}
        for row in rows:
            if is_counted(row.metadata):
                self.count(row.lease.request.consumer, 1)

    def check(self, consumer: str, more: int = 1) -> None:
        """Raise TooManyOpen if the consumer would have too many."""
        if self.most is not None and self.counts.get(consumer, 0) + more > self.most:
            raise TooManyOpen(consumer, self.most)

    def count(self, consumer: str, by: int) -> None:
        """Count requests that are new, or (negative) over."""
        left = self.counts.get(consumer, 0) + by
        if left > 0:
            self.counts[consumer] = left
        else:
            self.counts.pop(consumer, None)


def is_counted(metadata: LeaseMetadata) -> bool:
    """Whether a lease is a request of its consumer: not one from elsewhere, a native job, or an attempt."""
    return not (metadata.origin or metadata.native_job or metadata.job_id is not None)


class LeaseRepository:
    """The open leases: ``metadata`` by number; ``last_id`` is the highest number that was given out."""

    def __init__(
        self,
        context: EngineContext,
        requests: OpenRequests,
        agreements: AgreementRepository,
        nodes: NodeRepository,
    ) -> None:
        self.metadata = context.metadata
        self.requests = requests
        self.last_id = context.store.highest_lease_id()
        self._store = context.store
        self._unit = context.unit
        self._core = context.core
        self._journal = context.journal
        self._agreements = agreements
        self._nodes = nodes
        self._telemetry = context.telemetry

    def is_native_job(self, lease_id: int) -> bool:
        """Whether a lease stands for a job of the site's own scheduler: its machines take no orders of ours."""
        metadata = self.metadata.get(lease_id)
        return metadata is not None and bool(metadata.native_job)

    def is_recorded(self, lease_id: int) -> bool:
        """Whether the store knows a lease; after an older store was put back, machines may have others."""
        return self._store.lease(lease_id) is not None

    def open_row(self, lease_id: int) -> LeaseRow | None:
        """A lease as it is now; None where it was over before this step."""
        written = self._unit.find(LEASES, lease_id)
        lease = self._core.gateway.leases.get(lease_id) if written is None else written.lease
        return None if lease is None else LeaseRow(_copy_lease(lease), _copy_metadata(self.metadata[lease_id]))

    def row(self, lease_id: int) -> LeaseRow:
        """A lease as it is, open or over; raises NoSuchLease."""
        row = self.open_row(lease_id) or self._store.lease(lease_id)
        if row is None:
            raise NoSuchLease(lease_id)
        return row

    # Requests

    def submit(self, command: Submit, now_ms: int) -> Request:
        """Take a request in; raises InvalidField, TooManyOpen."""
        request = self.would_be(command, now_ms)
        self.take_in(request, _copy_metadata(command.metadata), now_ms)
        self._unit.after_commit(self._telemetry.accepted)
        return request

    def take_in(self, request: Request, metadata: LeaseMetadata, now_ms: int) -> None:
        """Know of a request from now on."""
        self.last_id = max(self.last_id, request.id)
        self.metadata[request.id] = metadata
        if is_counted(metadata):
            self.requests.count(request.consumer, 1)
        self._journal.submitted(request, now_ms)

    def would_be(self, command: Submit, now_ms: int) -> Request:
        """Give the request that a command would make now; raises what `submit` raises."""
        request, metadata = command.request, command.metadata
        sites = self._core.gateway.sites
        if not (metadata.origin or metadata.native_job):
            self.requests.check(command.consumer)
        if request.site is not None and request.site not in sites:
            raise UnknownName("site", request.site, sites)
        self._agreements.check_domain(request.domain)
        if not metadata.native_job:
            self._check_memory(request, now_ms)
            self._check_gpus(request)
        if not (metadata.origin or metadata.native_job):
            self.check_image(request)
        ready_ms = max(now_ms, request.ready_ms)
        return check_request(replace(request, id=self.last_id + 1, submit_ms=now_ms, ready_ms=ready_ms))

    def _check_gpus(self, request: Request) -> None:
        """Refuse a model of GPUs that no site has, with the nearest name; where there are peers, one may have it."""
        registry = self._core.gateway.registry
        if request.gpu_model and not any(remote.is_peer for remote in registry.remotes.values()):
            check_model(request.gpu_model, gpus_of(registry.nodes()))

    def check_image(self, request: Request) -> None:
        """Refuse an image that no site has, with the nearest name; what is offered here is refused with a reason."""
        images = self._core.gateway.registry.images(request.site)
        if request.image and not images:
            raise InvalidField("image", request.image, "none: no site here states any images")
        if request.image and request.image not in images:
            raise UnknownName("image", request.image, images)

    def _check_memory(self, request: Request, now_ms: int) -> None:
        """Refuse VMs that are larger than every node there is; where not all nodes are known, one may be."""
        gateway = self._core.gateway
        sites = gateway.sites.keys() | gateway.registry.remotes.keys() if request.site is None else {request.site}
        largest = self._nodes.too_small(request.memory_mib, sites, now_ms)
        if largest is not None:
            expected = f"at most {largest.memory_mib}: no node is larger than {largest.name}"
            raise InvalidField("memory_mib", request.memory_mib, expected)

    def closed(self, lease: Lease) -> None:
        """A lease is over, and that is in the store."""
        metadata = self.metadata.pop(lease.id, None)
        if metadata is not None and is_counted(metadata):
            self.requests.count(lease.request.consumer, -1)
