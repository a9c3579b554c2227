"""What a site under libvirt can be told, and how a machine is then described."""

import json
import re
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests.service.drivers.sites import Clock, setup

from leasehold.model.errors import InputError, InvalidField
from leasehold.service.config_file import config_from_dict
from leasehold.service.drivers.libvirt.domain import Name, console_path, describe, disk_paths, read_name
from leasehold.service.drivers.libvirt.options import read_options
from leasehold.service.drivers.registry import driver

PAGE = Path(__file__).resolve().parents[4] / "docs" / "howto" / "libvirt.md"
TEMPLATE = """\
<domain type='kvm'><name>mine</name><uuid>4dea22b3-1d52-d8f3-2516-782e98ab3fa0</uuid><title>kept</title>
<memory unit='GiB'>4</memory><currentMemory unit='GiB'>2</currentMemory><os><type>hvm</type></os>
<devices><serial type='pty'/>
<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
</devices></domain>
"""


class TestThePage:
    def test_has_an_example_that_is_accepted(self) -> None:
        [example] = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
        assert config_from_dict(tomllib.loads(example)).clusters[0].driver == "libvirt"


class TestMistakes:
    @pytest.mark.parametrize(
        ("options", "field"),
        [
            ({"type": "xen"}, "type"),
            ({"vcpus": 0}, "vcpus"),
            ({"initrd": "/boot/initrd"}, "initrd"),
            ({"template": "nowhere.xml"}, "template"),
            ({"poll_s": 0}, "poll_s"),
            ({"login_address": "rack-a.example.org"}, "login_address"),
            ({"software": ["gcc twelve!"]}, "software"),
            ({"image_software": {"lab": ["gcc 12.2"]}}, "image_software"),
            ({"login_user": "debian"}, "login_user"),
            ({"login_user": "debian", "guest_agent": True, "type": "test"}, "login_user"),
        ],
    )
    def test_are_said_in_one_line(self, options: dict[str, object], field: str) -> None:
        with pytest.raises(InvalidField, match=f"^{field}: "):
            read_options(options)

    def test_have_their_line_in_the_configuration(self) -> None:
        with pytest.raises(InvalidField, match=r"cluster\[0\]\.libvirt\.volum.*did you mean 'volume'"):
            config_from_dict({"cluster": [{"name": "a", "slots": 1, "driver": "libvirt", "libvirt": {"volum": "x"}}]})

    def test_a_template_of_something_else_is_none(self, tmp_path: Path) -> None:
        file = tmp_path / "network.xml"
        file.write_text("<network/>")
        with pytest.raises(InvalidField, match="description of a domain"):
            read_options({"template": str(file)})


class TestDescriptions:
    def test_from_options(self) -> None:
        read = read_options(
            {
                "kernel": "/boot/k",
                "initrd": "/boot/i",
                "cmdline": "quiet",
                "machine": "pc",
                "vcpus": 2,
                "cpu_percent": 50,
                "network": "default",
                "guest_agent": True,
            }
        )
        domain = ET.fromstring(describe(read, "leasehold-a-1-1-0", 512, "/pool/one.qcow2"))  # noqa: S314 - our own
        assert domain.get("type") == "kvm"
        texts = {path: domain.findtext(path) for path in ("name", "memory", "vcpu", "os/kernel", "os/cmdline")}
        assert list(texts.values()) == ["leasehold-a-1-1-0", "512", "2", "/boot/k", "quiet"]
        assert domain.findtext("cputune/quota") == "50000"
        assert domain.find("devices/interface/source[@network='default']") is not None
        assert domain.find("devices/channel/target[@name='org.qemu.guest_agent.0']") is not None

    def test_say_where_disk_and_console_are(self) -> None:
        text = describe(read_options({"consoles": "/log"}), "one", 64, "/pool/one.qcow2")
        assert console_path(text) == "/log/one.console"
        assert disk_paths(text) == ["/pool/one.qcow2"]

    def test_from_a_template_keep_what_is_not_ours(self, tmp_path: Path) -> None:
        file = tmp_path / "domain.xml"
        file.write_text(TEMPLATE)
        text = describe(read_options({"template": str(file), "guest_agent": True}), "one", 64, None)
        domain = ET.fromstring(text)  # noqa: S314 - our own
        assert (domain.findtext("name"), domain.findtext("title")) == ("one", "kept")
        memory = domain.find("memory")
        assert memory is not None
        assert (memory.text, memory.get("unit")) == ("64", "MiB")
        assert domain.find("uuid") is None
        assert domain.find("currentMemory") is None
        assert len(domain.findall("devices/channel")) == 1, "the agent's channel was there"
        assert console_path(text) is None, "its console is its owner's"


class TestTheWayIn:
    def arguments(self, described: str) -> list[str | None]:
        space = "{http://libvirt.org/schemas/domain/qemu/1.0}"
        parts = ET.fromstring(described).iterfind(f"{space}commandline/{space}arg")  # noqa: S314 - our own
        return [part.get("value") for part in parts]

    def test_is_there_for_a_lease_with_a_key_alone(self) -> None:
        read = read_options({"login_user": "debian", "guest_agent": True})
        assert self.arguments(describe(read, "one", 64, None)) == []
        _, network, _, card = self.arguments(describe(read, "one", 64, None, lets_in=True))
        assert "restrict=on" in str(network), "nothing leads out"
        assert json.loads(str(card))["driver"] == "virtio-net-pci"

    def test_comes_after_what_a_template_tells_qemu(self, tmp_path: Path) -> None:
        file = tmp_path / "domain.xml"
        own = "<qemu:commandline><qemu:arg value='-snapshot'/></qemu:commandline>"
        space = "xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'"
        file.write_text(f"<domain type='kvm' {space}><os><type>hvm</type></os>{own}</domain>")
        read = read_options({"template": str(file), "login_user": "debian", "guest_agent": True})
        first, *others = self.arguments(describe(read, "one", 64, None, lets_in=True))
        assert (first, len(others)) == ("-snapshot", 4)


class TestNames:
    def test_are_read_as_they_were_written(self) -> None:
        name = Name("rack.a-1", (7, 3), 2)
        assert read_name(str(name), "rack.a-1") == name

    @pytest.mark.parametrize("text", ["debian", "leasehold-rackxa-1-7-3-2", "leasehold-b-7-3-2", "leasehold-a-7-3"])
    def test_of_others_are_not_ours(self, text: str) -> None:
        assert read_name(text, "rack.a-1") is None


def test_without_its_extra_it_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [one for one in sys.modules if one.startswith("leasehold.service.drivers.libvirt.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "libvirt", None)
    with pytest.raises(InvalidField, match=r"pip install 'leasehold\[libvirt\]'"):
        driver("libvirt", setup(tmp_path, Clock()))


def test_a_ledger_of_something_else_is_refused(tmp_path: Path, library: Path) -> None:  # noqa: ARG001 - imported
    (tmp_path / "instances.sqlite3").write_text("this is no database, and it is long enough to be seen as none" * 20)
    with pytest.raises(InputError, match="not a record of machines"):
        driver("libvirt", setup(tmp_path, Clock()))
