"""The suite that ships is not below this folder, and its asserts are to be as readable as those that are."""

import pytest

pytest.register_assert_rewrite("leasehold.testing.enactors", "leasehold.testing.enactor_rig")
