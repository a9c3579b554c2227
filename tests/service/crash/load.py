"""What users ask of the federation that is killed: drawn at random, and the same for the same number."""

from collections.abc import Callable, Sequence
from random import Random

from tests.service.crash.federation import MEMORY_MIB, SLOTS, clock

from leasehold.model.agreement import Agreement, Commitment
from leasehold.model.request import LeaseType
from leasehold.service.commands import (
    Cancel,
    Command,
    Drain,
    Extend,
    ProposeAgreement,
    PublishAgreement,
    ResumeAgreement,
    RevokeAgreement,
    SignAgreement,
    Submit,
    SuspendAgreement,
    Undrain,
)
from leasehold.sharing.records import AgreementSide
from leasehold.testing.rows import submit

CONSUMERS = ("physics", "climate", "astro-pipeline")
AGREEMENTS = [
    Agreement(
        f"agreement-{number}",
        provider,
        consumer,
        Commitment(epoch_ppm=400_000, epoch_ms=4_000, burst_ppm=600_000, burst_ms=1_000),
    )
    for number, (provider, consumer) in enumerate((("a", "*"), ("*", "physics"), ("*", "climate")))
]
_GUESTS = (LeaseType.SUSPENDABLE,) * 3 + (LeaseType.MIGRATABLE,) * 4 + tuple(LeaseType)
_HOMES = (8, 1, 1)  # most of them at one site, so that its guests find room elsewhere
_SPARE_MS = {True: (0, 100), False: (0, 300, 1_000, 2_000)}


class Load:
    """Draws one command after another."""

    def __init__(self, number: int) -> None:
        self._random = Random(number)
        self._keys = 0

    def next(self, known: Sequence[int], may_submit: bool) -> Command | None:  # noqa: FBT001 - told, not chosen
        """What is asked next, about the leases that are known; None for nothing."""
        draw = self._random.random()
        if draw < 0.15:
            return self._about_an_agreement()
        if draw < 0.85:
            return self._submit() if may_submit else None
        if draw < 0.98:
            return self._about(known)
        return self._about_a_site()

    def _about(self, known: Sequence[int]) -> Command | None:
        if not known:
            return None
        lease_id = self._random.choice(known[-8:])
        if self._random.random() < 0.25:
            return Cancel(lease_id)
        return Extend(lease_id, self._random.randrange(20, 200))

    def _about_a_site(self) -> Command:
        site = self._random.choice(list(SLOTS))
        act: Callable[[str, str], Command] = Undrain if self._random.random() < 0.6 else Drain
        return act(site, "operator")

    def _about_an_agreement(self) -> Command:
        """One that is there, or is not: what cannot be is refused."""
        agreement = self._random.choice(AGREEMENTS)
        draw = self._random.random()
        if draw < 0.3:
            return ProposeAgreement(agreement, "operator")
        if draw < 0.85:
            return SignAgreement(agreement.name, self._random.choice(list(AgreementSide)), 1, "operator")
        moves: tuple[Command, ...] = (
            PublishAgreement(agreement.name, published=True, by="operator"),
            SuspendAgreement(agreement.name, "operator"),
            ResumeAgreement(agreement.name, "operator"),
            RevokeAgreement(agreement.name, "operator"),
        )
        return self._random.choice(moves)

    def _submit(self) -> Submit:
        self._keys += 1
        local = self._random.random() < 0.5
        lease_type = LeaseType.NON_PREEMPTABLE if local else self._random.choice(_GUESTS)
        site = self._random.choices(list(SLOTS), _HOMES)[0] if local else None
        most = 2 if site is None else SLOTS[site]
        work_ms = self._random.randrange(10, 60) if local else self._random.randrange(50, 400)
        runs = self._random.random() < 0.85
        key = f"key-{self._keys}"
        return submit(
            consumer=self._random.choice(CONSUMERS),
            lease_type=lease_type,
            vms=self._random.randint(1, most),
            duration_ms=work_ms + (self._random.choice(_SPARE_MS[local]) if runs else 0),
            memory_mib=MEMORY_MIB,
            ready_ms=self._ready_ms(),
            deadline_ms=self._deadline_ms(lease_type),
            site=site,
            name=key,
            command=("sleep", f"{work_ms / 1000}") if runs else (),
            key=key,
            request_hash=f"hash of {key}",
        )

    def _ready_ms(self) -> int | None:
        return clock() + self._random.randrange(100, 600) if self._random.random() < 0.2 else None

    def _deadline_ms(self, lease_type: LeaseType) -> int | None:
        if lease_type.is_best_effort or self._random.random() < 0.6:
            return None
        return clock() + self._random.randrange(8_000, 20_000)
