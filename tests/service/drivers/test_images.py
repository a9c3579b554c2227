"""What a site states as its images, and what each kind of machines makes of the one that a lease names."""

import email
import re
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from tests.service.drivers.ec2.cloud import REGION
from tests.service.drivers.libvirt.test_options import TEMPLATE
from tests.service.drivers.slurm.test_job_directory import instance as slurm_instance

from leasehold.model.errors import InvalidField
from leasehold.service.config_file import config_from_dict
from leasehold.service.drivers.ec2 import driver as ec2
from leasehold.service.drivers.ec2.options import read_options as read_ec2
from leasehold.service.drivers.libvirt.options import read_options as read_libvirt
from leasehold.service.drivers.opennebula.driver import extra_template
from leasehold.service.drivers.opennebula.options import read_options as read_opennebula
from leasehold.service.drivers.protocol import Phase
from leasehold.service.drivers.reconciler.provider import MachineInstance
from leasehold.service.drivers.slurm.job_directory import batch_script

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGZvcm15dGVzdHNvbmx5bm90YXJlYWxrZXlh me@home"
EC2 = {"region": REGION, "image": "ami-1", "instance_type": "t3.small"}
NEBULA: dict[str, object] = {"endpoint": "http://127.0.0.1:1/RPC2", "template": 3}


def machine(command: tuple[str, ...] = (), **values: Any) -> MachineInstance:
    return MachineInstance(
        lease_id=7,
        generation=1,
        incarnation=1,
        vms=1,
        memory_mib=64,
        command=command,
        phase=Phase.STARTING,
        since_ms=0,
        **values,
    )


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("emulated", {"images": ["debian 12"]}, "images: got 'debian 12', expected a name of letters, digits and"),
        ("qemu", {"images": {"debian": "images/debian"}}, "images.debian: got 'images/debian', expected an absolute"),
        (
            "ec2",
            {**EC2, "images": {"debian": "debian-12"}},
            "images.debian: got 'debian-12', expected the ID of an AMI",
        ),
        ("slurm", {"images": {"lab": "apptainer 'exec"}}, 'images.lab: got "apptainer \'exec", expected words'),
        ("slurm", {"images": {"lab": "''"}}, "images.lab: got \"''\", expected a command that runs another"),
        ("slurm", {"images": {"-": "true"}}, "images: got '-', expected a name of letters, digits and"),
        ("opennebula", {**NEBULA, "images": {"debian": "7"}}, "images.debian: got '7', expected a whole number"),
    ],
)
def test_what_makes_no_sense_is_named(kind: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidField, match=re.escape(f"{kind}.{message}")):
        config_from_dict({"cluster": [{"name": "a", "slots": 1, "driver": kind, kind: options}]})


def test_ec2_boots_the_image_that_is_named_and_else_the_sites_own() -> None:
    options = read_ec2({**EC2, "images": {"lab": "ami-2"}})
    assert ec2.launch(options, "a", "s", machine(image="lab"))["ImageId"] == "ami-2"
    assert ec2.launch(options, "a", "s", machine())["ImageId"] == "ami-1"


def test_ec2_lets_the_owner_in_by_cloud_config_and_runs_the_command_beside_it() -> None:
    assert "UserData" not in ec2.launch(read_ec2(EC2), "a", "s", machine())
    alone = ec2.user_data((), KEY)
    assert alone == f'#cloud-config\n{{"ssh_authorized_keys": ["{KEY}"]}}\n'
    both = email.message_from_string(ec2.user_data(("echo", "hello"), KEY))
    parts = {part.get_content_type(): part.get_payload(decode=True) for part in both.walk() if not part.is_multipart()}
    assert parts["text/cloud-config"] == alone.encode()
    assert parts["text/x-shellscript"] == ec2.user_data(("echo", "hello")).encode()


def test_opennebula_gives_the_key_to_contextualization() -> None:
    options = read_opennebula({**NEBULA, "images": {"lab": 9}})
    template = ET.fromstring(extra_template(options, "a", machine(ssh_key=KEY), 0, ()))  # noqa: S314 - our own
    assert template.findtext("CONTEXT/SSH_PUBLIC_KEY") == KEY
    assert ET.fromstring(extra_template(options, "a", machine(), 0, ())).find("CONTEXT/SSH_PUBLIC_KEY") is None  # noqa: S314


def test_libvirt_takes_another_volume_or_another_description(tmp_path: Path) -> None:
    by_volume = read_libvirt({"volume": "base.qcow2", "images": {"lab": "lab.qcow2"}})
    assert (by_volume.of_image("lab").volume, by_volume.of_image("").volume) == ("lab.qcow2", "base.qcow2")
    file, other = tmp_path / "base.xml", tmp_path / "lab.xml"
    file.write_text(TEMPLATE)
    with pytest.raises(InvalidField, match=r"images\.lab: got .*description of a domain"):
        read_libvirt({"template": str(file), "images": {"lab": str(other)}})
    other.write_text(TEMPLATE)
    by_template = read_libvirt({"template": str(file), "images": {"lab": str(other)}})
    assert (by_template.of_image("lab").template, by_template.of_image("").template) == (other, file)


def test_a_slurm_job_runs_its_command_within_its_image(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "files").mkdir()
    script = batch_script(slurm_instance(command=("echo", "it's", "$LAB")), tmp_path / "work", ("env", "LAB=here"))
    done = subprocess.run(["sh"], input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "work" / "output").read_text() == "it's $LAB\n"
    assert "env LAB=here echo" in script
