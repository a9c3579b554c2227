"""What is said to EC2: how machines are asked for, tagged, and given their command."""

import shlex
from typing import Any

from leasehold.service.drivers.ec2.options import Ec2Options
from leasehold.service.drivers.reconciler.provider import MachineInstance

SITE, LEASE, INCARNATION = "leasehold:site", "leasehold:lease", "leasehold:incarnation"
"""The tags of a machine: whose it is, and the incarnation that it came with."""

MOST_USER_DATA = 16_384
"""EC2's limit, in bytes."""

_SCRIPT = """\
#!/bin/sh
# The command of a lease. When it has ended the machine shuts itself down, and so Leasehold sees that.
( {command} ) > /dev/console 2>&1 < /dev/null
echo "leasehold: exit status $?" > /dev/console
shutdown -h now
"""


def launch(options: Ec2Options, site: str, ledger: str, instance: MachineInstance) -> dict[str, Any]:
    """Ask for all machines of a lease or none; who asks again in the same words gets the same ones."""
    asked: dict[str, Any] = {
        "ClientToken": f"{ledger}-{instance.lease_id}.{instance.generation}",
        "ImageId": options.image,
        "InstanceInitiatedShutdownBehavior": "stop",
        "InstanceType": options.instance_type,
        "MaxCount": instance.vms,
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        "MinCount": instance.vms,
        "TagSpecifications": [{"ResourceType": kind, "Tags": _tags(site, instance)} for kind in _TAGGED],
    }
    if instance.command:
        asked["UserData"] = user_data(instance.command)
    return asked | _wished(options)


_TAGGED = ("instance", "volume")


def user_data(command: tuple[str, ...]) -> str:
    """Write the script that cloud-init runs once, when a machine first boots."""
    return _SCRIPT.format(command=shlex.join(command))


def _tags(site: str, instance: MachineInstance) -> list[dict[str, str]]:
    tags = {
        "Name": f"leasehold-{instance.lease_id}",
        SITE: site,
        LEASE: str(instance.lease_id),
        INCARNATION: str(instance.generation),
    }
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _wished(options: Ec2Options) -> dict[str, Any]:
    """What only some ask for."""
    wished: dict[str, Any] = {
        "BlockDeviceMappings": [_root(options)] if options.root_device else None,
        "HibernationOptions": {"Configured": True} if options.hibernate else None,
        "IamInstanceProfile": {"Name": options.instance_profile} if options.instance_profile else None,
        "KeyName": options.key_name,
        "SecurityGroupIds": list(options.security_groups) or None,
        "SubnetId": options.subnet,
    }
    return {key: value for key, value in wished.items() if value is not None}


def _root(options: Ec2Options) -> dict[str, Any]:
    volume: dict[str, Any] = {"DeleteOnTermination": True, "Encrypted": True}
    if options.root_gib:
        volume["VolumeSize"] = options.root_gib
    return {"DeviceName": options.root_device, "Ebs": volume}
