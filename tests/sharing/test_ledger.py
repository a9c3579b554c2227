"""What leases held counts for their consumer, everybody above it, and every provider over the site."""

from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.agreement import CPUS, EVERYBODY, MEMORY
from leasehold.model.use import Holding, Segment
from leasehold.sharing.ledger import AccountKey, UsageLedger, WatchedAccounts
from leasehold.sharing.parties import ALL_AND_OWNERS, Provider, Providers

PLACES = (
    Provider("delft", {CPUS: 10, MEMORY: 100}, "das3"),
    Provider("leiden", {CPUS: 6}, "das3"),
    Provider("lyon", {CPUS: 4}),
)
PATHS = ("atlas/production/simulation", "atlas/production", "atlas", "cms")
KEYS = frozenset(
    (consumer, provider, resource)
    for consumer in (*PATHS, EVERYBODY, ALL_AND_OWNERS, "@das3")
    for provider in ("delft", "leiden", "lyon", "das3", EVERYBODY)
    for resource in (CPUS, MEMORY)
)


def ledger(keys: frozenset[AccountKey] = KEYS) -> UsageLedger:
    ledger = UsageLedger(Providers(PLACES))
    ledger.watch(WatchedAccounts(keys, 10_000, frozenset({1_000})), 0)
    return ledger


def holding(path: str = PATHS[0], site: str = "delft", vms: int = 2, *, is_local: bool = False) -> Holding:
    return Holding(path, site, {CPUS: vms, MEMORY: 3 * vms}, is_local)


class TestWhoIsCharged:
    def test_the_consumer_and_everybody_above_it(self) -> None:
        book = ledger()
        book.begin(1, holding(), 0)
        book.end(1, 5_000)
        for consumer in (*PATHS[:3], EVERYBODY, ALL_AND_OWNERS, "@das3"):
            assert book.used((consumer, "delft", CPUS), 0, 9_000) == 10_000
        assert book.used(("cms", "delft", CPUS), 0, 9_000) == 0

    def test_at_the_site_its_domain_and_all_together(self) -> None:
        book = ledger()
        book.begin(1, holding(), 0)
        assert [book.level(("atlas", at, CPUS)) for at in ("delft", "das3", EVERYBODY, "leiden")] == [
            2,
            2,
            2,
            0,
        ]
        assert book.level(("atlas", "das3", MEMORY)) == 6

    def test_the_owners_own_users_count_only_for_how_busy_a_site_is(self) -> None:
        book = ledger()
        book.begin(1, holding(is_local=True), 0)
        assert book.level((ALL_AND_OWNERS, "das3", CPUS)) == 2
        assert book.level((EVERYBODY, "das3", CPUS)) == book.level(("atlas", "das3", CPUS)) == 0

    def test_a_name_that_begins_like_another_is_another(self) -> None:
        book = ledger()
        book.begin(1, holding("atlas-outreach/web"), 0)
        assert book.level(("atlas", "delft", CPUS)) == 0


class TestLateAccounts:
    def test_an_account_that_is_asked_for_late_begins_with_what_is_on_record(self) -> None:
        book = ledger(frozenset())
        book.begin(1, holding(), 4_000)
        past = [Segment(holding(vms=5), 0, 1_000)]
        book.watch(WatchedAccounts(KEYS), 6_000, past)
        assert book.used(("atlas", "delft", CPUS), 0, 6_000) == 5_000  # of the open one only what is still to come
        book.learn(past, {1: 4_000}, 6_000)
        assert book.used(("atlas", "delft", CPUS), 0, 6_000) == 5_000 + 4_000


STAYS = st.lists(
    st.tuples(
        st.sampled_from(PATHS),
        st.sampled_from([place.name for place in PLACES]),
        st.integers(1, 5),
        st.integers(0, 50),
        st.integers(1, 50),
        st.booleans(),
    ),
    max_size=12,
)


@given(STAYS, st.integers(0, 110), st.integers(0, 110))
def test_every_account_is_the_sum_of_the_segments_of_leases(
    stays: list[tuple[str, str, int, int, int, bool]], one_ms: int, other_ms: int
) -> None:
    from_ms, to_ms = sorted((one_ms, other_ms))
    segments = [
        Segment(holding(path, site, vms, is_local=is_local), begin_ms, begin_ms + span_ms)
        for path, site, vms, begin_ms, span_ms, is_local in stays
    ]
    live, learnt = ledger(), ledger()
    changes = sorted((ms, id_) for id_, s in enumerate(segments) for ms in (s.begin_ms, s.end_ms))
    for now_ms, id_ in changes:
        if id_ in live.holdings:
            live.end(id_, now_ms)
        else:
            live.begin(id_, segments[id_].holding, now_ms)
    learnt.learn(segments, {}, 200)
    for key in KEYS:
        expected = sum(by_hand(key, segment, from_ms, to_ms) for segment in segments)
        assert live.used(key, from_ms, to_ms) == learnt.used(key, from_ms, to_ms) == expected


def by_hand(key: AccountKey, segment: Segment, from_ms: int, to_ms: int) -> int:
    """What one segment adds to an account, told without the ledger."""
    consumer, provider, resource = key
    held = segment.holding
    domain = {"delft": "das3", "leiden": "das3"}.get(held.site, "-")
    is_there = provider in {held.site, domain, EVERYBODY}
    if held.is_local:
        is_theirs = not consumer
    else:
        is_theirs = consumer in {"", EVERYBODY, f"@{domain}"} or f"{held.path}/".startswith(f"{consumer}/")
    overlap_ms = max(0, min(to_ms, segment.end_ms) - max(from_ms, segment.begin_ms))
    return held.amounts[resource] * overlap_ms if is_there and is_theirs else 0
