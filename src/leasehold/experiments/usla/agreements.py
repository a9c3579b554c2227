"""The agreements of a configuration: one between each virtual domain and each consumer."""

from collections.abc import Iterable

from leasehold.experiments.usla.settings import MS_PER_S, PPM, AgreementTerms, Configuration
from leasehold.model.agreement import Agreement, Commitment, Limit, NoLimit, TimeDecay, UsageDecay
from leasehold.model.errors import UnknownName

KINDS = ("no-limit", "commitment", "time-decay", "usage-decay")


def domain_name(domain: int) -> str:
    """Name a virtual domain by its number."""
    return f"vd{domain + 1}"


def site_name(domain: int) -> str:
    """Name the one site of a virtual domain."""
    return f"site{domain + 1}"


def consumer_name(consumer: int) -> str:
    """Name a consumer by its number."""
    return f"vo{consumer + 1}"


def agreements(configuration: Configuration, domains: Iterable[int]) -> list[Agreement]:
    """Give those of these domains, in force from the begin of the run to its end."""
    return [
        Agreement(
            name=f"{domain_name(domain)}-{consumer_name(consumer)}",
            provider=domain_name(domain),
            consumer=consumer_name(consumer),
            limit=limit_of(configuration.agreement, share, burst),
        )
        for domain in domains
        for consumer, (share, burst) in enumerate(
            zip(configuration.shares, configuration.bursts, strict=True)
        )
    ]


def limit_of(terms: AgreementTerms, share: float, burst: float) -> Limit:
    """Give the limit of a consumer with this share of a virtual domain, and in bursts this one."""
    match terms.kind:
        case "no-limit":
            return NoLimit()
        case "commitment":
            epoch = burst if terms.epoch_is_burst else share
            epoch_s = terms.burst_s if terms.epoch_is_burst else terms.epoch_s
            return Commitment(_ppm(epoch), epoch_s * MS_PER_S, _ppm(burst), terms.burst_s * MS_PER_S)
        case "time-decay":
            factors = tuple(map(_ppm, terms.factors))
            return TimeDecay(_ppm(share), terms.window_s * MS_PER_S, factors, terms.normalise)
        case "usage-decay":
            steps = tuple((_ppm(reached), _ppm(factor)) for reached, factor in terms.steps)
            return UsageDecay(_ppm(share), terms.window_s * MS_PER_S, terms.windows, steps, terms.normalise)
    raise UnknownName("kind", terms.kind, KINDS)


def _ppm(fraction: float) -> int:
    return round(fraction * PPM)
