"""Whatever the lines do and whoever dies: each lease is in one place, none is lost, none goes further than it may."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.searching import examples
from tests.service.messages.line import QUICK
from tests.service.peers.triangle import CHAIN, NAMES, WAYS, World
from tests.service.recording import check_that_it_is_decided_again, record, recorded_so_far, terms_of

from leasehold.forecasting.replay import Recorder
from leasehold.gateway.peering import AskWhen
from leasehold.model.event import SiteFellSilent
from leasehold.model.request import LeaseType
from leasehold.service.commands import Happened

WHO = st.sampled_from(NAMES)
WAY = st.sampled_from(WAYS)
SPANS_MS = st.integers(1, 8).map(lambda seconds: seconds * 500)


class UnreliableTriangle(RuleBasedStateMachine):
    """People ask and change their minds, owners come, messages go astray, and processes are killed."""

    world: World

    @initialize(
        policy=st.sampled_from(["rr", "most-free", "pap-rtdp"]),
        ask=st.sampled_from(list(AskWhen)[:2]),
        ways=st.sampled_from([WAYS, CHAIN]),
        hops=st.integers(1, 3),
    )
    def begin(self, policy: str, ask: AskWhen, ways: Sequence[tuple[str, str]], hops: int) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.world = World(self.folder, policy, ask, ways=ways, hops=hops)
        self.asked: list[tuple[str, int]] = []
        self.terms = {name: terms_of(live, policy, QUICK) for name, live in self.world.gateways.items()}
        self.recorder: tuple[str, Recorder] | None = None
        self.world.exchange_all()

    def teardown(self) -> None:
        """The lines are whole again: whatever happened before, all comes to its end, and all agree."""
        try:
            self.world.make_whole()
            self.what_was_recorded_is_decided_again()
            self.world.check()
            self.world.check_that_all_agree()
            self.world.check_that_nothing_ran_twice()
        finally:
            self.world.close()
            shutil.rmtree(self.folder)

    def _there_is(self, way: tuple[str, str]) -> tuple[str, str]:
        """This line, or where there is none in a chain, that of its caller to the middle."""
        return way if way in self.world.ways else (way[0], "b")

    # People

    @rule(
        name=WHO,
        kind=st.sampled_from(LeaseType),
        vms=st.integers(1, 4),
        ms=SPANS_MS,
        wait_ms=st.sampled_from([0, 0, 1500]),
    )
    def submit(self, name: str, kind: LeaseType, vms: int, ms: int, wait_ms: int) -> None:
        self.asked.append((name, self.world.submit(name, vms, ms, kind, wait_ms).lease.id))

    @rule(name=WHO, vms=st.integers(1, 4), ms=SPANS_MS)
    def an_owner_comes(self, name: str, vms: int, ms: int) -> None:
        self.world.submit_at(name, vms, ms)

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.world.cancel(*data.draw(st.sampled_from(self.asked)))

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), ms=SPANS_MS)
    def extend(self, data: st.DataObject, ms: int) -> None:
        self.world.extend(*data.draw(st.sampled_from(self.asked)), ms)

    @rule(ms=st.sampled_from([1, 300, 1000, 4000]))
    def time_passes(self, ms: int) -> None:
        self.world.pass_time(ms)

    @rule(name=WHO)
    def a_gateway_is_drained_or_lends_again(self, name: str) -> None:
        self.world.drain_or_resume(name)

    @rule(way=WAY, ask=st.sampled_from(AskWhen), max_vms=st.sampled_from([None, 0, 2, 4]))
    def an_agreement_changes(self, way: tuple[str, str], ask: AskWhen, max_vms: int | None) -> None:
        self.world.agree(*self._there_is(way), ask, max_vms)

    @rule(way=WAY)
    def a_peer_falls_silent(self, way: tuple[str, str]) -> None:
        caller, called = self._there_is(way)
        self.world.do(caller, Happened(SiteFellSilent(called)))

    @precondition(lambda self: self.recorder is None)
    @rule(name=WHO)
    def a_snapshot_is_taken_and_what_follows_recorded(self, name: str) -> None:
        self.recorder = name, record(self.world.gateways[name], self.terms[name])

    @precondition(lambda self: self.recorder is not None)
    @rule()
    def what_was_recorded_is_decided_again(self) -> None:
        if self.recorder is None:
            return
        name, recorder = self.recorder
        self.recorder = None
        recording = recorded_so_far(self.world.gateways[name], recorder)
        if recording is not None:
            check_that_it_is_decided_again(recording)

    # The lines

    @rule(way=WAY)
    def call(self, way: tuple[str, str]) -> None:
        self.world.call(*self._there_is(way))

    @rule(way=WAY)
    def exchange(self, way: tuple[str, str]) -> None:
        self.world.exchange(*self._there_is(way))

    @precondition(lambda self: self.world.on_the_line)
    @rule(data=st.data(), again=st.booleans())
    def something_arrives(self, data: st.DataObject, again: bool) -> None:  # noqa: FBT001 - it is drawn
        self.world.deliver(data.draw(st.integers(0, len(self.world.on_the_line) - 1)), again=again)

    @precondition(lambda self: self.world.on_the_line)
    @rule(data=st.data())
    def something_is_lost(self, data: st.DataObject) -> None:
        self.world.on_the_line.pop(data.draw(st.integers(0, len(self.world.on_the_line) - 1)))

    # Deaths

    @rule(name=WHO)
    def is_killed_and_comes_back(self, name: str) -> None:
        self.world.gateways[name].restart()
        self.world.gateways[name].look()

    @invariant()
    def every_lease_is_in_one_place(self) -> None:
        self.world.check()


UnreliableTriangle.TestCase.settings = settings(
    max_examples=examples(20),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestUnreliableTriangle = UnreliableTriangle.TestCase
