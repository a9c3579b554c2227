"""The published evaluation of scheduling on physical and virtual machines."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leasehold.cli.reproducing.folders import folder_for
from leasehold.cli.reproducing.measuring import measure
from leasehold.cli.reproducing.options import Answer, Manner

if TYPE_CHECKING:
    from leasehold.experiments.hybrid.outcome import Outcome


class Hybrid:
    """Figures 6 to 8, and the claims of section 5."""

    name = "hybrid"
    does = "Physical or virtual machines, and how sure (Thamarai Selvi et al., Figures 6 to 8)."

    def parts(self) -> Sequence[str]:
        """All of it, or nothing."""
        return ()

    def run(self, parts: Sequence[str], manner: Manner) -> Answer:  # noqa: ARG002 - there are none
        """Run every configuration."""
        from leasehold.experiments.hybrid import evaluation, files
        from leasehold.experiments.hybrid.outcome import as_data, outcome_of
        from leasehold.experiments.hybrid.settings import plan

        read = plan(quick=manner.quick)
        count = manner.seeds or (evaluation.QUICK_SEEDS if manner.quick else evaluation.SEEDS)
        folder = folder_for(self.name, manner.out)
        kept = evaluation.kept_in(folder, read)
        runs = dict.fromkeys(read.configurations, range(1, count + 1))
        measure(evaluation.measure, runs, kept, manner)
        outcome = outcome_of(read, kept.results(runs), count)
        written = files.write(outcome, kept, runs, folder)
        return Answer(as_data(outcome), lambda: _show(outcome), written)


def _show(outcome: "Outcome") -> None:
    """Print the claims, the figures and the tables."""
    from leasehold.cli.screen import answer, answer_table, wrapped
    from leasehold.experiments.hybrid import report
    from leasehold.experiments.hybrid.curves import figure_6, figure_7

    answer("\nClaims\n")
    answer_table(report.CLAIM_COLUMNS, report.claim_lines(outcome))
    for number, curves, axis in ((6, figure_6(), "q of a node"), (7, figure_7(), "nodes")):
        columns = report.curve_columns(curves, axis)
        answer(f"\n{report.TITLES[number]}\n")
        answer_table(columns, report.curve_lines(curves), figures=range(len(columns)))
    answer(f"\n{report.TITLES[8]}\n")
    answer_table(report.SURE_COLUMNS, report.sure_lines(outcome), figures=range(6))
    answer("\nPhysical only, virtual only, hybrid\n")
    answer_table(report.ABLATION_COLUMNS, report.ablation_lines(outcome), figures=range(2, 7))
    answer(wrapped(report.needless(outcome)))
    answer("\nQueues\n")
    answer_table(report.QUEUE_COLUMNS, report.queue_lines(outcome), figures=(0, 1, 3, 4, 5, 6))
    answer("\nWhy it comes out so\n")
    for about, text in report.reasons():
        answer(wrapped(f"{about} {text}"))
    answer(f"\n{outcome.seeds} seeds. {report.summary(outcome)}\n")
