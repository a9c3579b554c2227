"""Who gives way: the rules of other systems on the same instants, and guarantees in whole runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leasehold.cli.reproducing.folders import folder_for
from leasehold.cli.reproducing.measuring import measure
from leasehold.cli.reproducing.options import Answer, Manner

if TYPE_CHECKING:
    from leasehold.experiments.victims.outcome import Outcome


class Victims:
    """The table of other systems' rules, and that of guarantees."""

    name = "victims"
    does = "Who gives way: rules of Kueue, Slurm and Haizea beside ours, and guarantees to guests."

    def parts(self) -> Sequence[str]:
        """Name the two tables."""
        from leasehold.experiments.victims.settings import PARTS

        return PARTS

    def run(self, parts: Sequence[str], manner: Manner) -> Answer:
        """Run both, or one of them."""
        from leasehold.experiments.victims import evaluation, files
        from leasehold.experiments.victims.outcome import as_data, outcome_of
        from leasehold.experiments.victims.settings import plan

        read = plan(evaluation.QUICK_HOURS if manner.quick else evaluation.HOURS)
        usual = evaluation.QUICK_REPLICATIONS if manner.quick else evaluation.REPLICATIONS
        count = manner.seeds or usual
        runs = dict.fromkeys(read.names_of(parts), range(1, 1 + count))
        folder = folder_for(self.name, manner.out)
        kept = evaluation.kept_in(folder, read)
        measure(evaluation.measure, runs, kept, manner)
        outcome = outcome_of(read, kept.results(runs), parts, count)
        written = files.write(outcome, kept, runs, folder)
        return Answer(as_data(outcome), lambda: _show(outcome), written)


def _show(outcome: "Outcome") -> None:
    """Print both tables, as far as a terminal has room."""
    from leasehold.cli.screen import answer, answer_table, wrapped
    from leasehold.experiments.victims import report

    if outcome.rules:
        answer("\nWhom each rule preempts, at the same instants\n")
        answer_table(report.RULE_COLUMNS, report.rule_lines(outcome), figures=range(1, 8))
    if outcome.variants:
        columns = ["variant", *(report.RUN_COLUMNS[key] for key in report.FEW)]
        answer("\nGuarantees in whole runs\n")
        answer_table(columns, report.variant_lines(outcome, report.FEW), figures=range(1, 7))
    answer("\nWhat that comes to\n")
    for sentence in report.findings(outcome):
        answer(wrapped(sentence))
    answer(f"\n{report.size(outcome)}\n")
