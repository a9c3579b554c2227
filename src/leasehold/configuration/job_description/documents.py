"""The text of a description: its fields with their values, and the line on which each stands; as JSON or XML.

XML has the elements of JSDL, nested as there or not at all, with or without its namespaces. A document type
declaration is refused before it is read. Without one there are no entities but the five that every XML has, so
nothing can grow while it is read, and nothing is fetched from anywhere. What is written is read as the same job.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn
from xml.parsers import expat
from xml.sax.saxutils import escape

from leasehold.configuration.job_description.description import (
    JobDescription,
    Looking,
    address_of,
    read_fields,
    show_array,
    show_gpus,
)
from leasehold.matching.needs import InputFile
from leasehold.model.errors import InputError, InvalidField

MOST_BYTES = 1024 * 1024
"""More text than any description has."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:\n]')


@dataclass(frozen=True, slots=True)
class JobDocument:
    """The fields of a description, by their names.

    ``lines``  of places such as ``DataStaging[0].Size``; what is not among them is where its table is
    """

    values: Mapping[str, Any]
    lines: Mapping[str, int] = field(default_factory=dict)

    def line_of(self, place: str) -> int | None:
        """Find the line of a place, or of the nearest one around it."""
        while place and place not in self.lines:
            place = re.sub(r"(\[\d+\]|\.?[^.\[\]]+)$", "", place)
        return self.lines.get(place)


def read_json(text: str, name: str) -> JobDocument:
    """Read JSON; raises InputError with the ``name`` of the text, and its line, where it is none."""
    try:
        values = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise InputError(name, error.lineno, f"is not valid JSON: {error.msg}") from None
    except (RecursionError, ValueError) as error:
        raise InputError(name, None, f"is not valid JSON: {error}") from None
    lines = dict(_json_lines(text))
    if not isinstance(values, dict):
        raise InputError(name, 1, f"got {values!r:.80}, expected an object with the fields of a job")
    return JobDocument(values, lines)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a field that is given twice: it is ambiguous."""
    values = dict(pairs)
    if len(values) < len(pairs):
        seen = [key for key, _ in pairs]
        twice = next(key for key in seen if seen.count(key) > 1)
        raise ValueError(f"{twice} is given twice")
    return values


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a number")


def _json_lines(text: str) -> Iterator[tuple[str, int]]:
    """Give the line of each field and each entry of a list; the text is JSON, as was seen before."""
    line, place, last = 1, "", ""
    around: list[_Around] = []
    for found in _TOKEN.finditer(text):
        match found[0]:
            case "\n":
                line += 1
            case "{" | "[" as bracket:
                around.append(_Around(place, is_list=bracket == "["))
                place = around[-1].entry(0)
            case "}" | "]":
                place = around.pop().place
            case ":":
                place = _below(around[-1].place, json.loads(last))
                yield place, line
            case ",":
                around[-1].count += 1
                place = around[-1].entry(around[-1].count)
            case string:
                last = string
                if around[-1].is_list:
                    yield place, line


@dataclass(slots=True)
class _Around:
    """An object or a list that is open: where it stands, and how many commas it had."""

    place: str
    is_list: bool
    count: int = 0

    def entry(self, number: int) -> str:
        """Give the place of an entry of a list; within an object the next name says it."""
        return f"{self.place}[{number}]" if self.is_list else self.place


def _below(table: str, key: str) -> str:
    return f"{table}.{key}" if table else key


def at_its_line(document: JobDocument, name: str, error: InvalidField) -> InputError:
    """Say in which text, and on which line of it, a field is wrong."""
    return InputError(name, document.line_of(error.field), str(error))


JSDL = "http://schemas.ggf.org/jsdl/2005/11/jsdl"
POSIX = "http://schemas.ggf.org/jsdl/2005/11/jsdl-posix"
OURS = "urn:leasehold:job"

ROOTS = ("JobDefinition", "JobDescription")
_GROUPS = frozenset({*ROOTS, "JobIdentification", "Application", "POSIXApplication", "Resources"})
"""Elements that only hold others together."""

_LISTS = frozenset({"Argument", "Software", "DataStaging", "OutputFile"})
_TABLES = frozenset({"DataStaging"})
_NAMED = frozenset({"Environment"})
"""Elements with a value for each name, which is an attribute."""
_BLANKS_COUNT = frozenset({"Executable", "Argument", "Environment"})
_NAMESPACES = frozenset({"", JSDL, POSIX, OURS})
_OF_SCHEMAS = "http://www.w3.org/2001/XMLSchema-instance "
_MOST_DEEP = 16


@dataclass(slots=True)
class _Element:
    """One element; ``text`` is what stands in it beside its children, ``key`` its attribute ``name``."""

    name: str
    line: int
    text: str = ""
    key: str = ""
    children: "list[_Element]" = field(default_factory=list)


def read_xml(text: str, name: str) -> JobDocument:
    """Read XML; raises InputError with the ``name`` of the text, and its line, where it is not a description."""
    tree = _Tree(name)
    try:
        tree.parser.Parse(text, True)  # noqa: FBT003 - as expat wants it
    except expat.ExpatError as error:
        raise InputError(name, error.lineno, f"is not valid XML: {expat.ErrorString(error.code)}") from None
    return _Gathering(name).document(tree.root)


class _Tree:
    """Makes elements of what the parser tells; refuses what no description has. Raises InputError."""

    def __init__(self, name: str) -> None:
        self.root = _Element("", 1)
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.StartElementHandler = self._begin
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self._name = name
        self._open = [self.root]

    def _begin(self, tag: str, attributes: Mapping[str, str]) -> None:
        namespace, _, local = tag.rpartition(" ")
        if namespace not in _NAMESPACES:
            self._refuse(f"<{local}> is of the namespace {namespace!r}, expected that of JSDL, or none")
        for attribute in attributes:
            is_name = attribute == "name" and (local in _TABLES or local in _NAMED)
            if not attribute.startswith(_OF_SCHEMAS) and not is_name:
                self._refuse(f"<{local}> has an attribute {attribute!r}, expected none")
        if len(self._open) > _MOST_DEEP:
            self._refuse(f"is nested deeper than {_MOST_DEEP}, and no description of a job is")
        element = _Element(local, self.parser.CurrentLineNumber, key=attributes.get("name", ""))
        self._open[-1].children.append(element)
        self._open.append(element)

    def _end(self, _tag: str) -> None:
        self._open.pop()

    def _text(self, text: str) -> None:
        self._open[-1].text += text

    def _doctype(self, *_: object) -> NoReturn:
        self._refuse("has a document type declaration, expected none: entities are not read")

    def _refuse(self, problem: str) -> NoReturn:
        raise InputError(self._name, self.parser.CurrentLineNumber, problem)


class _Gathering:
    """Gathers the fields of all groups. Raises InputError."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._values: dict[str, Any] = {}
        self._lines: dict[str, int] = {}

    def document(self, top: _Element) -> JobDocument:
        """Give the fields of a document whose root is the one child of ``top``."""
        (root,) = top.children
        if root.name not in ROOTS:
            problem = f"got <{root.name}>, expected <{ROOTS[0]}> or <{ROOTS[1]}>"
            raise InputError(self._name, root.line, problem)
        for element in self._fields(root):
            self._take(element)
        return JobDocument(self._values, self._lines)

    def _fields(self, group: _Element) -> Iterator[_Element]:
        self._insist_on_no_text(group)
        for child in group.children:
            if child.name in _GROUPS:
                yield from self._fields(child)
            else:
                yield child

    def _take(self, element: _Element) -> None:
        name = element.name
        if name in _LISTS:
            entries = self._values.setdefault(name, [])
            entries.append(self._value(element, f"{name}[{len(entries)}]"))
        elif name in _NAMED:
            named = self._values.setdefault(name, {})
            if element.key in named:
                raise InputError(self._name, element.line, f"{name}.{element.key} is given twice")
            named[element.key] = self._value(element, f"{name}.{element.key}")
        elif name in self._values:
            raise InputError(self._name, element.line, f"{name} is given twice")
        else:
            self._values[name] = self._value(element, name)

    def _value(self, element: _Element, place: str) -> Any:  # noqa: ANN401 - a text, or a table of such
        self._lines[place] = element.line
        if not element.children and element.name not in _TABLES:
            return element.text if element.name in _BLANKS_COUNT else element.text.strip()
        self._insist_on_no_text(element)
        table: dict[str, Any] = {}
        for child in element.children:
            if child.name in table:
                raise InputError(self._name, child.line, f"{place}.{child.name} is given twice")
            table[child.name] = self._value(child, f"{place}.{child.name}")
        return table

    def _insist_on_no_text(self, element: _Element) -> None:
        if element.text.strip():
            problem = f"got {element.text.strip():.80} within <{element.name}>, expected elements"
            raise InputError(self._name, element.line, problem)


SUFFIXES = (".json", ".xml")


def load_description(path: Path, looking: Looking) -> JobDescription:
    """Read a file; raises InputError with its line."""
    return read_description(_text_of(path), str(path), looking)


def read_description(text: str, name: str, looking: Looking) -> JobDescription:
    """Read JSON, or what begins as XML does; ``name`` is what the text is called in an error (InputError)."""
    document = read_document(text, name)
    try:
        return read_fields(document.values, looking)
    except InvalidField as error:
        raise at_its_line(document, name, error) from None


def read_document(text: str, name: str) -> JobDocument:
    """Read the fields without checking them; raises InputError."""
    if len(text) > MOST_BYTES:
        raise InputError(name, None, f"is larger than {MOST_BYTES} bytes, and no description of a job is")
    return read_xml(text, name) if text.lstrip("\ufeff \t\r\n").startswith("<") else read_json(text, name)


def size_of(field: str, path: str, folder: Path | None = None) -> int:
    """Look how large a file is; raises InvalidField where there is none. Paths begin at ``folder``."""
    place = (folder or Path()) / path
    try:
        size_bytes = place.stat().st_size
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "no path"
        raise InvalidField(field, path, f"an existing file ({place}: {why})") from None
    if not place.is_file():
        raise InvalidField(field, path, f"a regular file ({place} is not one)")
    return size_bytes


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1).decode("utf-8-sig")
    except OSError as error:
        raise InputError(path, None, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(path, None, f"is not text in UTF-8 (at byte {error.start})") from None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OF_POSIX = ("Executable", "Argument", "Environment")
_OF_OURS = (
    "OutputFile",
    "GPUs",
    "NeededResourceCount",
    "Array",
    "ExecutionTime",
    "Deadline",
    "Reliability",
    "Backup",
    "LeaseType",
    "Restarts",
)
_OF_RESOURCES = (
    "IndividualCPUSpeed", "IndividualCPUCount", "IndividualPhysicalMemory", "IndividualDiskSpace",
    "TotalResourceCount", "Software",
)  # fmt: skip
_ROOT = f'<JobDefinition xmlns="{JSDL}" xmlns:posix="{POSIX}" xmlns:job="{OURS}">'
_PREFIXES = {"Executable": "posix:", "Argument": "posix:", "Environment": "posix:", "Software": "job:", "Size": "job:"}
_NO_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def fields_of(description: JobDescription) -> dict[str, Any]:
    """Give the fields of a description, without those that say what is usual anyway."""
    needs = description.needs
    fields = {
        "JobName": description.name,
        "JobProject": description.group,
        "Executable": description.command[0],
        "Argument": list(description.command[1:]),
        "Environment": dict(description.environment),
        "IndividualCPUSpeed": f"{needs.cpu_mhz}MHz" if needs.cpu_mhz else "",
        "IndividualCPUCount": needs.amounts.cores,
        "IndividualPhysicalMemory": f"{needs.amounts.memory_mib}MiB",
        "IndividualDiskSpace": f"{needs.amounts.disk_mib}MiB" if needs.amounts.disk_mib else "",
        "GPUs": show_gpus(needs),
        "TotalResourceCount": needs.nodes,
        "NeededResourceCount": needs.need or "",
        "Software": [str(one) for one in needs.software],
        "DataStaging": [_input(file) for file in needs.inputs],
        "OutputFile": list(needs.outputs),
        "Array": show_array(description.array),
        "ExecutionTime": needs.execution_ms / 1000 if needs.execution_ms % 1000 else needs.execution_ms // 1000,
        "Deadline": "" if description.deadline_ms is None else _moment(description.deadline_ms),
        "Reliability": description.reliability or "",
        "Backup": description.backup.value,
        "LeaseType": description.lease_type.label,
    }
    return {name: value for name, value in fields.items() if value not in ("", [], {})} | {
        "Restarts": description.restarts
    }


def to_json(description: JobDescription) -> str:
    """Write a description as JSON."""
    return json.dumps(fields_of(description), indent=2, ensure_ascii=False)


def to_xml(description: JobDescription) -> str:
    """Write a description as JSDL, with our fields in a namespace of their own.

    Raises InvalidField for characters that XML cannot have.
    """
    fields = fields_of(description)
    identification = _elements(fields, ("JobName", "JobProject"))
    lines = [
        *(_within("JobIdentification", identification) if identification else []),
        *_within("Application", _within("posix:POSIXApplication", _elements(fields, _OF_POSIX))),
        *_within("Resources", _elements(fields, _OF_RESOURCES)),
        *_elements(fields, ("DataStaging",)),
        *_elements(fields, _OF_OURS),
    ]
    body = "\n".join(f"  {line}" for line in _within("JobDescription", lines))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{_ROOT}\n{body}\n</JobDefinition>\n'


def _input(file: InputFile) -> dict[str, Any]:
    source = file.address or address_of(file.place, file.name)
    return {"FileName": file.name} | ({"Source": source} if file.place else {}) | {"Size": file.size_bytes}


def _moment(unix_ms: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=unix_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _elements(fields: dict[str, Any], names: tuple[str, ...]) -> list[str]:
    """Write those of the fields that are there, each entry of a list as an element of its own."""
    return [line for name in names if name in fields for line in _each(name, fields[name])]


def _each(name: str, value: object) -> Iterator[str]:
    if name in _NAMED and isinstance(value, dict):
        for key, one in value.items():
            place = f"{name}.{key}"
            yield f'<{_prefix(name)}{name} name="{key}">{_escaped(str(one), place)}</{_prefix(name)}{name}>'
        return
    entries = value if isinstance(value, list) else [value]
    for number, entry in enumerate(entries):
        place = f"{name}[{number}]" if isinstance(value, list) else name
        yield from _element(name, entry, place)


def _element(name: str, value: object, place: str) -> list[str]:
    if name == "Source":
        return _within(name, _element("URI", value, place))
    if isinstance(value, dict):
        inner = [line for key, one in value.items() for line in _element(key, one, f"{place}.{key}")]
        return _within(name, inner)
    tag = f"{_prefix(name)}{name}"
    return [f"<{tag}>{_escaped(str(value), place)}</{tag}>"]


def _prefix(name: str) -> str:
    return "job:" if name in _OF_OURS else _PREFIXES.get(name, "")


def _within(tag: str, lines: list[str]) -> list[str]:
    return [f"<{tag}>", *(f"  {line}" for line in lines), f"</{tag}>"]


def _escaped(text: str, place: str) -> str:
    """Write text so that it is read as it is; line ends and tabs would be read as others."""
    if _NO_XML.search(text):
        raise InvalidField(place, text, "characters that XML can have")
    return escape(text, {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"})
