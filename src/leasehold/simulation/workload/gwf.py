"""The Grid Workload Format, text version, of the Grid Workloads Archive.

http://gwa.ewi.tudelft.nl/grid-workload-format/

Its 29 columns begin like those of SWF, but names may replace numbers, a column names the
submitting site, and times are often seconds since 1970: `from_zero` of its window lets such a log start at zero.
The columns after that site may be cut short; they say nothing that Leasehold uses.
"""

from collections.abc import Iterator
from pathlib import Path

from leasehold.model.tables import LogRecord
from leasehold.simulation.workload.log_record import LogFormat, ReadingNotes, log_records


def _fields(text: str) -> list[str]:
    """Split a line at its tabs if it has any, so that names may contain spaces."""
    return [field.strip() for field in text.split("\t")] if "\t" in text else text.split()


GWF = LogFormat(
    name="the Grid Workload Format (GWF)",
    comment="#",
    fields_of=_fields,
    fewest_fields=17,
    most_fields=30,
    has_tabs=True,
    site_column=16,
)


def gwf_records(path: Path, notes: ReadingNotes) -> Iterator[LogRecord]:
    """Yield the jobs of a GWF log, plain or gzip.

    Raises InputError, with file and line, for text that is not GWF.
    """
    return log_records(path, GWF, notes)
