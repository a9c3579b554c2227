"""How nodes and images look, in a line each."""

from collections.abc import Iterable
from datetime import datetime

from leasehold.cli.live.jobs import show_bytes
from leasehold.cli.live.moments import show_distance, show_moment
from leasehold.client import Image, Node

NODE_HEADS = ["NODE", "STATE", "CORES", "MEM", "DISK", "MHZ", "SOFTWARE", "RUNS", "FAILED", "SEEN", "PROBLEM"]
NODE_FIGURES = (2, 3, 4, 5, 6, 8)
IMAGE_HEADS = ["IMAGE", "SITE", "STATE", "SIZE", "MEM", "SOFTWARE", "SINCE", "PROBLEM"]
IMAGE_FIGURES = (3, 4, 5)


def node_lines(nodes: Iterable[Node], at: datetime) -> list[list[str]]:
    """Show each node: what is free of what it has, what it is for, and how it has behaved."""
    return [
        [
            node.name,
            "down" if node.problem else "up",
            f"{node.free_cores}/{node.cores}",
            f"{node.free_memory_mib}/{node.memory_mib}",
            f"{node.free_disk_mib}/{node.disk_mib}",
            str(node.cpu_mhz or "-"),
            str(node.packages),
            _runs(node),
            str(node.failures),
            show_distance(node.seen_at, at),
            node.problem,
        ]
        for node in nodes
    ]


def _runs(node: Node) -> str:
    parts = [name for name, is_so in (("jobs", node.runs), ("machines", node.is_host)) if is_so]
    return "+".join(parts) or "nothing"


def image_lines(images: Iterable[Image]) -> list[list[str]]:
    """Show each image: where it is, or why not."""
    return [
        [
            image.name,
            image.site or "-",
            image.state,
            show_bytes(image.size_bytes) if image.size_bytes else "-",
            str(image.least_memory_mib or "-"),
            str(len(image.software) or len(image.packages)),
            show_moment(image.since),
            image.problem,
        ]
        for image in images
    ]
