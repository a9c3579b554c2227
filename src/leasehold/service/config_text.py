"""A configuration written down: every key with its value in force, and beside it what it means."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from leasehold.configuration.toml import pairs
from leasehold.service.config import ServiceConfig

_MARGIN = 40

TABLES: dict[str, str] = {
    "service": "Where the gateway listens, where it keeps what it knows, how often it looks after it.",
    "limits": "How much one consumer may ask for.",
    "retention": "For how many days the store keeps what is over; 0: for ever.",
    "gateway": "How guests are sent to clusters.",
    "jobs": "How jobs with needs are placed, tried again and made sure.",
    "log": "What is said while it works.",
    "defaults": "On which terms clusters lend that say nothing else.",
    "sharing": "How agreements are applied.",
    "domain": "A virtual domain: clusters that lend together.",
    "cluster": "A cluster: its name, its size, and any of [defaults] that is different here.",
    "issuer": "Whose tokens count beside those that this gateway gives out.",
}
"""What each table is for."""

KEYS: dict[str, str] = {
    "service.host": "where it listens; beyond this machine only with TLS",
    "service.port": "0 is any free one",
    "service.url": "the address under which users reach it, where that is another",
    "service.data": "its folder",
    "service.store": "URL of the database; left out, a SQLite file in the folder",
    "service.tls_certificate": "PEM file of the certificate, with those that vouch for it",
    "service.tls_key": "PEM file of its key, without a password",
    "service.behind_tls_proxy": "whoever reaches it has come through a proxy that speaks TLS",
    "service.reference_mips": "the speed that requested durations refer to",
    "service.check_every_s": "how often all promises are checked; 0: never",
    "service.reconcile_every_s": "how often all machines are looked at as a whole",
    "service.start_within_s": "how long a guest's machines may take to start before it is tried elsewhere",
    "service.shutdown_s": "how long requests under way may take when it is stopped",
    "service.probes": "who may ask for /healthz and /readyz: open, token, or auto (open on this machine)",
    "service.metrics": "the same for /metrics",
    "service.page": "the same for the numbers on the page at /",
    "limits.body_kib": "the largest body of a request",
    "limits.open_requests_per_consumer": "leases of one consumer that are not over",
    "limits.requests_per_s": "requests of one consumer in the long run; 0: any number",
    "limits.burst": "and so many at once",
    "limits.submissions_per_hour": "leases, joint leases and jobs that one consumer asks for; 0: any number",
    "limits.output_mib_per_consumer": "kept of what its jobs wrote, the newest; 0: any amount",
    "limits.streams_per_consumer": "streams of changes that one consumer has open",
    "limits.open_connections": "connections that are open, of everybody together",
    "limits.idle_per_address": "of them, those of one address that have not asked for anything",
    "limits.head_within_s": "how long the head of a request may take",
    "limits.body_within_s": "and its body",
    "limits.answer_within_s": "how long an answer waits for somebody to take some of it in",
    "retention.leases_days": "closed leases, joint leases and jobs, with everything of them",
    "retention.journal_days": "lines of the journal about what is closed",
    "retention.outputs_days": "what commands of closed jobs wrote",
    "retention.usage_days": "what leases used; as long as any agreement looks back it stays anyway",
    "retention.answers_days": "answers to idempotency keys, and orders that were carried out",
    "gateway.policy": "where guests go: leasehold policy list",
    "gateway.moments": "rates and sizes of the streams are learnt from what comes",
    "gateway.try_elsewhere": "whether a guest that its cluster refuses is offered to the others",
    "gateway.use_free_room": "whether guests go where they can start now, also those who wait elsewhere",
    "gateway.tick_s": "how often requests that the policy holds are asked about again at the latest",
    "sharing.without_agreement": "who needs none: allow, members, preemptable or refuse",
    "sharing.threshold": "agreements of a higher penalty are never broken; to break others is punished",
    "sharing.top_n": "to how many virtual domains the broker narrows the choice; left out: all",
    "sharing.broker_policy": "how it scores them",
    "domain.name": "what agreements call it",
    "domain.sites": "the clusters that form it, sites with a manager of their own among them",
    "jobs.look_every_s": "how often sites are asked for their nodes and images",
    "jobs.gone_after_s": "after so long a node that its site does not list any more is not waited for",
    "jobs.silent_after_s": "after so long without an answer the nodes of a site count as out of reach",
    "jobs.fresh_for_s": "how long what was seen of a node can be relied upon; 0: until it is seen again",
    "jobs.queue": "who is looked at first: leasehold policy list",
    "jobs.patience_s": "who has waited that long goes ahead of all others; 0: nobody does",
    "jobs.retry_every_s": "how often a job that found no room is tried again",
    "jobs.retry_for_s": "and for how long; then it is refused",
    "jobs.eager": "waiting jobs are looked at whenever there may be room, not only at their times",
    "jobs.machines": "for-want-of-nodes, or rather-than-refuse: also for who waited for nodes in vain",
    "jobs.matching": "greedy: each job in turn; optimal: all that wait together",
    "jobs.best_fit_mib": "how near in memory a node has to be at first; 0: any that fits",
    "jobs.margin": "how many times its estimate a job may take before its lease is over",
    "jobs.boot_s": "from the start of a machine until a job can begin in it",
    "jobs.build_s": "how long an image is thought to take",
    "jobs.warm_for_s": "how long a machine is thought to stay warm after a job; 0: not at all",
    "jobs.hot_copies": "how many copies run of a job that asks for hot ones",
    "jobs.spares": "how many copies beyond one a job may have, so that it is as sure as it asks",
    "jobs.takeover_s": "from a fault until a cold copy begins",
    "jobs.offers_last_s": "how long a node is believed that said that it is lightly loaded",
    "jobs.failures_a_year": "of a node that was never watched",
    "jobs.output_kib": "so much is kept of what a command writes, the end of it",
    "jobs.output_for_s": "for so long it is tried to fetch that",
    "jobs.mbps": "the usual bandwidth between two places, in 10^6 bit/s",
    "jobs.delay_ms": "and how long the first byte takes",
    "jobs.ways": "places between which it is different: from, to, mbps, delay_ms",
    "log.format": "console, json, or auto: console on a terminal",
    "log.level": "debug, info, warning or error",
    "log.requests": "whether each request is a line",
    "defaults.speed_mips": "speed of one slot",
    "defaults.local_policy": "backfilling for the owner's users: fcfs, easy, conservative, ...",
    "defaults.guest_policy": "backfilling for guests",
    "defaults.victims": "who gives way: leasehold policy list",
    "defaults.value_order": "and only after all less valuable lease types",
    "defaults.least_run_s": "how long a guest works before it is preempted while others could be",
    "defaults.least_run_resumes": "and so many times as long as it took to come back",
    "defaults.most_preemptions": "how often one guest is preempted while others could be; 0: any number",
    "defaults.repeat_surcharge": "how much dearer each earlier preemption makes a guest",
    "defaults.repeat_surcharge_halves_s": "after so much work since, that is half",
    "defaults.local_queue": "queue or refuse a local request that cannot start at once",
    "defaults.non_preemptable_share": "part of the slots that Non-preemptable guests may have",
    "defaults.non_preemptable_max_s": "the longest such guest",
    "defaults.repair": "which guests are planned anew after the owner's users took room",
    "defaults.overhead": "what it costs to preempt a guest",
    "issuer.url": "as in the claim iss, to the letter",
    "issuer.audience": "what this gateway is called in the claim aud",
    "issuer.profile": "wlcg or scitokens",
    "issuer.roles": "of whoever shows a token with scopes",
    "issuer.sites": "home sites of theirs",
    "issuer.clock_skew_s": "how far its clock may be off ours",
    "issuer.keys_cached_s": "for how long its keys are not asked for again",
    "issuer.keys_kept_s": "for how long they are relied on while it cannot be reached",
    "issuer.scopes": "what each scope permits",
    "issuer.grants": "what groups give to whoever shows a token without scopes",
}
"""What each key means, in a few words; `leasehold.service.config` says it in full."""


def commented_toml(config: ServiceConfig) -> str:
    """Write a configuration as a file that `load_config` reads as the same one, with comments."""
    lines = [
        "# The configuration of `leasehold serve`, complete. Times are seconds unless a key says otherwise."
    ]
    for name, value in _shown(config).items():
        for table in value if isinstance(value, list) else [value]:
            lines += ["", f"# {TABLES[name]}", f"[[{name}]]" if isinstance(value, list) else f"[{name}]"]
            lines += _commented(name, table)
    return "\n".join(lines) + "\n"


def _commented(name: str, table: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for key, line in zip(table, pairs(table), strict=True):
        meaning = KEYS.get(f"{name}.{key}")
        lines.append(f"{line:<{_MARGIN}} # {meaning}" if meaning else line)
    return lines


def _shown(config: ServiceConfig) -> dict[str, Any]:
    """Leave the password out of the store's URL: what is printed gets around."""
    values = config.to_dict()
    if "store" in values["service"]:
        values["service"]["store"] = without_password(values["service"]["store"])
    return values


def without_password(url: str) -> str:
    """Give the URL of a store without its password; libpq finds that in ``PGPASSFILE`` too."""
    parts = urlsplit(url)
    if not parts.password:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", "@", 1)))
