"""On which line a key stands."""

import pytest

from leasehold.configuration.toml import line_of

TEXT = """\
name = "x"              # 1
gateway.policy = "rr"

[defaults]
victims = "mov"         # 5

[[cluster]]
name = "a"
slots = 8

[cluster.overhead]      # 11
network_mbps = 100

[[cluster]]             # 14
name = "b"
overhead.network_mbps = 10
overhead.storage = "local"

[[stream]]              # 19
"name" = "s"
types = { cancelable = 1 }
"""


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("name", 1),
        ("gateway.policy", 2),
        ("gateway", 2),
        ("defaults.victims", 5),
        ("cluster[0].slots", 9),
        ("cluster[0].overhead.network_mbps", 12),
        ("cluster[1].name", 15),
        ("cluster[1].overhead.network_mbps", 16),
        ("cluster[1].overhead.storage", 17),
        ("stream[0].name", 20),
        ("stream[0].types.cancelable", 21),
        ("cluster", 7),
    ],
)
def test_a_key_is_found(place: str, line: int) -> None:
    assert line_of(place, TEXT) == line


@pytest.mark.parametrize(("place", "line"), [("cluster[1].slots", 14), ("defaults.overhead.storage", 4)])
def test_a_key_that_is_not_there_has_the_line_of_its_table(place: str, line: int) -> None:
    assert line_of(place, TEXT) == line


def test_a_place_of_which_nothing_is_there_has_no_line() -> None:
    assert line_of("horizon_s", TEXT) is None
