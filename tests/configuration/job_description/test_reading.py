"""A description of a job in JSON and XML: what it means, and what is wrong with it, with its line."""

import json
from pathlib import Path
from typing import Any

import pytest

from leasehold.configuration.job_description.description import NOT_SERVED, JobDescription, Looking, body_of
from leasehold.configuration.job_description.documents import load_description, read_description, size_of
from leasehold.jobs.job import Backup
from leasehold.matching.needs import Amounts, InputFile, Needs
from leasehold.matching.software import software
from leasehold.model.errors import InputError, InvalidField
from leasehold.model.request import LeaseType

FIELDS: dict[str, Any] = {
    "JobName": "survey",
    "JobProject": "astro",
    "Executable": "python3",
    "Argument": ["run.py", " -v "],
    "IndividualCPUCount": 2,
    "IndividualCPUSpeed": "2.4GHz",
    "IndividualPhysicalMemory": "2GiB",
    "IndividualDiskSpace": 10_737_418_240,
    "TotalResourceCount": 3,
    "Software": ["python3-numpy >= 1.24, < 2", "gcc"],
    "DataStaging": [
        {"FileName": "survey.fits"},
        {"FileName": "catalogue.fits", "Source": "gsiftp://lyon/old/catalogue.fits", "Size": "700MB"},
    ],
    "ExecutionTime": "1h30m",
    "Deadline": "2026-11-21T18:00:00Z",
    "Reliability": 0.999,
    "Backup": "hot",
    "LeaseType": "cancelable",
    "Restarts": 1,
}
MEANT = JobDescription(
    name="survey",
    group="astro",
    command=("python3", "run.py", " -v "),
    needs=Needs(
        amounts=Amounts(cores=2, memory_mib=2048, disk_mib=10_240),
        cpu_mhz=2400,
        nodes=3,
        software=(software("python3-numpy >= 1.24, < 2"), software("gcc")),
        inputs=(
            InputFile("survey.fits", 2_000, "", address="survey.fits"),
            InputFile("catalogue.fits", 700_000_000, "lyon", "gsiftp://lyon/old/catalogue.fits"),
        ),
        execution_ms=5_400_000,
    ),
    deadline_ms=1_795_284_000_000,
    reliability=0.999,
    backup=Backup.HOT,
    lease_type=LeaseType.CANCELABLE,
    restarts=1,
)
JSDL = """<?xml version="1.0" encoding="UTF-8"?>
<jsdl:JobDefinition xmlns:jsdl="http://schemas.ggf.org/jsdl/2005/11/jsdl"
    xmlns:posix="http://schemas.ggf.org/jsdl/2005/11/jsdl-posix" xmlns:ours="urn:leasehold:job"
    xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="x y">
  <jsdl:JobDescription>
    <jsdl:JobIdentification>
      <jsdl:JobName>survey</jsdl:JobName>
      <jsdl:Description>all of the sky</jsdl:Description>
      <jsdl:JobProject>astro</jsdl:JobProject>
    </jsdl:JobIdentification>
    <jsdl:Application>
      <posix:POSIXApplication>
        <posix:Executable>python3</posix:Executable>
        <posix:Argument>run.py</posix:Argument>
        <posix:Argument> -v </posix:Argument>
      </posix:POSIXApplication>
    </jsdl:Application>
    <jsdl:Resources>
      <jsdl:IndividualCPUSpeed><jsdl:LowerBoundedRange>2.4e9</jsdl:LowerBoundedRange></jsdl:IndividualCPUSpeed>
      <jsdl:IndividualCPUCount><jsdl:Exact>2.0</jsdl:Exact></jsdl:IndividualCPUCount>
      <jsdl:IndividualPhysicalMemory>
        <jsdl:LowerBoundedRange>2147483648.0</jsdl:LowerBoundedRange>
      </jsdl:IndividualPhysicalMemory>
      <jsdl:IndividualDiskSpace>10GiB</jsdl:IndividualDiskSpace>
      <jsdl:TotalResourceCount> 3 </jsdl:TotalResourceCount>
      <ours:Software>python3-numpy &gt;= 1.24, &lt; 2</ours:Software>
      <ours:Software>gcc</ours:Software>
    </jsdl:Resources>
    <jsdl:DataStaging name="sky"><jsdl:FileName>survey.fits</jsdl:FileName></jsdl:DataStaging>
    <jsdl:DataStaging>
      <jsdl:FileName>catalogue.fits</jsdl:FileName>
      <jsdl:Source><jsdl:URI>gsiftp://lyon/old/catalogue.fits</jsdl:URI></jsdl:Source>
      <ours:Size>700MB</ours:Size>
    </jsdl:DataStaging>
    <ours:ExecutionTime>1:30:00</ours:ExecutionTime>
    <ours:Deadline>2026-11-21T18:00:00Z</ours:Deadline>
    <ours:Reliability>0.999</ours:Reliability>
    <ours:Backup>hot</ours:Backup>
    <ours:LeaseType>cancelable</ours:LeaseType>
    <ours:Restarts>1</ours:Restarts>
  </jsdl:JobDescription>
</jsdl:JobDefinition>
"""
LEAST = {"Executable": "true", "ExecutionTime": 60}


def read(fields: Any, looking: Looking) -> JobDescription:
    text = fields if isinstance(fields, str) else json.dumps(fields, indent=1)
    return read_description(text, "job", looking)


# What is meant


def test_all_that_can_be_said_in_json(looking: Looking) -> None:
    assert read(FIELDS, looking) == MEANT


def test_the_same_in_the_xml_of_jsdl(looking: Looking) -> None:
    assert read(JSDL.replace("2.4e9", "2400000000"), looking) == MEANT


def test_the_same_in_xml_without_namespaces_and_groups(looking: Looking) -> None:
    elements = [
        f"<{name}>{one}</{name}>".replace(">= 1.24, < 2", "&gt;= 1.24, &lt; 2")
        for name, value in FIELDS.items()
        for one in (value if isinstance(value, list) else [value])
        if name != "DataStaging"
    ]
    elements += ["<DataStaging><FileName>survey.fits</FileName></DataStaging>"]
    elements += ["<DataStaging><FileName>catalogue.fits</FileName><Source>gsiftp://lyon/old/catalogue.fits</Source>"]
    elements += ["<Size>700MB</Size></DataStaging>"]
    assert read(f"<JobDescription>{''.join(elements)}</JobDescription>", looking) == MEANT


def test_what_is_usual(looking: Looking) -> None:
    needs = Needs(amounts=Amounts(1, 256, 0), execution_ms=60_000)
    assert read(LEAST, looking) == JobDescription(command=("true",), needs=needs)


def test_an_input_of_this_machine_is_looked_at_and_one_with_its_size_is_taken_as_it_is(
    looking: Looking,
) -> None:
    staging = [
        {"FileName": "a", "Source": "data/model.bin"},
        {"FileName": "b", "Source": {"URI": "file:data/model.bin"}},
        {"FileName": "not-here", "Size": "3KiB"},
    ]
    inputs = read(LEAST | {"DataStaging": staging}, looking).needs.inputs
    assert [(file.name, file.size_bytes, file.place) for file in inputs] == [
        ("a", 7, ""),
        ("b", 7, ""),
        ("not-here", 3072, ""),
    ]


def test_the_body_that_a_gateway_is_asked_with() -> None:
    assert body_of(MEANT) == {
        "name": "survey", "group": "astro", "command": ["python3", "run.py", " -v "], "cores": 2,
        "memory_mib": 2048, "disk_mib": 10_240, "cpu_mhz": 2400, "nodes": 3,
        "software": ["python3-numpy >= 1.24, < 2", "gcc"],
        "inputs": [
            {"name": "survey.fits", "size_bytes": 2_000, "place": ""},
            {"name": "catalogue.fits", "size_bytes": 700_000_000, "place": "lyon"},
        ],
        "execution_s": 5400, "reliability": 0.999, "backup": "hot", "type": "cancelable", "restarts": 1,
    }  # fmt: skip


# What is wrong, in one line, with its place

MEMORY = r"\(units: B, K, M, G, T, KiB, MiB, GiB, TiB, kB, MB, GB, TB\)"


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"IndividualCPUCount": 0}, "IndividualCPUCount: got 0, expected a whole number from 1 to 1000000"),
        ({"IndividualCPUCount": 1.5}, "IndividualCPUCount: got 1.5, expected a whole number"),
        ({"IndividualCPUCount": True}, "IndividualCPUCount: got True, expected a whole number"),
        ({"TotalResourceCount": "two"}, "TotalResourceCount: got 'two', expected a whole number"),
        ({"IndividualPhysicalMemory": 2048}, "IndividualPhysicalMemory: got 2048, expected at least 1 MiB"),
        ({"IndividualPhysicalMemory": "2 kg"}, f"got '2 kg', expected a number of B, or one .* {MEMORY}"),
        ({"IndividualPhysicalMemory": "2Gb"}, "got '2Gb', expected a number of B, or one with its unit"),
        ({"IndividualPhysicalMemory": -1}, "IndividualPhysicalMemory: got -1, expected a number of B"),
        ({"IndividualPhysicalMemory": "9999999TiB"}, "expected at most 2147483648 MiB"),
        ({"IndividualDiskSpace": "10"}, "IndividualDiskSpace: got '10', expected at least 1 MiB"),
        ({"IndividualCPUSpeed": 2.4}, "IndividualCPUSpeed: got 2.4, expected at least 1 MHz"),
        (
            {"IndividualCPUCount": {"UpperBoundedRange": 4}},
            "IndividualCPUCount: got .*, expected a value, or one in LowerBoundedRange or Exact",
        ),
        (
            {"IndividualCPUCount": {"Exact": 0}},
            "IndividualCPUCount.Exact: got 0, expected a whole number from 1 to 1000000",
        ),
        ({"Software": ["gcc", "numpy => 1"]}, r"Software\[1\]: got '=>', expected one of .*>="),
        ({"Software": "numpy >= new"}, r"Software\[0\]: got 'new', expected a version such as 1.2.3"),
        ({"Software": "numpy 5"}, r"Software\[0\]: got '5', expected an operator and a version"),
        ({"Software": [7]}, r"Software\[0\]: got 7, expected a name, and constraints"),
        ({"ExecutionTime": "soon"}, "ExecutionTime: got 'soon', expected a time such as 3600"),
        ({"ExecutionTime": 0}, "ExecutionTime: got '0', expected a time such as"),
        ({"ExecutionTime": None}, "ExecutionTime: missing, expected how long the job is thought to run"),
        ({"Deadline": "tomorrow"}, "Deadline: got 'tomorrow', expected six o'clock"),
        ({"Reliability": 1, "Deadline": "2026-11-21T18:00:00Z"}, "expected a number above 0 and below 1"),
        ({"Reliability": 0.9}, "Deadline: missing, expected a time: Reliability is"),
        ({"Backup": "warm"}, "Backup: got 'warm', expected one of cold, hot, none"),
        ({"LeaseType": "cancellable"}, r"LeaseType: .* \(did you mean 'cancelable'\?\)"),
        ({"Restarts": -1}, "Restarts: got -1, expected a whole number from 0 to 100"),
        ({"Executable": ""}, "Executable: got '', expected the program to run"),
        ({"Argument": "run.py"}, "Argument: got 'run.py', expected a list of fewer than 100 words"),
        ({"Argument": ["a\0b"]}, r"Argument\[0\]: got .*, expected a text of at most 4096 characters"),
        ({"IndividualCPUCout": 1}, r"IndividualCPUCout: .*\(did you mean 'IndividualCPUCount'\?\)"),
        ({"OperatingSystem": "LINUX"}, "got 'LINUX', expected nothing: this field of JSDL is not supported"),
        ({"DataStaging": "x"}, r"DataStaging\[0\]: got 'x', expected an object with FileName, Source, Size"),
        (
            {"DataStaging": [{"FileName": "gone"}]},
            r"\[0\].FileName: got 'gone', expected an existing file",
        ),
        ({"DataStaging": [{"Source": "x"}]}, r"DataStaging\[0\].FileName: missing"),
        (
            {"DataStaging": [{"FileName": "a", "Source": "http:///x"}]},
            r"DataStaging\[0\].Source: got 'http:///x', expected a path, or an address with the place",
        ),
        ({"DataStaging": [{"FileName": "a", "Source": "http://[x"}]}, "expected a path, or an address"),
        (
            {"DataStaging": [{"FileName": "a", "Source": "gsiftp://lyon/x"}]},
            r"DataStaging\[0\].Size: missing, expected how large it is",
        ),
        ({"DataStaging": [{"FileName": "a", "Size": "x"}]}, r"DataStaging\[0\].Size: got 'x'"),
        ({"DataStaging": [{"FileName": "survey.fits", "Siez": 3}]}, "did you mean 'Size'"),
        ({"DataStaging": [{"FileName": "survey.fits", "Target": 3}]}, "Target: got 3, expected nothing"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(said: dict[str, Any], problem: str, looking: Looking) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        read(LEAST | said, looking)
    assert "\n" not in str(caught.value)


def test_what_is_missing_has_no_line(looking: Looking) -> None:
    with pytest.raises(InputError, match=r"^job: Executable: missing, expected the program to run$"):
        read({"ExecutionTime": 1}, looking)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"Executable": "true",\n "ExecutionTime": 60,\n\n "IndividualCPUCount":\n 0}', 4),
        ('{"Executable": "a", "ExecutionTime": 6, "Software": [\n"b",\n"c ! 1"]}', 3),
        (
            ('{"Executable": "a", "ExecutionTime": 6, "DataStaging": [\n{"FileName": "survey.fits"},\n'
            '{"FileName": "x",\n"Size": "\\"{}"}]}'),
            4,
        ),
        ('{"Executable": "a", "ExecutionTime": 6, "Argument": [["]"], "b"],\n "x]": [[1, 2],\n 3]}', 1),
        (("<JobDescription>\n<Executable>a</Executable><ExecutionTime>6</ExecutionTime>\n<Backup>x</Backup>"
         "</JobDescription>"), 3),
        (("<JobDescription>\n<Executable>a</Executable><ExecutionTime>6</ExecutionTime><DataStaging>\n"
         "<FileName>a</FileName>\n<Size>x</Size></DataStaging></JobDescription>"), 4),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(text: str, line: int, looking: Looking) -> None:
    with pytest.raises(InputError) as caught:
        read(text, looking)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "job:1: is not valid JSON: Expecting value"),
        ('{\n"a": }', "job:2: is not valid JSON"),
        ("[1]", r"job:1: got \[1\], expected an object with the fields of a job"),
        ('{"a": 1, "a": 2}', "job: is not valid JSON: a is given twice"),
        ('{"a": NaN}', "job: is not valid JSON: NaN is not a number"),
        ("[" * 100_000, "job: is not valid JSON"),
        ("[" * 2_000_000, "is larger than 1048576 bytes"),
        ("<a/>", "job:1: got <a>, expected <JobDefinition> or <JobDescription>"),
        ("<JobDescription>\n<JobName>", "job:2: is not valid XML: no element found"),
        ("<JobDescription>\n</JobName></JobDescription>", "job:2: is not valid XML: mismatched tag"),
        ("<JobDescription><JobName>a</JobName>\n<JobName>b</JobName></JobDescription>", "job:2: JobName is"),
        ("<JobDescription><DataStaging><Size>1</Size><Size>1</Size></DataStaging></JobDescription>", "twice"),
        ("<JobDescription>hello</JobDescription>", "got hello within <JobDescription>, expected elements"),
        ("<JobDescription>" + "<a>" * 100 + "</a>" * 100 + "</JobDescription>", "nested deeper than 16"),
        ('<JobDescription><JobName lang="en"/></JobDescription>', "has an attribute 'lang', expected none"),
        ('<JobDescription xmlns="urn:else"/>', "is of the namespace 'urn:else', expected that of JSDL"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_description(text: str, problem: str, looking: Looking) -> None:
    with pytest.raises(InputError, match=problem):
        read(text, looking)


# XML that means harm

LAUGHS = "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(9))


@pytest.mark.parametrize(
    "declaration",
    [
        f'<!DOCTYPE JobDescription [<!ENTITY l0 "ha">{LAUGHS}]>',
        '<!DOCTYPE JobDescription [<!ENTITY l9 SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE JobDescription SYSTEM "http://localhost:1/evil.dtd">',
        '<!DOCTYPE JobDescription [<!ENTITY % p SYSTEM "http://localhost:1/p">%p;]>',
        "<!DOCTYPE JobDescription>",
    ],
)
def test_a_document_type_is_refused_before_anything_is_made_of_it(declaration: str, looking: Looking) -> None:
    text = f"{declaration}\n<JobDescription><JobName>&l9;</JobName></JobDescription>"
    with pytest.raises(InputError, match=r"^job:1: has a document type declaration, expected none"):
        read(text, looking)


def test_an_entity_that_is_not_of_xml_itself_is_none(looking: Looking) -> None:
    with pytest.raises(InputError, match="is not valid XML: undefined entity"):
        read("<JobDescription><JobName>&nbsp;</JobName></JobDescription>", looking)


def test_every_name_that_is_not_served_is_none_that_is(looking: Looking) -> None:
    assert not NOT_SERVED & set(FIELDS)
    for name in NOT_SERVED:
        with pytest.raises(InputError, match="is not supported"):
            read(LEAST | {name: "x"}, looking)


# Files


def test_a_file_is_read_and_its_problems_name_it(tmp_path: Path, looking: Looking) -> None:
    path = tmp_path / "job.json"
    path.write_text(json.dumps(FIELDS), encoding="utf-8-sig")
    assert load_description(path, looking) == MEANT
    path.write_bytes(b"\xff{}")
    with pytest.raises(InputError, match=r"job\.json: is not text in UTF-8 \(at byte 0\)"):
        load_description(path, looking)
    with pytest.raises(InputError, match=r"gone\.xml: cannot be read: No such file"):
        load_description(tmp_path / "gone.xml", looking)


def test_files_are_looked_at_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert size_of("Source", "a", tmp_path) == 5
    assert size_of("Source", str(tmp_path / "a")) == 5
    with pytest.raises(InvalidField, match=r"Source: got 'b', expected an existing file \(.*/b: No such"):
        size_of("Source", "b", tmp_path)
    with pytest.raises(InvalidField, match=r"expected a regular file \("):
        size_of("Source", ".", tmp_path)
    with pytest.raises(InvalidField, match=r"no path"):
        size_of("Source", "a\0b", tmp_path)
