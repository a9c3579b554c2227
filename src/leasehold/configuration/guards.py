"""What a cluster guarantees its guests whoever chooses the victims: the keys of `Guard`."""

from leasehold.configuration.keys import Keys
from leasehold.configuration.plain import Plain, seconds
from leasehold.leasing.victims.guard import Guard


def read_guard(keys: Keys, usual: Guard) -> Guard:
    """Take the keys of the guarantees; whatever is not said is as usual, 0 is no guarantee."""
    return Guard(
        least_run_ms=keys.milliseconds("least_run_s", usual.least_run_ms),
        least_run_resumes=keys.whole("least_run_resumes", usual.least_run_resumes, least=0),
        most_preemptions=keys.whole("most_preemptions", usual.most_preemptions, least=0),
        surcharge=keys.number("repeat_surcharge", usual.surcharge, 0, 1_000),
        halves_ms=keys.milliseconds("repeat_surcharge_halves_s", usual.halves_ms, 1),
    )


def guard_to_dict(guard: Guard) -> Plain:
    """Give the keys of the guarantees."""
    return {
        **seconds("least_run_s", guard.least_run_ms),
        "least_run_resumes": guard.least_run_resumes,
        "most_preemptions": guard.most_preemptions,
        "repeat_surcharge": guard.surcharge,
        **seconds("repeat_surcharge_halves_s", guard.halves_ms),
    }
