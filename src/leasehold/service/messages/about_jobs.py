"""What a gateway and a site with a manager of its own say to each other about jobs.

The site tells which nodes and images it has, of each only what has changed since it was told last; from what it can
build more images; which of its nodes offer themselves; how the commands of leases end; and, when it is asked, what they
have written. It builds images that the gateway asks for, and says what has come of it. No message is larger than
`MOST_BYTES`: what is more comes in further messages, and of what commands write the last part is sent.
Whoever reads a message must not rely on that: what is too large is cut off by the one that writes it.
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from leasehold.gateway.peering import MOST_HOPS
from leasehold.jobs.job import Fault, site_of
from leasehold.jobs.offers import MOST_STANDING
from leasehold.matching.devices import can_be_free
from leasehold.model.resources import MODEL_NAME, MOST_DEVICES, MOST_SHARES
from leasehold.protocol.fields import SHA256, FileName
from leasehold.service.drivers.bounds import LATEST_MS, MOST_EXIT_STATUS
from leasehold.service.messages.fields import Flag, Id, Moment, Natural, Text
from leasehold.service.messages.site_status import (
    LONGEST_NAME,
    MOST_IMAGES,
    MOST_NODES,
    AtLeastOne,
    GatewayId,
    Name,
)

MOST_BYTES = 256 * 1024
"""Of one message about jobs, as JSON."""

MOST_TOLD = 200
"""So many nodes are told in one message at most: requests come in between."""

MOST_SITES = 200
"""Of so many sites a peer is told at most, the first by name."""

MOST_OF_A_PEER = 10_000
"""So many nodes a peer is told, the first by name; no more are believed."""

MOST_SOFTWARE_BYTES = 128 * 1024
"""Of what is installed on a node or in an image so much is told, as JSON, in the order of its names."""

MOST_WRITTEN_BYTES = 64 * 1024
"""Of what a command has written so much is carried of each of its two outputs, the last part; it may be escaped."""

MOST_PARTS = 64
"""So many messages tell what can be built: some hundred thousand packages, in the order of their names."""

MOST_PARTS_OF_A_PEER = 256
"""So many of them a peer is told of all its sites, the first by name; no more are believed."""

MOST_IN_AN_IMAGE = 200
"""So many packages are put into one image for a gateway: no job names more software."""

MOST_PACKAGES = 20_000
_MOST_FILES = 1_000
_MOST_LINE = 2_000


def _one_fault(name: str) -> str:
    if name and name not in {fault.value for fault in Fault}:
        raise ValueError(f"not one of {', '.join(Fault)}")
    return name


def _one_model(name: str) -> str:
    if name and not MODEL_NAME.fullmatch(name):
        raise ValueError("not the name of a model of GPUs")
    return name


FaultName = Annotated[Text, AfterValidator(_one_fault)]
GpuModel = Annotated[Text, AfterValidator(_one_model)]
Size = Annotated[int, Field(strict=True, ge=0, le=LATEST_MS)]
Line = Annotated[Text, Field(max_length=_MOST_LINE)]
Hash = Annotated[str, StringConstraints(strict=True, pattern=SHA256)]
SoftwareTold = Annotated[tuple[tuple[Text, Text], ...], Field(max_length=MOST_PACKAGES)]
Site = Name | Literal[""]
Package = tuple[Name, Annotated[Text, Field(max_length=LONGEST_NAME)]]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


# To the gateway


class NodeTold(_Body):
    """One node, as `leasehold.service.drivers.facts.NodeFacts`; what is free there is what its site could still give.

    ``software``  which of the lists of software in this message is its own; -1: as it was told before
    """

    name: Name
    cores: Size
    memory_mib: Size
    disk_mib: Size
    free_cores: Size
    free_memory_mib: Size
    free_disk_mib: Size
    cpu_mhz: Size
    bytes_per_s: Size
    gpu_model: GpuModel
    gpus: Annotated[int, Field(strict=True, ge=0, le=MOST_DEVICES)]
    gpu_shares: Annotated[int, Field(strict=True, ge=0, le=MOST_SHARES)]
    free_gpus: Annotated[tuple[Natural, ...], Field(max_length=MOST_DEVICES)]
    takes_files: Flag
    is_host: Flag
    runs: Flag
    problem: Line
    fault: FaultName
    software: Moment

    @model_validator(mode="after")
    def _names_the_model_of_its_gpus(self) -> Self:
        if bool(self.gpus) != bool(self.gpu_model):
            raise ValueError("GPUs without a model, or a model without GPUs")
        return self

    @model_validator(mode="after")
    def _has_no_more_free_than_its_gpus(self) -> Self:
        if not can_be_free(self.free_gpus, self.gpus, max(1, self.gpu_shares)):
            raise ValueError("not whole shares of each of its GPUs in thousandths, the most first")
        return self


class SiteTold(_Body):
    """A site of which a gateway tells a peer.

    ``via``         the IDs of the gateways that a request passes on its way there, from the one that tells this
    ``hop_limit``   how many more gateways may be told of it
    ``speed_mips``  of one slot there
    ``by_nodes``    whether it is planned by its nodes
    ``age_ms``      how long ago it was looked at
    """

    name: Name
    via: Annotated[tuple[GatewayId, ...], Field(min_length=1, max_length=MOST_HOPS)]
    hop_limit: Annotated[int, Field(strict=True, ge=0, lt=MOST_HOPS)]
    speed_mips: AtLeastOne
    by_nodes: Flag
    age_ms: Natural


class NodesTold(_Body):
    """Nodes that are not as they were told before.

    A manager tells those of its site, by their names there; a gateway tells a peer those of several sites, named
    ``site/node``.

    ``listing``   a number that grows: all nodes are told anew in each listing, and one that is not in it is gone
    ``gone``      nodes of the same listing that the site does not have any more
    ``complete``  whether all nodes were told in this listing by now; the others are as they were told
    ``age_ms``    how long ago the site was looked at
    ``sites``     all sites of which a peer is told
    """

    kind: Literal["nodes"] = "nodes"
    listing: Id
    software: Annotated[tuple[SoftwareTold, ...], Field(max_length=MOST_TOLD)] = ()
    nodes: Annotated[tuple[NodeTold, ...], Field(max_length=MOST_TOLD)] = ()
    gone: Annotated[tuple[Name, ...], Field(max_length=MOST_TOLD)] = ()
    complete: Flag
    age_ms: Natural
    sites: Annotated[tuple[SiteTold, ...], Field(max_length=MOST_SITES)] = ()

    @model_validator(mode="after")
    def _is_of_its_sites(self) -> Self:
        names = {one.name for one in self.sites}
        if len(names) < len(self.sites):
            raise ValueError("a site is told twice")
        if names and not names.issuperset(site_of(node.name) for node in self.nodes):
            raise ValueError("a node is of no site that is told")
        return self

    @model_validator(mode="after")
    def _has_its_software(self) -> Self:
        if any(node.software >= len(self.software) for node in self.nodes):
            raise ValueError("a node has a list of software that is not in this message")
        return self


class NodeOffered(_Body):
    """One node that offers itself, as it was ``age_ms`` ago, with the software that was told of it in its listing.

    ``lasts_ms``  for how long its offer is valid, from when this arrives: no clocks are compared
    """

    node: NodeTold
    age_ms: Natural
    lasts_ms: Size

    @model_validator(mode="after")
    def _has_the_software_that_was_told(self) -> Self:
        if self.node.software >= 0:
            raise ValueError("an offer of a node brings no list of software")
        return self


class NodesOffered(_Body):
    """Nodes of a site that are lightly loaded and offer themselves, as `leasehold.jobs.offers` decides there."""

    kind: Literal["offered"] = "offered"
    offers: Annotated[tuple[NodeOffered, ...], Field(max_length=MOST_STANDING)]


class ImageTold(_Body):
    """One image, as `leasehold.service.drivers.facts.ImageFacts`."""

    name: Name
    software: SoftwareTold
    size_bytes: Natural
    least_memory_mib: Natural


class ImagesTold(_Body):
    """Images that are not as they were told before, and the names of all.

    A manager tells those of its site, by their names there; a gateway tells a peer those of several sites, named
    ``site/image``, of sites that it has told with their nodes.
    """

    kind: Literal["images"] = "images"
    images: Annotated[tuple[ImageTold, ...], Field(max_length=MOST_IMAGES)] = ()
    names: Annotated[tuple[Name, ...], Field(max_length=MOST_IMAGES)] = ()


class BuildableTold(_Body):
    """A part of what can be built at a site, as `leasehold.service.drivers.facts.Buildable`.

    ``site``     of which site a peer is told; "" for the only one
    ``listing``  a number that differs from that of the listing before: this one counts when all its parts were told
    ``part``     which one, from 0, of so many ``parts``: they come in their order
    ``base``     from which image, the same in all parts; "" where nothing can be built
    """

    kind: Literal["buildable"] = "buildable"
    site: Site = ""
    listing: Id
    part: Annotated[int, Field(strict=True, ge=0, lt=MOST_PARTS)]
    parts: Annotated[int, Field(strict=True, ge=1, le=MOST_PARTS)]
    base: Name | Literal[""]
    packages: Annotated[tuple[Package, ...], Field(max_length=MOST_PACKAGES)] = ()

    @model_validator(mode="after")
    def _is_one_of_its_parts(self) -> Self:
        if self.part >= self.parts:
            raise ValueError("no such part of its listing")
        if self.packages and not self.base:
            raise ValueError("packages, and no image into which they could be put")
        return self


class BuildTold(_Body):
    """What has come of a build that the gateway, or a peer, asked for: the image, or with a ``problem`` none.

    ``site``   where it was wanted, as in `BuildWanted`
    ``again``  whether another try may help
    """

    kind: Literal["built"] = "built"
    key: Text
    site: Site = ""
    image: ImageTold | None = None
    problem: Line = ""
    again: Flag = False

    @model_validator(mode="after")
    def _is_built_or_not(self) -> Self:
        if (self.image is None) != bool(self.problem):
            raise ValueError("either an image or a problem")
        return self


class CommandTold(_Body):
    """What machines have reported of the command of a lease; goes with the report on the lease.

    ``ended``          whether it ended by itself, and then how; ``fault``: what went wrong, where the machines know
    ``refused``        why the order to start or resume was refused; ``full``: others had the room
    ``while_it_ran``   what was reported of it while it ran
    ``restarted``      whether its machines were restarted after it had run
    ``ran_ms``         for how long it ran by the clock, -1: it did not
    """

    ended: Flag = False
    exit_status: Annotated[int, Field(strict=True, ge=0, le=MOST_EXIT_STATUS)] | None = None
    detail: Line = ""
    fault: FaultName = ""
    refused: Line = ""
    full: Flag = False
    while_it_ran: Line = ""
    restarted: Flag = False
    ran_ms: Moment = -1


class OutputTold(_Body):
    """What the command of a lease has written so far: the last part; with a ``problem`` it could not be read."""

    kind: Literal["output"] = "output"
    lease: Id
    text: Text
    error: Text
    is_whole: Flag
    problem: Line = ""


class FileSent(_Body):
    """A file that a command has left, as `leasehold.service.store.rows.OutputFile`, and that was sent before."""

    name: FileName
    sha256: Hash | Literal[""]
    size_bytes: Natural
    problem: Line


class FilesSent(_Body):
    """The files that the command of a lease has left were sent; with a ``problem`` they could not all be."""

    kind: Literal["sent"] = "sent"
    lease: Id
    files: Annotated[tuple[FileSent, ...], Field(max_length=_MOST_FILES)] = ()
    problem: Line = ""


# To the site


class Placed(_Body):
    """Where the machines of an attempt are to be, as `leasehold.service.drivers.protocol.PlacementConstraints`."""

    nodes: Annotated[tuple[Name, ...], Field(max_length=MOST_NODES)]
    image: Text
    cores: Natural
    least: Natural


class FileNeeded(_Body):
    """An input of a command, as `leasehold.service.drivers.staging.StagedFile`; the site fetches it at the gateway."""

    name: FileName
    sha256: Hash
    size_bytes: Natural


class FilesNeeded(_Body):
    """The files of a command, as `leasehold.service.drivers.staging.JobFiles`."""

    inputs: Annotated[tuple[FileNeeded, ...], Field(max_length=_MOST_FILES)]
    outputs: Annotated[tuple[FileName, ...], Field(max_length=_MOST_FILES)]


class OutputWanted(_Body):
    """The gateway asks for what the command of a lease has written so far."""

    kind: Literal["read"] = "read"
    lease: Id


class FilesWanted(_Body):
    """The gateway asks for the files that the command of a lease has left: the site sends them, and then says so."""

    kind: Literal["collect"] = "collect"
    lease: Id


class BuildWanted(_Body):
    """The gateway, or a peer, asks for an image: these packages, with their versions, on top of a base.

    ``key``   its own name for that
    ``site``  at which of the sites that a peer was told; "" for the only one
    """

    kind: Literal["build"] = "build"
    key: Text
    site: Site = ""
    base: Name
    packages: Annotated[tuple[Package, ...], Field(min_length=1, max_length=MOST_IN_AN_IMAGE)]


class LookWanted(_Body):
    """What the gateway knows of nodes has proved wrong: they are to be looked at.

    ``anew``    and all are to be told once more
    ``images``  and so are images, and what can be built
    """

    kind: Literal["look"] = "look"
    anew: Flag = False
    images: Flag = False


AboutJobs = (
    NodesTold
    | NodesOffered
    | ImagesTold
    | BuildableTold
    | BuildTold
    | OutputTold
    | FilesSent
    | OutputWanted
    | FilesWanted
    | BuildWanted
    | LookWanted
)
