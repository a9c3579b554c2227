"""What tests of all kinds of machines share."""

import pytest

# The suite that ships is not below this folder, and its asserts are to be as readable as those that are.
pytest.register_assert_rewrite(
    "leasehold.testing.drivers",
    "leasehold.testing.driver_rig",
)
