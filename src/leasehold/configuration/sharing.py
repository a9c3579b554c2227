"""How agreements are applied: the keys of ``[sharing]``."""

from dataclasses import dataclass, replace

from leasehold.configuration.keys import Keys
from leasehold.configuration.moments import date_text, read_date
from leasehold.configuration.plain import Plain
from leasehold.sharing.broker_policies.registry import broker_policy
from leasehold.sharing.enforcement import ALLOW, WITHOUT_AGREEMENT, SharingSettings


@dataclass(frozen=True, slots=True)
class SharingSpec:
    """How agreements are applied.

    ``without_agreement``  which guests are let in to whom no agreement applies: ``allow`` (all), ``members``
                           (those with a token of this gateway), ``preemptable`` (of those, guests that can be
                           preempted) or ``refuse`` (none)
    ``threshold``          agreements with a higher penalty are never broken; others may be, at that price
    ``top_n``              to how many virtual domains the broker narrows the choice, None for all eligible
    ``broker_policy``      how it scores them
    ``starts_at_ms``       Unix time at which the requests' clock shows zero, None where nobody said
    """

    without_agreement: str = ALLOW
    threshold: int = 0
    top_n: int | None = None
    broker_policy: str = "most-room"
    starts_at_ms: int | None = None

    def settings(self) -> SharingSettings:
        """Give what the gateway needs."""
        return SharingSettings(
            without_agreement=self.without_agreement,
            threshold=self.threshold,
            top_n=self.top_n,
            broker_policy=self.broker_policy,
            starts_at_ms=self.starts_at_ms or 0,
        )

    def to_dict(self) -> Plain:
        """Give the keys of ``[sharing]``."""
        told: Plain = {"without_agreement": self.without_agreement, "threshold": self.threshold}
        told |= {} if self.top_n is None else {"top_n": self.top_n}
        told["broker_policy"] = self.broker_policy
        return told | ({} if self.starts_at_ms is None else {"starts_at": date_text(self.starts_at_ms)})


def read_sharing(keys: Keys, usual: SharingSpec | None = None) -> SharingSpec:
    """Check the keys of ``[sharing]``, and refuse others; ``usual`` is what is not said.

    Raises InvalidField or UnknownName with the place of the key as field.
    """
    usual = usual or SharingSpec()
    policy = keys.text("broker_policy", usual.broker_policy)
    with keys.at("broker_policy"):
        broker_policy(policy)
    spec = SharingSpec(
        without_agreement=keys.name_of("without_agreement", WITHOUT_AGREEMENT, usual.without_agreement),
        threshold=keys.whole("threshold", usual.threshold, least=0),
        top_n=keys.whole("top_n", None),
        broker_policy=policy,
    )
    keys.done()
    return spec


def read_sharing_of_run(keys: Keys) -> SharingSpec:
    """Check the keys of ``[sharing]`` for a run, whose clock begins at zero: it may say ``starts_at``.

    Raises InvalidField or UnknownName with the place of the key as field.
    """
    starts_at_ms = read_date(keys, "starts_at")
    return replace(read_sharing(keys), starts_at_ms=starts_at_ms)
