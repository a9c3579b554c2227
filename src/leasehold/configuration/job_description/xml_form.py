"""A description in XML: the elements of JSDL, nested as there or not at all, with or without its namespaces.

A document type declaration is refused before it is read. Without one there are no entities but the five that
every XML has, so nothing can grow while it is read, and nothing is fetched from anywhere.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn
from xml.parsers import expat

from leasehold.configuration.job_description.document import Document
from leasehold.model.errors import InputError

JSDL = "http://schemas.ggf.org/jsdl/2005/11/jsdl"
POSIX = "http://schemas.ggf.org/jsdl/2005/11/jsdl-posix"
OURS = "urn:leasehold:job"

ROOTS = ("JobDefinition", "JobDescription")
_GROUPS = frozenset({*ROOTS, "JobIdentification", "Application", "POSIXApplication", "Resources"})
"""Elements that only hold others together."""

_LISTS = frozenset({"Argument", "Software", "DataStaging"})
_TABLES = frozenset({"DataStaging"})
_BLANKS_COUNT = frozenset({"Executable", "Argument"})
_NAMESPACES = frozenset({"", JSDL, POSIX, OURS})
_OF_SCHEMAS = "http://www.w3.org/2001/XMLSchema-instance "
_MOST_DEEP = 16


@dataclass(slots=True)
class _Element:
    """One element; ``text`` is what stands in it beside its children."""

    name: str
    line: int
    text: str = ""
    children: "list[_Element]" = field(default_factory=list)


def read_xml(text: str, name: str) -> Document:
    """Read XML; raises InputError with the ``name`` of the text, and its line, where it is no description."""
    tree = _Tree(name)
    try:
        tree.parser.Parse(text, True)  # noqa: FBT003 - as expat wants it
    except expat.ExpatError as error:
        raise InputError(name, error.lineno, f"is no XML: {expat.ErrorString(error.code)}") from None
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
            if not attribute.startswith(_OF_SCHEMAS) and (local, attribute) != ("DataStaging", "name"):
                self._refuse(f"<{local}> has an attribute {attribute!r}, expected none")
        if len(self._open) > _MOST_DEEP:
            self._refuse(f"is nested deeper than {_MOST_DEEP}, and no description of a job is")
        element = _Element(local, self.parser.CurrentLineNumber)
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

    def document(self, top: _Element) -> Document:
        """Give the fields of a document whose root is the one child of ``top``."""
        (root,) = top.children
        if root.name not in ROOTS:
            problem = f"got <{root.name}>, expected <{ROOTS[0]}> or <{ROOTS[1]}>"
            raise InputError(self._name, root.line, problem)
        for element in self._fields(root):
            self._take(element)
        return Document(self._values, self._lines)

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
        elif name in self._values:
            raise InputError(self._name, element.line, f"{name} is said twice")
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
                raise InputError(self._name, child.line, f"{place}.{child.name} is said twice")
            table[child.name] = self._value(child, f"{place}.{child.name}")
        return table

    def _insist_on_no_text(self, element: _Element) -> None:
        if element.text.strip():
            problem = f"got {element.text.strip():.80} within <{element.name}>, expected elements"
            raise InputError(self._name, element.line, problem)
