"""What-if as it is asked: changes read from JSON, and a site that is to be added from the file of its owner."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from leasehold.configuration.agreements import agreement_from_dict, agreement_to_dict, read_agreements
from leasehold.configuration.declaration import Flag, Table, Texts
from leasehold.configuration.keys import Keys
from leasehold.configuration.policies import IN_FILE
from leasehold.configuration.tables import domain_by_site
from leasehold.configuration.terms import TERMS
from leasehold.configuration.times import UNIX_TIME
from leasehold.configuration.toml import read_toml
from leasehold.forecasting.what_if import (
    AddDescribedSite,
    AddSite,
    Agree,
    Change,
    ChangeSite,
    Drain,
    Lend,
    Load,
    Policy,
)
from leasehold.model.errors import InvalidField
from leasehold.service.config import CLUSTER, SiteSpec, default_terms
from leasehold.service.config_file import capabilities_of, config_from_dict, read_bare_site
from leasehold.service.drivers.protocol import Capabilities
from leasehold.service.opening import snapshot_site

Json = dict[str, Any]

_KINDS: Mapping[str, type] = {
    "drain": Drain,
    "add_site": AddSite,
    "site": ChangeSite,
    "policy": Policy,
    "agreement": Agree,
    "load": Load,
    "lend": Lend,
}
"""The field by which each kind of change is told."""

MACHINES = Table(
    Capabilities,
    "What the machines of a site that is added can do.",
    {
        "suspend": Flag("memory can be saved"),
        "migrate": Flag("machines can be migrated"),
        "hands_over": Flag("saved memory can go to sites with managers of their own, and come from there"),
        "notice": Flag("a guest can be told that it will be preempted"),
        "login": Flag("the user of a lease can log in"),
        "images": Texts("images that a lease may name"),
    },
)
"""``machines`` of a site that is added: its file says so by its kind of machines and their options."""


def read_changes(changes: Iterable[Mapping[str, Any]], reference_mips: int) -> list[Change]:
    """Read changes from JSON; raises InvalidField or UnknownName for what is none.

    ``reference_mips`` is the speed of a site that is added, where it says none.
    """
    made: list[Change] = []
    for index, change in enumerate(changes):
        kind = next((kind for key, kind in _KINDS.items() if key in change), None)
        if kind is None:
            raise InvalidField(f"changes[{index}]", dict(change), f"one of {', '.join(_KINDS)}")
        if kind is Agree:
            made.append(_agree(index, change["agreement"]))
        elif kind is AddSite and isinstance(change["add_site"], Mapping):
            made.append(_described(Keys(change, f"changes.{index}"), reference_mips))
        else:
            made.append(_plain(index, kind, change))
    return made


def _plain(index: int, kind: type, change: Mapping[str, Any]) -> Change:
    try:
        made: Change = TypeAdapter(kind).validate_python(dict(change), strict=False)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(["changes", str(index), *map(str, first["loc"])])
        raise InvalidField(place, first["input"], first["msg"][0].lower() + first["msg"][1:]) from None
    return made


def _agree(index: int, document: object) -> Agree:
    """Read an agreement under the keys of a file of agreements."""
    if not isinstance(document, Mapping):
        raise InvalidField(f"changes.{index}.agreement", document, "an agreement, under the keys of its file")
    return Agree(agreement_from_dict(document))


def _described(keys: Keys, reference_mips: int) -> AddDescribedSite:
    """Read a site under the keys of ``[[cluster]]``, with its agreements and its domain."""
    table = keys.table("add_site")
    machines = MACHINES.read(table.table("machines")) if "machines" in table else Capabilities()
    _refuse_files(table)
    site = read_bare_site(table, default_terms(reference_mips))
    agreements = read_agreements(keys, UNIX_TIME)
    domain = keys.text("domain", "")
    keys.done()
    return AddDescribedSite(snapshot_site(site, machines), agreements, domain)


def _refuse_files(table: Keys) -> None:
    """Refuse a policy in a file before it is run: what is asked for may come from another machine."""
    victims = table.peek("victims")
    if isinstance(victims, str) and IN_FILE in victims:
        raise InvalidField(table.where("victims"), victims, "a policy that `leasehold policy list` shows, not a file")


def site_of_file(path: Path, name: str = "") -> Json:
    """Read the file of a site, a configuration as ``leasehold site serve`` reads it, as a change that adds this site.

    The file may have agreements with it (``[[agreement]]``), and domains. Of more than one ``[[cluster]]`` that of
    this name is meant. How its machines are reached is not in the change. Raises InputError with file and line.
    """
    file = read_toml(path)
    with file.naming_lines():
        values = dict(file.values)
        agreements = read_agreements(Keys({"agreement": values.pop("agreement", [])}), UNIX_TIME)
        config = config_from_dict(values, path.parent)
        chosen = [site for site in config.clusters if name in ("", site.name)]
        if len(chosen) != 1:
            raise InvalidField("NAME", name or None, f"one of {', '.join(site.name for site in config.clusters)}")
        [site] = chosen
        domain = domain_by_site(config.domains).get(site.name, "")
        for index, agreement in enumerate(agreements):
            if agreement.provider not in (site.name, domain):
                expected = f"{site.name}, the site that is added{f', or {domain}' if domain else ''}"
                raise InvalidField(f"agreement[{index}].provider", agreement.provider, expected)
        change: Json = {"add_site": _table(site, config.service.reference_mips)}
    change |= {"agreement": [agreement_to_dict(one) for one in agreements]} if agreements else {}
    return change | ({"domain": domain} if domain else {})


def _table(site: SiteSpec, reference_mips: int) -> Json:
    """Give what matters of a site under the keys of ``[[cluster]]``; a usual speed is that of wherever it is added."""
    terms = TERMS.to_dict(site.terms)
    if site.terms.speed_mips == reference_mips:
        terms.pop("speed_mips", None)
    own = {key: value for key, value in CLUSTER.to_dict(site).items() if key in ("name", "slots", "resources", "nodes")}
    return own | terms | {"machines": MACHINES.to_dict(capabilities_of(site))}
