"""Routing policies of our own beside the published ones."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from leasehold.cli.reproducing.folders import folder_for
from leasehold.cli.reproducing.measuring import measure
from leasehold.cli.reproducing.options import Answer, Manner

if TYPE_CHECKING:
    from leasehold.experiments.beyond.outcome import Outcome


class Beyond:
    """Every contender in every setting; those with a log where there is one."""

    name = "beyond"
    does = "Routing policies of our own beside the published ones."

    def parts(self) -> Sequence[str]:
        """Name its settings, as in ``beyond-r2``."""
        from leasehold.experiments.beyond.settings import part_name, plan

        return [part_name(one) for one in plan().settings]

    def run(self, parts: Sequence[str], manner: Manner) -> Answer:
        """Run all settings, or some."""
        from leasehold.experiments.beyond import evaluation, files
        from leasehold.experiments.beyond.outcome import outcome_of
        from leasehold.experiments.beyond.settings import plan, settings_named

        read = plan(evaluation.QUICK_HOURS if manner.quick else None)
        seeds = manner.seeds or (evaluation.QUICK_SEEDS if manner.quick else None)
        asked = settings_named(read, parts)
        if manner.quick and not parts:
            asked = evaluation.quick_ones(asked)
        settings = evaluation.possible(asked, manner.logs, asked=bool(parts))
        folder = folder_for(self.name, manner.out)
        kept = evaluation.kept_in(folder, read)
        runs = evaluation.runs_of(read, settings, seeds)
        measure(partial(evaluation.measure, folder=manner.logs), runs, kept, manner)
        counts = {one.name: len(evaluation.replications(read, one, seeds)) for one in settings}
        outcome = outcome_of(read, settings, counts, kept.results(runs))
        written = files.write(outcome, kept, runs, folder)
        return Answer(files.as_data(outcome), lambda: _show(outcome), written)


def _show(outcome: "Outcome") -> None:
    """Print how the contenders stand in every setting, and what was reached."""
    from leasehold.cli.screen import answer, answer_table, wrapped
    from leasehold.experiments.beyond import report

    for setting in outcome.settings:
        answer(f"\n{setting.name}: {setting.what}\n")
        columns = report.few_columns()
        answer_table(columns, report.few_lines(outcome, setting), figures=range(1, len(columns) - 1))
    answer("\nWhat was reached\n")
    for line in report.summary(outcome):
        answer(wrapped(line))
    answer(f"\n{report.size(outcome)}\n")
