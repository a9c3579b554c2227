"""The published evaluation of usage agreements."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leasehold.cli.reproducing.folders import folder_for
from leasehold.cli.reproducing.measuring import measure
from leasehold.cli.reproducing.options import Answer, Manner

if TYPE_CHECKING:
    from leasehold.experiments.usla.outcome import Outcome


class UsageAgreements:
    """Tables 1 to 7."""

    name = "usla"
    does = "Usage agreements (Dumitrescu et al. 2007, Tables 1 to 7)."

    def parts(self) -> Sequence[str]:
        """All of it, or nothing."""
        return ()

    def run(self, parts: Sequence[str], manner: Manner) -> Answer:  # noqa: ARG002 - there are none
        """Run every table."""
        from leasehold.experiments.usla import evaluation, files
        from leasehold.experiments.usla.outcome import as_data, outcome_of
        from leasehold.experiments.usla.settings import plan

        count = manner.seeds or (evaluation.QUICK_SEEDS if manner.quick else evaluation.SEEDS)
        folder = folder_for(self.name, manner.out)
        kept = evaluation.kept_in(folder, plan())
        runs = dict.fromkeys(plan().configurations, range(1, count + 1))
        measure(evaluation.measure, runs, kept, manner)
        outcome = outcome_of(plan(), kept.results(runs), count)
        written = files.write(outcome, kept, runs, folder)
        return Answer(as_data(outcome), lambda: _show(outcome), written)


def _show(outcome: "Outcome") -> None:
    """Print every table, the claims and the controls."""
    from leasehold.cli.screen import answer, answer_table, wrapped
    from leasehold.experiments.usla import report

    for table in outcome.plan.tables:
        answer(f"\nTable {table.number}: {table.title}\n")
        lines = report.cell_lines(outcome.of_table(table.number))
        answer_table(report.CELL_COLUMNS, lines, figures={2, 3, 4})
    answer("\nClaims\n")
    answer_table(report.CLAIM_COLUMNS, report.claim_lines(outcome.verdicts), figures={1})
    answer("\nReadings that were not taken\n")
    for control in outcome.controls:
        said = f"{control.control.name}: {control.control.question} {report.control_verdict(control)}"
        answer(wrapped(said))
    answer(f"\n{report.summary(outcome)}\n")
    answer_table(report.METRIC_COLUMNS, report.metric_lines(outcome), figures={1, 2, 3, 4})
    answer("\nWhy they differ\n")
    for about, text in report.reasons(outcome.plan):
        answer(wrapped(f"{about} {text}"))
    answer(f"\n{outcome.seeds} seeds; calibrated, not published: {report.calibrated(outcome.plan)}.\n")
