"""A file of agreements: ``[[agreement]]``, and the ``[[domain]]`` and ``[sharing]`` that they speak of."""

from dataclasses import dataclass, field
from pathlib import Path

from leasehold.configuration.agreements import agreement_to_dict, read_agreements
from leasehold.configuration.declaration import Plain
from leasehold.configuration.keys import Keys
from leasehold.configuration.tables import DOMAIN, SHARING, DomainSpec, SharingSpec, read_domains
from leasehold.configuration.times import UNIX_TIME, Clock
from leasehold.configuration.toml import read_toml
from leasehold.model.agreement import Agreement
from leasehold.model.errors import InvalidField


@dataclass(frozen=True, slots=True)
class Document:
    """What a file says. ``sharing`` is None where it does not say how agreements are applied."""

    agreements: tuple[Agreement, ...]
    domains: tuple[DomainSpec, ...] = field(default=())
    sharing: SharingSpec | None = None

    def to_dict(self, clock: Clock = UNIX_TIME) -> Plain:
        """Give the tables of the file, without those that it has not."""
        plain: Plain = {} if self.sharing is None else {"sharing": SHARING.to_dict(self.sharing)}
        if self.domains:
            plain["domain"] = [DOMAIN.to_dict(domain) for domain in self.domains]
        return plain | {"agreement": [agreement_to_dict(agreement, clock) for agreement in self.agreements]}


def load_document(path: Path, clock: Clock = UNIX_TIME) -> Document:
    """Read a file of agreements; raises InputError with file and line."""
    file = read_toml(path)
    with file.naming_lines():
        return read_document(Keys(file.values), clock)


def read_document(keys: Keys, clock: Clock = UNIX_TIME) -> Document:
    """Check the tables of a document, of which at least one is an ``[[agreement]]``.

    Raises InvalidField or UnknownName with the place of the key as field.
    """
    document = Document(
        agreements=read_agreements(keys, clock),
        domains=read_domains(keys),
        sharing=SHARING.read(keys.table("sharing")) if "sharing" in keys else None,
    )
    keys.done()
    if not document.agreements:
        raise InvalidField(keys.where("agreement"), None, "at least one [[agreement]]")
    return document
