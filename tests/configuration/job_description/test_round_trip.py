"""What is written is read as the same job again, by JSON, by XML, and from one to the other."""

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.configuration.job_description.description import JobDescription, Looking
from leasehold.configuration.job_description.documents import read_description, to_json, to_xml
from leasehold.jobs.job import Backup
from leasehold.matching.devices import devices_of
from leasehold.matching.needs import Amounts, InputFile, Needs
from leasehold.matching.software import OPERATORS, Constraint, Software
from leasehold.model.errors import InvalidField
from leasehold.model.request import LeaseType
from leasehold.protocol.fields import read_moment, unix_ms

names = st.text(string.ascii_letters + string.digits + " äß.-_/<&>\"'%@:#", min_size=1, max_size=20).map(str.strip)
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
xml_words = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff") | st.sampled_from("\t\r\n"),
    max_size=20,
)
constraints = st.builds(
    Constraint, st.sampled_from(OPERATORS), st.sampled_from(["1.24", "2023.1a", "1:9.4-2", "3.11~rc1"])
)
software = st.builds(
    Software,
    st.from_regex(r"[a-z0-9][a-z0-9.+-]{0,8}", fullmatch=True),
    st.lists(constraints, max_size=3).map(tuple),
)
inputs = st.builds(InputFile, names.filter(bool), st.integers(0, 2**50), st.just("") | names.filter(bool))
GPUS = (st.integers(1, 999) | st.integers(1, 64).map(lambda count: 1_000 * count)).map(devices_of)
needs = st.builds(
    Needs,
    amounts=st.builds(Amounts, st.integers(1, 1000), st.integers(1, 2**31), st.integers(0, 2**31), GPUS),
    gpu_model=st.sampled_from(["", "a100", "a100_1g.10gb"]),
    execution_ms=st.integers(1, 10**11),
    nodes=st.integers(1, 1000),
    cpu_mhz=st.integers(0, 10_000),
    software=st.lists(software, max_size=3).map(tuple),
    inputs=st.lists(inputs, max_size=3).map(tuple),
)


def descriptions(word: st.SearchStrategy[str]) -> st.SearchStrategy[JobDescription]:
    return st.builds(
        JobDescription,
        command=st.tuples(word.filter(bool), word, word),
        needs=needs,
        name=names,
        group=names,
        environment=st.dictionaries(st.from_regex("[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True), word, max_size=3).map(
            lambda variables: tuple(variables.items())
        ),
        array=st.sets(st.integers(0, 1_000_000), max_size=5).map(lambda indexes: tuple(sorted(indexes))),
        deadline_ms=st.integers(0, 4 * 10**12),
        reliability=st.none() | st.floats(1e-9, 1 - 1e-9),
        backup=st.sampled_from(Backup),
        lease_type=st.sampled_from(LeaseType),
        restarts=st.integers(0, 100),
    )


def _never(field: str, path: str) -> int:
    raise AssertionError(f"{field}: {path} was looked at")


LOOKING = Looking(moment_ms=lambda _field, text: unix_ms(read_moment(text)), size_of=_never)


def read(text: str) -> JobDescription:
    return read_description(text, "job", LOOKING)


@given(descriptions(words))
def test_json_is_read_as_it_was_written(description: JobDescription) -> None:
    assert read(to_json(description)) == description


@given(descriptions(xml_words))
def test_xml_is_read_as_it_was_written(description: JobDescription) -> None:
    assert read(to_xml(description)) == description


@given(descriptions(xml_words))
def test_json_to_xml_to_json_changes_nothing(description: JobDescription) -> None:
    text = to_json(description)
    assert to_json(read(to_xml(read(text)))) == text


@pytest.mark.parametrize("word", ["a\x01", "\x1b[1m", "\ufffe"])
def test_what_xml_cannot_say_is_refused(word: str) -> None:
    needs = Needs(amounts=Amounts(1, 256), execution_ms=1)
    with pytest.raises(InvalidField, match=r"Argument\[0\]: got .*, expected characters that XML can have"):
        to_xml(JobDescription(command=("a", word), needs=needs))


@pytest.mark.parametrize("source", ["gsiftp://lyon/old/sky.fits", "site://lyon/old/sky.fits", "http://lyon:80/sky"])
def test_the_address_of_an_input_is_written_as_it_was(source: str) -> None:
    said = {"Executable": "run", "ExecutionTime": 60} | {
        "DataStaging": [{"FileName": "sky.fits", "Source": source, "Size": 7}]
    }
    read = read_description(json.dumps(said), "job.json", LOOKING)

    assert json.loads(to_json(read))["DataStaging"][0]["Source"] == source
    assert f"<URI>{source}</URI>" in to_xml(read)
    assert read_description(to_json(read), "job.json", LOOKING) == read
