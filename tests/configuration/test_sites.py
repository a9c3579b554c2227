"""From the terms of a cluster to the settings of a site."""

import pytest

from leasehold.configuration.terms import ClusterTerms, site_settings
from leasehold.leasing.backfill import REPAIRS


def test_terms_become_settings() -> None:
    terms = ClusterTerms(speed_mips=2000, local_policy="easy", guest_policy="fcfs", local_queue="refuse")
    settings = site_settings("das3", 64, terms)
    assert (settings.name, settings.slots, settings.speed_mips) == ("das3", 64, 2000)
    assert (settings.local_depth, settings.guest_depth) == (1, 0)
    assert not settings.queues_locals
    assert settings.repair is REPAIRS["conflicts"]


@pytest.mark.parametrize(("share", "vms"), [(None, None), (0.5, 3), (0.99, 6), (1, None), (0, 0)])
def test_a_share_is_rounded_down_to_whole_vms_and_all_of_it_caps_nothing(share: float | None, vms: int | None) -> None:
    terms = ClusterTerms(non_preemptable_share=share)
    assert site_settings("das3", 7, terms).non_preemptable_share_vms == vms
