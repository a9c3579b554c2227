"""The storm: a gateway under load that is killed again and again, and started again each time."""

import itertools
import os
import signal
import time
from pathlib import Path
from random import Random

from tests.service.crash import accounts, evidence
from tests.service.crash.federation import SLOTS, Place
from tests.service.crash.gateway import Ask, Lines, Look, No, Ready, Said, Told, be_gateway
from tests.service.crash.load import Load
from tests.service.crash.mines import Mine, Spot
from tests.service.crash.witness import Witness, requests_by_lease

from leasehold.model.lease import LeaseState
from leasehold.service.commands import Command, Submit, Undrain
from leasehold.service.store.rows import LeaseRow
from leasehold.testing.killable import Killable

POLICIES = ("pap-rtdp", "rr", "most-free", "least-in-flight")
_MOST_OPEN = (8, 16, 32)
_MOST_AT_ONCE = 8
_SO_SOON_S = 0.1
_AT_LAST_S = 0.5
_PATIENCE_S = 120
_NEVER = 10**9
_OFTEN = (Spot.BEGUN, Spot.WRITTEN, Spot.COMMITTED, Spot.TELLING, Spot.TOLD, Spot.SEEN, Spot.ANSWERING)


class Storm:
    """One federation through many deaths. The same number draws the same load and the same deaths."""

    def __init__(self, store_url: str, folder: Path, number: int) -> None:
        self.witness = Witness()
        self.place = Place(store_url, folder)
        self.kills = 0
        self._random = Random(number)
        self._load = Load(number)
        self._policy = POLICIES[number % len(POLICIES)]
        self._most_open = self._random.choice(_MOST_OPEN)
        self._numbers = itertools.count(1)
        self._pending: dict[int, Command | Ask] = {}
        self._unanswered: list[Submit] = []
        self._has_looked = False
        self._looks: list[Look] = []

    # Lives

    def rage(self, kills: int) -> None:
        """Live and die so many times."""
        while self.kills < kills:
            mine, until_s = self._fate()
            self._has_looked = False
            with self._gateway(mine) as process:
                self._live(process, until_s)
                process.kill()
                self._hear_what_was_said(process)
            self.kills += 1
            self._mourn()

    def _fate(self) -> tuple[Mine, float]:
        """How this life ends: at a spot, at any moment, or before it has quite begun."""
        draw = self._random.random()
        if draw < 0.5:
            return Mine(self._random.choice(_OFTEN), self._random.randint(1, 25)), _AT_LAST_S
        if draw < 0.6:
            return Mine(Spot.CLAIMED, 1), _AT_LAST_S
        longest_s = _AT_LAST_S if draw < 0.9 else _SO_SOON_S
        return Mine(Spot.CLAIMED, _NEVER), self._random.uniform(0, longest_s)

    def _gateway(self, mine: Mine) -> Killable:
        after_seq = self._random.randint(0, self.witness.last_seq)
        return Killable(be_gateway, self.place, self._policy, after_seq, mine)

    def _live(self, process: Killable, until_s: float) -> None:
        """Ask and listen until the time is up, or it has died on its own mine."""
        end_s = time.monotonic() + until_s
        try:
            while time.monotonic() < end_s:
                for message in process.hear(min(0.01, max(0.0, end_s - time.monotonic()))):
                    self._take_in(process, message)
                if self._has_looked:
                    self._ask_more(process)
        except EOFError:
            status = process.ended()
            assert status == -9, f"it ended with status {status}:\n{self._errors()}"

    def _hear_what_was_said(self, process: Killable) -> None:
        """Whatever it had said before it died counts."""
        try:
            while messages := process.hear(0):
                for message in messages:
                    self._take_in(process, message)
        except EOFError:
            return

    def _mourn(self) -> None:
        """What was asked and not answered is asked again, for the most part; the rest nobody misses."""
        for command in self._pending.values():
            if isinstance(command, Submit) and self._random.random() < 0.8:
                self._unanswered.append(command)
        self._pending.clear()

    # Talk

    def _take_in(self, process: Killable, message: object) -> None:
        match message:
            case Ready():
                self._ask(process, Ask.LOOK)
            case Lines():
                self.witness.heard_lines(message.rows)
            case Said():
                self._hear_answer(message)
            case _:
                raise AssertionError(message)

    def _hear_answer(self, said: Said) -> None:
        asked = self._pending.pop(said.number)
        if isinstance(asked, Ask):
            assert isinstance(said.answer, Look), said.answer
            self._judge(said.answer)
        elif not isinstance(said.answer, No):
            self.witness.heard_answer(asked, said.answer)

    def _judge(self, look: Look) -> None:
        assert not look.wrong, look.wrong
        self.witness.everything_is_there(look.leases)
        self.witness.drains_are_kept(look.drained)
        self.witness.agreements.are_kept(look.agreements)
        self._looks.append(look)
        self._has_looked = True

    def _ask_more(self, process: Killable) -> None:
        while len(self._pending) < _MOST_AT_ONCE and (command := self._next()):
            self._ask(process, command)

    def _next(self) -> Command | None:
        if self._unanswered:
            return self._unanswered.pop()
        if self._random.random() < 0.1 and self.witness.accepted:
            return self.witness.asked[self._random.choice(list(self.witness.accepted))]
        known = self.witness.open_leases()
        return self._load.next(known, len(known) < self._most_open)

    def _ask(self, process: Killable, what: Command | Ask) -> None:
        number = next(self._numbers)
        self._pending[number] = what
        if not isinstance(what, Ask):
            self.witness.heard_ask(what)
        process.tell(Told(number, what))

    # The calm after it

    def calm(self) -> list[LeaseRow]:
        """Start it once more, let everything come to its end, and stop it in good order; gives all leases."""
        with Killable(be_gateway, self.place, self._policy, 0, Mine(Spot.CLAIMED, _NEVER)) as process:
            last = self._until_all_is_over(process)
            process.tell(Told(next(self._numbers), Ask.STOP))
            status = process.ended()
            assert status == 0, f"it stopped with status {status}:\n{self._errors()}"
        return last.leases

    def _until_all_is_over(self, process: Killable) -> Look:
        give_up_s = time.monotonic() + _PATIENCE_S
        for site in SLOTS:
            self._ask(process, Undrain(site, "operator"))
        for command in self._unanswered:
            self._ask(process, command)
        self._unanswered = []
        last: Look | None = None
        while last is None or not self._is_over(last):
            if time.monotonic() > give_up_s:
                os.kill(process.pid, signal.SIGABRT)  # its log says then what each of its threads was doing
                process.ended()
                raise AssertionError(f"it does not come to an end:\n{self._what_is_left(last)}")
            self._looks = []
            if not self._pending:
                self._ask(process, Ask.LOOK)
            for message in process.hear(0.05):
                self._take_in_quietly(message)
            last = self._looks[-1] if self._looks else last
        return last

    def _take_in_quietly(self, message: object) -> None:
        if isinstance(message, Lines):
            self.witness.heard_lines(message.rows)
        elif isinstance(message, Said):
            self._hear_answer(message)

    def _is_over(self, look: Look) -> bool:
        waiting = [row for row in look.leases if not LeaseState(row.lease.state).is_final]
        heard = all(row.lease.id in self.witness.over for row in look.leases)
        return not (waiting or look.orders or any(look.machines.values()) or self._pending) and heard

    def _what_is_left(self, look: Look | None) -> str:
        if look is None:
            return f"not answered: {self._pending}\n\n{self._errors()}"
        waiting = [row for row in look.leases if not LeaseState(row.lease.state).is_final]
        tales = [f"{row}\n{self.witness.tale(row.lease.id)}" for row in waiting]
        parts = [*tales, *map(str, look.orders), str(look.machines), str(self._pending), self._errors()]
        return "\n\n".join(parts)

    def _errors(self) -> str:
        return self.place.log.read_text(encoding="utf-8") if self.place.log.exists() else ""

    # The judgement

    def judge(self, leases: list[LeaseRow]) -> None:
        """Everything that must be so when all is over."""
        self.witness.everything_is_there(leases)
        self.witness.everything_is_over(leases)
        requests = requests_by_lease(self.witness, leases)
        completed = [row.lease.id for row in leases if row.lease.state == LeaseState.COMPLETED.value]
        accounts.use_is_what_the_journal_tells(self.place.store_url, self.witness.lines.values(), leases)
        found = evidence.audits(self.place)
        evidence.nothing_came_up_twice(found)
        evidence.nothing_came_up_after_it_was_stopped(found)
        evidence.nobody_was_in_two_places(found)
        evidence.nobody_had_more_than_there_is(found, requests)
        evidence.whoever_completed_did_its_work(found, requests, completed)
