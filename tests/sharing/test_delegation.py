"""A right that is passed on never becomes more than it was, however often it is passed on."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.agreement import MILLION, Agreement, Commitment, Limit, NoLimit, TimeDecay, UsageDecay
from leasehold.model.errors import InvalidField
from leasehold.sharing.book import AgreementBook, check_delegation, shares_ppm, under
from leasehold.sharing.parties import Provider, Providers

PROVIDERS = Providers([Provider("delft", {"cpus": 10}, "das3"), Provider("lyon", {"cpus": 4})])
VO = Agreement("vo", "das3", "atlas", TimeDecay(300_000, 600_000), lending_limit=8)


def part(limit: Limit, **said: Any) -> Agreement:
    plain: dict[str, Any] = {
        "name": "part",
        "provider": "das3",
        "consumer": "atlas/production",
        "parent": "vo",
    }
    return Agreement(limit=limit, **{**plain, **said})


class TestWhatIsLeft:
    def test_the_least_of_both_shares(self) -> None:
        assert under(part(TimeDecay(100_000, 600_000)), VO).limit == TimeDecay(100_000, 600_000)
        assert under(part(TimeDecay(500_000, 600_000)), VO).limit == TimeDecay(300_000, 600_000)

    def test_the_product_where_it_is_relative(self) -> None:
        half = part(UsageDecay(500_000, 600_000), relative=True)
        assert shares_ppm(under(half, VO).limit) == (150_000, 150_000)

    def test_epoch_and_burst_each_under_its_own(self) -> None:
        parent = Agreement("vo", "das3", "atlas", Commitment(200_000, 1_200, 600_000, 300))
        child = part(Commitment(500_000, 1_200, 500_000, 300), relative=True)
        assert under(child, parent).limit == Commitment(100_000, 1_200, 300_000, 300)

    def test_the_least_of_what_is_lent_at_a_time(self) -> None:
        assert under(part(NoLimit(), lending_limit=20), VO).lending_limit == 8
        assert under(part(NoLimit(), lending_limit=3), VO).lending_limit == 3


SHARES = st.integers(0, MILLION)


@given(st.lists(st.tuples(SHARES, st.booleans()), min_size=1, max_size=5), SHARES)
def test_no_delegate_exceeds_its_delegator_at_any_depth(chain: list[tuple[int, bool]], whole_ppm: int) -> None:
    agreements = [Agreement("d0", "das3", "vo", TimeDecay(whole_ppm, 1_000))]
    for depth, (share_ppm, relative) in enumerate(chain, 1):
        path = "/".join(["vo", *map(str, range(depth))])
        limit = TimeDecay(share_ppm, 1_000)
        agreements.append(Agreement(f"d{depth}", "das3", path, limit, parent=f"d{depth - 1}", relative=relative))
    book = AgreementBook(PROVIDERS)
    book.replace(reversed(agreements))
    held = book.in_force(0)
    effective = [shares_ppm(held[f"d{depth}"].limit)[0] for depth in range(len(agreements))]
    assert effective == sorted(effective, reverse=True)


class TestWhatCannotBePassedOn:
    def refused(self, child: Agreement, parent: Agreement = VO) -> str:
        with pytest.raises(InvalidField) as raised:
            check_delegation(child, parent, PROVIDERS)
        return str(raised.value)

    def test_more_than_one_has(self) -> None:
        assert "at most 30%, which is what 'vo' gives" in self.refused(part(TimeDecay(400_000, 600_000)))

    def test_to_somebody_who_is_not_beneath_oneself(self) -> None:
        assert "a consumer beneath 'atlas'" in self.refused(part(NoLimit(), consumer="cms"))
        assert "a consumer beneath 'atlas'" in self.refused(part(NoLimit(), consumer="atlas-outreach"))

    def test_of_another_provider(self) -> None:
        assert "'das3' or a part of it" in self.refused(part(NoLimit(), provider="lyon"))

    def test_of_another_resource(self) -> None:
        assert "'cpus', as in 'vo'" in self.refused(part(NoLimit(), resource="memory_mib"))

    def test_a_part_at_one_of_the_domains_sites_is_fine(self) -> None:
        check_delegation(part(TimeDecay(100_000, 600_000), provider="delft"), VO, PROVIDERS)

    def test_a_domain_passes_on_what_a_site_lends_it(self) -> None:
        lent = Agreement("lent", "delft", "@das3", TimeDecay(500_000, 600_000))
        check_delegation(part(TimeDecay(300_000, 600_000), consumer="atlas", parent="lent"), lent, PROVIDERS)
