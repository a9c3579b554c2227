"""The account of one source: what was read, assumed and left out."""

from leasehold.simulation.workload.log_record import ReadingNotes


def test_lines_read_are_jobs_and_skipped() -> None:
    notes = ReadingNotes("KTH", read=1_000)
    notes.skip("were left out: no run time")

    assert notes.jobs == 999


def test_sentences_tell_what_was_left_out_first_then_the_frequent_before_the_rare() -> None:
    notes = ReadingNotes("KTH", read=1_000)
    notes.remark("its header does not say MaxProcs")
    notes.assume("are rare")
    for _ in range(3):
        notes.assume("are frequent")
    notes.skip("were left out")

    assert notes.sentences() == [
        "KTH: 1 of 1,000 jobs were left out",
        "KTH: 3 of 1,000 jobs are frequent",
        "KTH: 1 of 1,000 jobs are rare",
        "KTH: its header does not say MaxProcs",
    ]
