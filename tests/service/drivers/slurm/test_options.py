"""What the configuration may say to a Slurm site, and how it is told what makes no sense."""

import os
import re

import pytest

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.service.config_file import config_from_dict
from leasehold.service.drivers.registry import driver_kinds
from leasehold.service.drivers.slurm.options import OnSuspend, SlurmOptions, read_options


def test_nothing_need_be_said() -> None:
    assert read_options({}) == SlurmOptions()


def test_everything_may_be_said() -> None:
    read = read_options(
        {
            "conf": "/etc/slurm/slurm.conf",
            "partition": "batch",
            "cpus_per_vm": 4,
            "memory": True,
            "suspend": "requeue",
            "extra": ["--constraint=avx2"],
            "environment": {"MODULEPATH": "/opt/modules"},
            "look_every_s": 0.5,
        }
    )
    assert read == SlurmOptions(
        conf="/etc/slurm/slurm.conf",
        partition="batch",
        cpus_per_vm=4,
        memory=True,
        suspend=OnSuspend.REQUEUE,
        extra=("--constraint=avx2",),
        environment={"MODULEPATH": "/opt/modules"},
        look_every_ms=500,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpus_per_vm": 0}, "cpus_per_vm: got 0, expected a whole number from 1 to 2147483648"),
        ({"memory": "yes"}, "memory: got 'yes', expected true or false"),
        ({"user": "nobody-of-that-name"}, "user: got 'nobody-of-that-name', expected a user of this machine"),
        ({"environment": {"A": 1}}, "environment.A: got 1, expected a text"),
        ({"memory": True}, "suspend: got 'pause', expected requeue or none where memory = true"),
    ],
)
def test_what_makes_no_sense_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidField, match=re.escape(message)):
        read_options(options)


@pytest.mark.parametrize(("options", "nearest"), [({"partion": "x"}, "partition"), ({"suspend": "paus"}, "pause")])
def test_a_typo_is_answered_with_the_nearest(options: dict[str, object], nearest: str) -> None:
    with pytest.raises(UnknownName, match=nearest):
        read_options(options)


def test_only_root_may_submit_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(InvalidField, match="only root"):
        read_options({"user": "nobody"})


def test_a_mistake_is_found_when_the_configuration_is_read() -> None:
    cluster = {"name": "ours", "slots": 8, "driver": "slurm", "slurm": {"cpus_per_vm": 0}}
    with pytest.raises(InvalidField, match=r"cluster\[0\].slurm.cpus_per_vm"):
        config_from_dict({"cluster": [cluster]})


def test_it_is_one_of_our_own_kinds() -> None:
    assert "slurm" in driver_kinds()
