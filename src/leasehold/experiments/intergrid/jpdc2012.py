"""What section 5.3 of JPDC 2012 says of its figures: differences with their intervals, and orderings.

Only what stands in the text can be compared: the figures themselves have no numbers.
"""

from collections.abc import Iterator, Mapping

from leasehold.experiments.intergrid.claims import (
    EVERYWHERE,
    Claim,
    Contrast,
    Expects,
    Figure,
    Term,
    Where,
    difference,
    falls,
    gap,
    grows,
    is_flat,
    is_least,
    is_most,
    less_by,
    rises,
)

POLICIES = ("rr", "lrf-rnd", "bcf-rnd", "pap-rnd", "pap-rtdp")
RR, LRF, BCF, RND, RTDP = POLICIES
LONG_S, OFTEN_PER_S = 300, 0.12

HEADLINE = (
    "PAP-RTDP at least 60 %",
    "PAP-RTDP more than 50 %",
    "PAP-RTDP gains more",
    "PAP-RND gains more",
)
"""How the claims begin that are in the abstract and in section 7, and in the sums of section 5.3.1."""


def _figures() -> Iterator[Figure]:
    for letter in "abcd":
        beside = ("leases_preempted", *(f"vms_preempted_{kind}" for kind in _PREEMPTABLE))
        yield Figure(f"5{letter}", letter, "vms_preempted", "VMs preempted", beside)
        others = ("guest_utilisation_pct", "occupancy_pct")
        yield Figure(f"6{letter}", letter, "utilisation_pct", "Utilisation, eq 21 (%)", others)
        awrt = "AWRT of best-effort requests, eq 24 (s)"
        yield Figure(f"7{letter}", letter, "awrt_s", awrt, ("awrt_pooled_s", "response_s"))
    for letter, migration, rejection in zip("abcd", "aceg", "bdfh", strict=True):
        unserved = ("migratable_unserved_pct",)
        yield Figure(f"8{migration}", letter, "migration_pct", "Migration rate (%)", unserved)
        np_title = "Rejected Non-preemptable requests (%)"
        yield Figure(f"8{rejection}", letter, "np_rejection_pct", np_title, ("local_rejection_pct",))


_PREEMPTABLE = ("cancelable", "suspendable", "migratable")
FIGURES: Mapping[str, Figure] = {one.name: one for one in sorted(_figures(), key=lambda one: one.name)}


def claims() -> list[Claim]:
    """List what is claimed, figure by figure."""
    made = [*_preempted(), *_utilisation(), *_response(), *_valuable()]
    return sorted(made, key=lambda claim: claim.figure)


def _preempted() -> Iterator[Claim]:
    long, often = Where(above=LONG_S), Where(above=OFTEN_PER_S)
    for letter in "abcd":
        figure = f"5{letter}"
        others = tuple(policy for policy in POLICIES if policy != RTDP)
        yield rises(figure, POLICIES)
        yield is_least(figure, RTDP, POLICIES, "dispatch")
        yield less_by(
            figure, 0.6, "PAP-RTDP at least 60 % below every other policy (section 7)", (RTDP, others)
        )
    yield gap("5a", RND, RTDP, (2737.97, 3896.95), "dispatch")
    yield gap("5a", LRF, RND, (168.2, 1561.1), "allocation")
    yield gap("5b", RND, RTDP, (342, 2354.6), "dispatch", long)
    yield _drops("5b")
    yield less_by("5b", 0.6, "PAP-RTDP about 60 % below LRF-RND above 300", (RTDP, (LRF,)), long)
    yield gap("5c", RND, RTDP, (380.5, 4570), "dispatch")
    yield grows("5c", (RND, RTDP), 0.1, "PAP-RTDP gains more on PAP-RND at high external rates", "dispatch")
    yield gap("5d", RND, RTDP, (469.12, 3826.45), "dispatch", often)
    yield gap("5d", LRF, RND, (230.7, 4823.9), "allocation")
    yield grows(
        "5d", (LRF, RND), OFTEN_PER_S, "PAP-RND gains more on LRF-RND at high local rates", "allocation"
    )


def _utilisation() -> Iterator[Claim]:
    long, often = Where(above=LONG_S), Where(above=OFTEN_PER_S)
    for letter in "abcd":
        yield is_most(f"6{letter}", RTDP, POLICIES, "dispatch")
    yield gap("6a", RTDP, LRF, (12.5, 14.7), "size")
    yield gap("6a", LRF, RND, (2.2, 4.6), "allocation")
    yield gap("6b", RTDP, LRF, (7.3, 14.5), "size", long)
    yield gap("6b", LRF, RND, (0.9, 7.4), "allocation", long)
    yield gap("6c", RTDP, LRF, (1.5, 15.1), "size")
    yield gap("6d", RTDP, RND, (11.3, 18.3), "dispatch", often)


def _response() -> Iterator[Claim]:
    long, often = Where(above=LONG_S), Where(above=OFTEN_PER_S)
    for letter in "abcd":
        figure = f"7{letter}"
        yield is_least(figure, RND, POLICIES, "response")
        bcf = (difference(RR, BCF), difference(LRF, BCF))
        yield Claim(figure, "BCF-RND is below RR and LRF-RND", bcf, "response")
        yield less_by(
            figure, 0.5, "PAP-RTDP more than 50 % below RR, LRF-RND and BCF-RND", (RTDP, (RR, LRF, BCF))
        )
    yield gap("7a", RTDP, RND, (3814.7, 4417), "response")
    yield gap("7b", RTDP, RND, (654.1, 4158), "response", long)
    yield _same("7b", Where(below=LONG_S))
    yield gap("7c", RTDP, RND, (673.8, 4753.5), "response")
    yield gap("7d", RTDP, RND, (1516.4, 3784), "response", often)
    yield gap("7b", BCF, RTDP, (1863, 6456.2), "response")
    yield gap("7c", BCF, RTDP, (1665, 6115), "response")
    yield gap("7d", BCF, RTDP, (3595.8, 7661), "response")
    yield from (is_flat(figure, POLICIES) for figure in ("7a", "7c"))


TABLE_3 = {
    "8a": (2.4, 3.8),
    "8b": (9.3, 12.7),
    "8c": (2.6, 4.3),
    "8d": (5.9, 12.5),
    "8e": (0.14, 7.8),
    "8f": (2.1, 16.0),
    "8g": (0.02, 3.2),
}
"""Table 3: the 95 % interval of how much lower PAP-RTDP is than PAP-RND, percentage points."""


def _valuable() -> Iterator[Claim]:
    for figure, printed in TABLE_3.items():
        yield gap(figure, RND, RTDP, printed, "dispatch")
    for figure in ("8c", "8d"):
        yield _same(figure, Where(below=LONG_S))
        yield _drops(figure)
    yield _same("8h")
    for figure in ("8e", "8f"):
        yield falls(figure, POLICIES)
    for figure in (name for name in FIGURES if name.startswith("8")):
        bcf = (difference(BCF, RR), difference(BCF, LRF))
        yield Claim(figure, "BCF-RND is above RR and LRF-RND", bcf, "valuable")


def _drops(figure: str) -> Claim:
    ends: Contrast = (Term(1, RTDP, Where(below=LONG_S)), Term(-1, RTDP, Where(above=LONG_S)))
    return Claim(figure, "PAP-RTDP drops above 300 s", (ends,), "shape")


def _same(figure: str, where: Where = EVERYWHERE) -> Claim:
    text = f"PAP-RTDP and PAP-RND do not differ{where.as_text}"
    return Claim(figure, text, (difference(RND, RTDP, where),), "dispatch", Expects.NO_DIFFERENCE)
