"""The tables that scenarios and services have in common beside the terms of clusters.

``[gateway]`` says how guests are sent to clusters, ``[sharing]`` how agreements are applied, ``[[domain]]``
which clusters lend together, ``resources`` and ``claims`` what clusters have and requests hold besides CPUs.
"""

import itertools
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Annotated

from leasehold.configuration.declaration import Choice, Counts, Flag, Key, Plain, Seconds, Table, Text, Texts, Whole
from leasehold.configuration.keys import MOST_ENTRIES, Keys
from leasehold.configuration.policies import RoutingPolicyName
from leasehold.configuration.times import Date
from leasehold.model.agreement import CPUS, EVERYBODY, GPUS, MEMORY
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.request import IMAGE_NAME, MOST_RESTARTS
from leasehold.model.resources import MODEL_NAME, MOST_DEVICES, MOST_SHARES, NodeResources, gpus_text, parse_gpus
from leasehold.sharing.broker_policies.registry import broker_policy
from leasehold.sharing.enforcement import ALLOW, WITHOUT_AGREEMENT, SharingSettings

MOMENTS = ("learnt", "told")


@dataclass(frozen=True, slots=True)
class GatewaySpec:
    """How guests are sent to clusters."""

    policy: Annotated[
        str,
        RoutingPolicyName(
            "routing policy of guests (leasehold policy list)",
            more=": [routing policies](policies.md), with [parameters](policies.md#parameters) that differ"
            " from the defaults, or `file.py:Name`",
        ),
    ] = "pap-rtdp"
    moments: Annotated[
        str,
        Choice(
            "source of the rates and sizes of the streams: estimated from arrivals",
            more=" (`learnt`), or the true ones of the model (`told`), which a service does not have. Those"
            " of a log are always estimated, and so are those of guests if some are co-allocations",
            of=MOMENTS,
        ),
    ] = "learnt"
    try_elsewhere: Annotated[bool, Flag("offer a guest that its cluster refuses to the other clusters")] = False
    use_free_room: Annotated[
        bool,
        Flag(
            "send guests to clusters where they can start now, waiting guests too",
            more=": the policy chooses among the clusters that can start a guest now, if there are any; a"
            " guest that waits at a cluster and has never started moves to another one as soon as that"
            " can start it",
        ),
    ] = False
    tick_ms: Annotated[
        int,
        Seconds(
            "interval at which the policy reconsiders the requests that it holds, if it does not say when",
            least_ms=1,
        ),
    ] = 10_000
    max_restarts: Annotated[
        int,
        Whole(
            "how often a guest begins again whose machines were lost, at most",
            more=": from the start of its work, at any cluster, if it can still finish before its deadline",
            least=0,
            most=MOST_RESTARTS,
        ),
    ] = 3


GATEWAY = Table(GatewaySpec, "How guests are routed to clusters.")


def _broker_policy(name: str) -> str:
    broker_policy(name)
    return name


@dataclass(frozen=True, slots=True)
class SharingSpec:
    """How agreements are applied.

    ``starts_at_ms`` is the Unix time at which the requests' clock shows zero, None if unknown: only
    a run has such a time, and `SHARING_OF_RUN` its key.
    """

    without_agreement: Annotated[
        str,
        Choice(
            "guests admitted without an agreement: allow, members, preemptable or refuse",
            more=". `allow`: all; `members`: those of consumers with a token from the administrator;"
            " `preemptable`: of those, only guests that can be preempted; `refuse`: none. A consumer"
            " with a token of another issuer, or from a peer, needs an agreement that names it or a"
            " group above it, unless this is `allow`",
            of=WITHOUT_AGREEMENT,
        ),
    ] = ALLOW
    threshold: Annotated[
        int,
        Whole("agreements with a higher penalty are never broken; breaking others is penalised", least=0),
    ] = 0
    top_n: Annotated[
        int | None,
        Whole("number of virtual domains to which the broker narrows the choice; absent: all", unset="all"),
    ] = None
    broker_policy: Annotated[
        str,
        Text(
            "broker policy, which scores virtual domains",
            more=(
                ": `most-room`, `least-used`, `cheapest-penalty`, `random`, `sphinx`, `gridbus`, `gruber`, or one "
                "of an installed package"
            ),
            convert=_broker_policy,
        ),
    ] = "most-room"
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


SHARING = Table(SharingSpec, "How agreements are applied.")
SHARING_OF_RUN = replace(
    SHARING,
    keys={**SHARING.declared, "starts_at_ms": Date("date of second zero of the run", name="starts_at")},
)
"""``[sharing]`` of a run, whose clock begins at zero."""


@dataclass(frozen=True, slots=True)
class DomainSpec:
    """A virtual domain (Dumitrescu et al. 2007, section 2.2) and the names of its sites."""

    name: Annotated[str, Text("name in agreements and requests", more="; no site may have the same name")]
    sites: Annotated[
        tuple[str, ...],
        Texts(
            "its clusters, including sites with their own site manager",
            more="; `serve` and `doctor` warn of one that is not configured and has never joined",
        ),
    ]


DOMAIN = Table(DomainSpec, "A virtual domain: clusters that lend together.")


def read_domains(keys: Keys) -> tuple[DomainSpec, ...]:
    """Take every ``[[domain]]``; raises InvalidField or UnknownName with the place of the key as field."""
    domains: list[DomainSpec] = []
    taken: dict[str, str] = {}
    for table in keys.tables("domain"):
        domain = _domain(table, [domain.name for domain in domains])
        for site in domain.sites:
            if site in taken:
                raise InvalidField(table.where("sites"), site, f"a site that is not in {taken[site]!r} already")
            taken[site] = domain.name
        domains.append(domain)
    return tuple(domains)


def _domain(table: Keys, others: list[str]) -> DomainSpec:
    domain = DOMAIN.read(table)
    if domain.name in others or domain.name == EVERYBODY or domain.name.startswith("@"):
        expected = "a name that no other domain has, other than *, and without @"
        raise InvalidField(table.where("name"), domain.name, expected)
    if not domain.sites:
        raise InvalidField(table.where("sites"), None, "at least one site")
    return domain


def check_names(domains: Sequence[DomainSpec], sites: Iterable[str]) -> None:
    """Refuse a domain that is named as a site is; raises InvalidField with the place of the key as field."""
    names = {*sites, *(site for domain in domains for site in domain.sites)}
    for index, domain in enumerate(domains):
        if domain.name in names:
            raise InvalidField(f"domain[{index}].name", domain.name, "a name that no site has")


def check_sites(domains: Sequence[DomainSpec], known: Iterable[str]) -> None:
    """Refuse domains of sites that there are not, or named as a site is.

    Raises InvalidField or UnknownName with the place of the key as field.
    """
    names = list(known)
    check_names(domains, names)
    for index, domain in enumerate(domains):
        for site in domain.sites:
            if site not in names:
                raise UnknownName(f"domain[{index}].sites", site, names)


def strangers(domains: Iterable[DomainSpec], known: Container[str]) -> list[tuple[str, str]]:
    """List the unknown sites, each with its domain before it."""
    return [(domain.name, site) for domain in domains for site in domain.sites if site not in known]


def domain_by_site(domains: Iterable[DomainSpec]) -> dict[str, str]:
    """Say for each site in a domain which one."""
    return {site: domain.name for domain in domains for site in domain.sites}


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """The GPUs of a node."""

    model: Annotated[str, Text("model, such as a100; a MIG instance is a model of its own, such as a100_1g.10gb")]
    count: Annotated[int, Whole("number of devices", most=MOST_DEVICES)] = 1
    shares: Annotated[
        int,
        Whole(
            "number of parts in which each device can be lent",
            more="; with 1 a request for a fraction takes a whole device, with 0 there are no fractions",
            least=0,
            most=MOST_SHARES,
        ),
    ] = 1


NODE_GPUS = Table(NodeGpus, "GPUs of a node.")


class GpusOfNode(Key):
    """A table `NodeGpus`."""

    accepts = "table: `{ model, count, shares }`"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the table."""
        if name not in keys:
            return keys.take(name, default)
        table = keys.table(name)
        gpus = NODE_GPUS.read(table)
        if not MODEL_NAME.fullmatch(gpus.model):
            raise InvalidField(table.where("model"), gpus.model, "letters, digits, _ . and -, such as a100")
        return gpus

    def write(self, value: NodeGpus) -> Plain:
        """Give the table."""
        return NODE_GPUS.to_dict(value)


@dataclass(frozen=True, slots=True)
class PlannedNodes:
    """Nodes of a cluster that differ only in their names, as its plan counts them."""

    count: Annotated[int, Whole("number of nodes of this kind", most=MOST_ENTRIES)] = 1
    name: Annotated[str, Text("name, with a number appended if there are several", unset="`n1`, `n2`, …")] = ""
    cores: Annotated[int, Whole("cores of each node")] = 4
    memory_mib: Annotated[int, Whole("memory of each node; 0: not counted", least=0)] = 0
    gpus: Annotated[NodeGpus | None, GpusOfNode("GPUs of each node", unset="none")] = None

    def each(self, numbers: Iterator[int]) -> list[NodeResources]:
        """Give as many nodes as it says; those without a name are numbered."""
        gpus = self.gpus or NodeGpus("", 0)
        if self.name:
            names = [self.name] if self.count == 1 else [f"{self.name}{one + 1}" for one in range(self.count)]
        else:
            names = [f"n{next(numbers)}" for _ in range(self.count)]
        return [NodeResources(name, self.cores, self.memory_mib, gpus.model, gpus.count, gpus.shares) for name in names]


PLANNED_NODES = Table(PlannedNodes, "Nodes by which a cluster is planned.")


class NodesPlanned(Key):
    """The tables ``[[cluster.nodes]]`` of a live site, held as the nodes that they say."""

    accepts = "list of tables"

    def read(self, keys: Keys, name: str, default: object) -> object:  # noqa: ARG002 - an absent list is empty
        """Take the list; raises InvalidField also for two nodes of one name."""
        numbers = itertools.count(1)
        nodes: list[NodeResources] = []
        for table in keys.tables(name):
            nodes += PLANNED_NODES.read(table).each(numbers)
            known = [node.name for node in nodes]
            double = next((one for one in known if known.count(one) > 1 or "/" in one), None)
            if double is not None:
                raise InvalidField(table.where("name"), double, "a name that no other node has, without a /")
        return tuple(nodes)

    def write(self, value: Iterable[NodeResources]) -> list[Plain]:
        """Give a table for each node."""
        return [
            PLANNED_NODES.to_dict(
                PlannedNodes(
                    1,
                    one.name,
                    one.cores,
                    one.memory_mib,
                    NodeGpus(one.gpu_model, one.gpus, one.gpu_shares) if one.gpus else None,
                )
            )
            for one in value
        ]


class GpusAsked(Key):
    """A number of GPUs, with a model before it; held as the model and thousandths of a GPU."""

    accepts = 'text such as `"a100:2"`, `"a100:0.5"` or `"2"`'

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the text."""
        text = keys.text(name, None)
        return default if text is None else parse_gpus(text, keys.where(name))

    def to_dict(self, field_name: str, value: object) -> Plain:
        """Give the text; nothing for no GPUs."""
        model, milli = value if isinstance(value, tuple) else ("", 0)
        return {self.name_of(field_name): gpus_text(model, milli)} if milli else {}


ASKED_GPUS = GpusAsked("GPUs of each VM", more=": whole ones, or a fraction of one, by model or of any", unset="none")
ASKED_CORES = Whole("cores of each VM", more="; more than 1 only at clusters planned by `nodes`")


def check_image_name(field: str, image: str) -> str:
    """Return the name of an image; raises InvalidField where it is none."""
    if not re.fullmatch(IMAGE_NAME, image):
        raise InvalidField(
            field, image, "a name of letters, digits and ._:+-, at most 64, beginning with a letter or digit"
        )
    return image


@dataclass(frozen=True)
class ImageNames(Texts):
    """The names of images, where a name is all that there is of one."""

    accepts = "list of names"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the names, each once."""
        texts = super().read(keys, name, default)
        for image in texts if isinstance(texts, tuple) else ():
            check_image_name(keys.where(name), image)
        return tuple(sorted(set(texts))) if isinstance(texts, tuple) else texts


ASKED_IMAGE = Text(
    "image that each guest names",
    more="; clusters that have it say so in `images`",
    unset="none",
    optional=True,
    convert=partial(check_image_name, "image"),
)


_NAMED = re.compile(r"[a-z][a-z0-9_-]*:[A-Za-z0-9][A-Za-z0-9._-]*")
_A_RESOURCE = (
    f"{CPUS}, {MEMORY}, {GPUS}, {GPUS}:MODEL, or a kind and a name, such as licence:matlab or service:database"
)


def check_resource(place: str, resource: str) -> None:
    """Refuse what names no resource; raises InvalidField with this place as field."""
    if resource not in (CPUS, MEMORY, GPUS) and not _NAMED.fullmatch(resource):
        raise InvalidField(place, resource, _A_RESOURCE)


@dataclass(frozen=True)
class Units(Counts):
    """Units of resources, but not of those in ``without``, each of which has a reason."""

    _: KW_ONLY
    without: Mapping[str, str] = field(default_factory=dict)

    def check(self, keys: Keys, name: str) -> None:
        """Refuse what names no resource."""
        check_resource(keys.where(name), name)
        if name in self.without:
            raise InvalidField(keys.where(name), keys.take(name), f"another resource: {self.without[name]}")


RESOURCES = Units(
    "units of its resources other than slots",
    more=', such as `{ memory_mib = 65536, "licence:matlab" = 5 }`; a request for more of one never starts there',
    unset="none",
    optional=True,
    least=0,
    without={CPUS: "slots say how many CPUs there are", GPUS: "its nodes say how many GPUs there are"},
)
CLAIMS = Units(
    "units of further resources that each request holds while it runs",
    more=', such as `{ "licence:matlab" = 1 }`',
    unset="none",
    optional=True,
    without={
        CPUS: "every request takes one for each VM",
        MEMORY: "memory_mib says what each VM takes",
        GPUS: "gpus say what each VM takes",
    },
)


def claims_of(units: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Give claims in one order, as a request has them."""
    return tuple(sorted(units.items()))
