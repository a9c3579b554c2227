"""Whatever the line does and whoever dies: each lease is in one place, none is lost, none is run twice."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.searching import examples
from tests.service.messages.line import FAR, QUICK, World
from tests.service.recording import check_that_it_is_decided_again, record, recorded_so_far, terms_of

from leasehold.forecasting.replay import Recorder
from leasehold.model.event import SiteFellSilent
from leasehold.model.request import LeaseType
from leasehold.service.commands import Happened
from leasehold.service.messages.endpoints import GATEWAY

NAMES = st.sampled_from(list(FAR))
SPANS_MS = st.integers(1, 8).map(lambda seconds: seconds * 500)


class UnreliableLine(RuleBasedStateMachine):
    """People ask and change their minds, owners come, messages go astray, and processes are killed."""

    world: World

    @initialize(policy=st.sampled_from(["rr", "most-free", "least-in-flight"]), try_elsewhere=st.booleans())
    def begin(self, policy: str, try_elsewhere: bool) -> None:  # noqa: FBT001 - it is drawn
        self.folder = Path(tempfile.mkdtemp())
        self.world = World(self.folder, policy, try_elsewhere=try_elsewhere)
        self.asked: list[int] = []
        self.terms = terms_of(self.world.gateway, policy, QUICK, try_elsewhere=try_elsewhere)
        self.recorder: Recorder | None = None
        for name in FAR:
            self.world.exchange(name)

    def teardown(self) -> None:
        """The line is whole again: whatever happened before, all comes to its end, and both sides agree."""
        try:
            self.world.make_whole()
            self.what_was_recorded_is_decided_again()
            self.world.check()
            self.world.check_that_all_agree()
            self.world.check_that_nothing_ran_twice()
        finally:
            self.world.close()
            shutil.rmtree(self.folder)

    # People

    @rule(
        kind=st.sampled_from(LeaseType),
        vms=st.integers(1, 4),
        ms=SPANS_MS,
        wait_ms=st.sampled_from([0, 0, 1500]),
    )
    def submit(self, kind: LeaseType, vms: int, ms: int, wait_ms: int) -> None:
        self.asked.append(self.world.submit(kind, vms, ms, wait_ms).lease.id)

    @rule(name=NAMES, vms=st.integers(1, 4), ms=SPANS_MS)
    def an_owner_comes(self, name: str, vms: int, ms: int) -> None:
        self.world.submit_at(name, min(vms, FAR[name]), ms)

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.world.cancel(data.draw(st.sampled_from(self.asked)))

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), ms=SPANS_MS)
    def extend(self, data: st.DataObject, ms: int) -> None:
        self.world.extend(data.draw(st.sampled_from(self.asked)), ms)

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), name=NAMES, ms=SPANS_MS)
    def an_operator_extends(self, data: st.DataObject, name: str, ms: int) -> None:
        self.world.extend_at(name, data.draw(st.sampled_from(self.asked)), ms)

    @rule(ms=st.sampled_from([1, 300, 1000, 4000]))
    def time_passes(self, ms: int) -> None:
        self.world.pass_time(ms)

    @rule(name=NAMES)
    def a_site_is_drained_or_lends_again(self, name: str) -> None:
        self.world.drain_or_resume(name)

    @rule(name=NAMES)
    def a_site_falls_silent(self, name: str) -> None:
        self.world.gateway.do(Happened(SiteFellSilent(name)))

    @precondition(lambda self: self.recorder is None)
    @rule()
    def a_snapshot_is_taken_and_what_follows_recorded(self) -> None:
        self.recorder = record(self.world.gateway, self.terms)

    @precondition(lambda self: self.recorder is not None)
    @rule()
    def what_was_recorded_is_decided_again(self) -> None:
        recorder, self.recorder = self.recorder, None
        recording = None if recorder is None else recorded_so_far(self.world.gateway, recorder)
        if recording is not None:
            check_that_it_is_decided_again(recording)

    # The line

    @rule(name=NAMES)
    def call(self, name: str) -> None:
        self.world.call(name)

    @rule(name=NAMES)
    def exchange(self, name: str) -> None:
        self.world.exchange(name)

    @precondition(lambda self: self.world.on_the_line)
    @rule(data=st.data(), again=st.booleans())
    def something_arrives(self, data: st.DataObject, again: bool) -> None:  # noqa: FBT001 - it is drawn
        self.world.deliver(data.draw(st.integers(0, len(self.world.on_the_line) - 1)), again=again)

    @precondition(lambda self: self.world.on_the_line)
    @rule(data=st.data())
    def something_is_lost(self, data: st.DataObject) -> None:
        self.world.on_the_line.pop(data.draw(st.integers(0, len(self.world.on_the_line) - 1)))

    # Deaths

    @rule(who=st.sampled_from([GATEWAY, *FAR]))
    def is_killed_and_comes_back(self, who: str) -> None:
        live = self.world.gateway if who == GATEWAY else self.world.sites[who]
        live.restart()
        live.look()

    @invariant()
    def every_lease_is_in_one_place(self) -> None:
        self.world.check()


UnreliableLine.TestCase.settings = settings(
    max_examples=examples(25),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestUnreliableLine = UnreliableLine.TestCase
