"""A token issuer on this machine for those who ask for it."""

from collections.abc import Iterator

import pytest
from tests.service.auth.issuer import LocalIssuer, running_issuer


@pytest.fixture
def issuer() -> Iterator[LocalIssuer]:
    """Run an issuer with an RSA and an EC key."""
    with running_issuer() as running:
        yield running
