"""The published evaluations of routing and of victims: figures over sweeps, with what is said of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leasehold.cli.reproducing.folders import folder_for
from leasehold.cli.reproducing.measuring import measure
from leasehold.cli.reproducing.options import Answer, Manner

if TYPE_CHECKING:
    from leasehold.experiments.intergrid.outcome import Outcome


class Published:
    """One publication, by its number."""

    def __init__(self, name: str, does: str) -> None:
        self.name = name
        self.does = does

    def parts(self) -> Sequence[str]:
        """Name its figures, and its groups of them."""
        from leasehold.experiments.intergrid.studies import STUDIES

        return [name for name in STUDIES[self.name].names if name != self.name]

    def run(self, parts: Sequence[str], manner: Manner) -> Answer:
        """Run all of it, or some figures."""
        from leasehold.experiments.intergrid import evaluation, files
        from leasehold.experiments.intergrid.data import as_data
        from leasehold.experiments.intergrid.outcome import outcome_of
        from leasehold.experiments.intergrid.settings import plan
        from leasehold.experiments.intergrid.studies import STUDIES

        study = STUDIES[self.name]
        wanted = study.figures_named(parts)
        read = plan(self.name, study.quick_hours if manner.quick else None)
        usual = study.quick_seeds if manner.quick else evaluation.REPLICATIONS
        count = manner.seeds or usual
        runs = dict.fromkeys(evaluation.names_for(read, wanted), range(1, 1 + count))
        folder = folder_for(self.name, manner.out)
        kept = evaluation.kept_in(folder, read)
        measure(evaluation.measure, runs, kept, manner)
        outcome = outcome_of(read, kept.results(runs), wanted, count)
        written = files.write(outcome, kept, runs, folder)
        return Answer(as_data(outcome), lambda: _show(outcome), written)


def _show(outcome: "Outcome") -> None:
    """Print figures, claims, analyses of variance, and how the policies stand to the reference."""
    from leasehold.cli.screen import answer, answer_table, wrapped
    from leasehold.experiments.intergrid import report

    for name in outcome.wanted:
        figure = outcome.plan.study.figures[name]
        answer(f"\nFigure {name}: {figure.title}, by {outcome.plan.sweeps[figure.letter].axis}\n")
        columns = report.figure_columns(outcome, figure)
        lines = report.figure_lines(outcome, figure, figure.metric)
        answer_table(columns, lines, figures=range(2, len(columns)))
    answer("\nClaims\n")
    answer_table(report.CLAIM_COLUMNS, report.claim_lines(outcome))
    answer("\nTwo-way analysis of variance: p\n")
    answer_table(report.ANOVA_COLUMNS, report.anova_lines(outcome.panels), figures=range(2, 8))
    if outcome.standings:
        answer("\nWhere the sweeps meet, as ratio to the reference\n")
        shown = report.FEW_METRICS
        answer_table(report.ratio_columns(shown), report.ratio_lines(outcome, shown), figures=range(2, 6))
    answer("\nWhy they differ\n")
    for about, text in report.reasons(outcome):
        answer(wrapped(f"{about} {text}"))
    answer(f"\n{report.size(outcome)}\n{report.summary(outcome)}\n")
