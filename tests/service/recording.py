"""Decisions of a live gateway of the tests recorded, and decided again from the recording alone."""

from leasehold.configuration.tables import GatewaySpec
from leasehold.configuration.terms import ClusterTerms
from leasehold.forecasting.file import Recording, snapshot_bytes, snapshot_of
from leasehold.forecasting.replay import Recorder, replay
from leasehold.forecasting.snapshot import GatewayMemory, Snapshot, SnapshotSite
from leasehold.leasing.overhead import OverheadModel
from leasehold.testing.live import Live

_MOST_INSTANTS = 100_000


def terms_of(live: Live, policy: str, overhead: OverheadModel, *, try_elsewhere: bool = True) -> Snapshot:
    """Give the terms of a gateway that `tests.service.messages.line.live_of` has made."""
    cluster = ClusterTerms(value_order=False, overhead=overhead)
    sites = tuple(SnapshotSite(name, site.settings.slots, cluster) for name, site in live.gateway.sites.items())
    spec = GatewaySpec(policy=policy, try_elsewhere=try_elsewhere, max_restarts=0)
    gateway_id = live.gateway.peering.gateway_id
    return Snapshot(0, 1, spec, sites, (), GatewayMemory({}, {}, {}), gateway_id=gateway_id, agreements=())


def record(live: Live, terms: Snapshot) -> Recorder:
    """Begin to record what a gateway is told and decides."""
    return live.engine.record(terms, live.engine.core.make_gateway, _MOST_INSTANTS)


def recorded_so_far(live: Live, recorder: Recorder) -> Recording | None:
    """End a recording, and give it as it comes out of a file; None where the gateway has died meanwhile."""
    if not live.engine.stop_recording(recorder):
        return None
    found = recorder.recording()
    return Recording(snapshot_of(snapshot_bytes(found.snapshot)), found.instants)


def check_that_it_is_decided_again(recording: Recording) -> None:
    """To the bit."""
    outcome = replay(recording)
    assert outcome.difference is None, outcome.difference
    assert outcome.instants == len(recording.instants)
