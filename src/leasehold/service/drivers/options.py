"""What can the configuration say to machines of more than one kind?"""

from leasehold.configuration.declaration import Table
from leasehold.configuration.kinds import Flag
from leasehold.service.drivers.protocol import Capabilities

CAPABILITIES = Table(
    Capabilities,
    "What machines can do.",
    {
        "suspend": Flag("whether memory can be saved"),
        "migrate": Flag("whether machines can be moved"),
        "commands": Flag("whether commands can be run"),
    },
)
