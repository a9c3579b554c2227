"""What reading a log assumed and left out, counted, so that nothing happens silently."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class ReadingNotes:
    """The account of one source: job lines read = jobs + skipped.

    ``assumed`` counts jobs by the assumption made about them, ``skipped`` by the reason for leaving them out;
    both are keyed by a phrase that completes "n of m jobs ...".
    """

    source: str
    read: int = 0
    assumed: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)

    @property
    def jobs(self) -> int:
        """How many of the lines read became jobs."""
        return self.read - self.skipped.total()

    def assume(self, phrase: str) -> None:
        """Count one more job about which this was assumed."""
        self.assumed[phrase] += 1

    def skip(self, phrase: str) -> None:
        """Count one more job that was left out for this reason."""
        self.skipped[phrase] += 1

    def remark(self, sentence: str) -> None:
        """Keep a sentence about the source as a whole."""
        self.remarks.append(sentence)

    def sentences(self) -> list[str]:
        """Return all as sentences, for a manifest: what was left out first, the frequent before the rare."""
        counted = [*self.skipped.most_common(), *self.assumed.most_common()]
        told = [f"{self.source}: {count:,} of {self.read:,} jobs {phrase}" for phrase, count in counted]
        return told + [f"{self.source}: {remark}" for remark in self.remarks]
