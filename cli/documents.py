"""Workflows in files, as JSON or YAML, and the line of each of their fields.

YAML is read by its core schema: `yes`, `on` and `2026-01-01` are texts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cli.errors import BadInput
from cli.printing import printable

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_PLAIN = {"": None, "~": None, "null": None, "true": True, "false": False}
_TAGS = "tag:yaml.org,2002:"
_TEXT = f"{_TAGS}str"
_KNOWN_TAGS = {"map", "seq", "str", "int", "float", "bool", "null", "timestamp", "merge", "value"}
# Aliases are expanded each time, and their targets may contain further aliases.
_MOST_VALUES = 100_000
# YAML treats these as line ends, or drops them, unless they are escaped.
_BREAKS = set("\r\x85\u2028\u2029\ufeff")
_DEEPEST = 100


@dataclass
class Document:
    """The content of a file.

    Attributes:
        name: of the file, for people.
        value: the content as JSON.
        lines: JSON pointer → line, for every value.
    """

    name: str
    value: Any
    lines: dict[str, int] = field(default_factory=dict[str, int])

    def line_of(self, pointer: str) -> int | None:
        """Return the line of a field, or of its nearest existing parent; None if it is unknown."""
        while pointer not in self.lines and pointer:
            pointer = pointer.rpartition("/")[0]
        return self.lines.get(pointer)

    def locate(self, pointer: str, message: str) -> str:
        """Return a line for people: `file.yaml:12 steps[2].config.expression: what is wrong`."""
        line = self.line_of(pointer)
        where = f"{self.name}:{line}" if line else self.name
        place = place_of(pointer)
        return (
            f"{where} {printable(place)}: {printable(message)}" if place else f"{where}: {printable(message)}"
        )

    def refusal(self, errors: Sequence[Mapping[str, Any]], otherwise: str) -> BadInput:
        """Return the service's errors, each with its place in the file; `otherwise` if it names none."""
        told = [
            self.locate(one["pointer"], one["message"]) for one in errors if one.get("pointer") is not None
        ]
        return BadInput("\n".join(told) or f"{self.name}: {otherwise}")


class NoDocument(BadInput):
    """A file that is neither JSON nor YAML, or has values that JSON lacks."""


def read_document(name: str, content: bytes) -> Document:
    """Parse the content of a file.

    Raises:
        NoDocument: naming the line.
    """
    import yaml

    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise NoDocument(f"{name}: This is not UTF-8 text.") from None
    if text.lstrip().startswith(("{", "[")):
        return _read_json(name, text)
    try:
        _refuse_depth(name, text)
        node = yaml.compose(text, _loader())
        reader = _Reader(name)
        return Document(name, reader.value(node, ""), reader.lines)
    except RecursionError:
        raise NoDocument(f"{name}: An alias stands for what it is in itself.") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        raise NoDocument(f"{where}: This is not YAML: {error.problem or error.context}.") from None
    except yaml.YAMLError as error:
        raise NoDocument(f"{name}: This is not YAML: {error}.") from None


def _read_json(name: str, text: str) -> Document:
    """Parse JSON; its lines are found by reading it as YAML, which nearly all JSON is."""
    import orjson
    import yaml

    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        message = f"This is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        raise NoDocument(f"{name}:{error.lineno}: {message}") from None
    reader = _Reader(name)
    try:
        # Tabs may separate tokens in JSON, but not in YAML.
        text = text.replace("\t", " ")
        _refuse_depth(name, text)
        reader.value(yaml.compose(text, _loader()), "")
    except (yaml.YAMLError, NoDocument):
        reader.lines.clear()
    return Document(name, value, reader.lines)


def _refuse_depth(name: str, text: str) -> None:
    """Refuse a text that is nested so deep that the loader in C would crash the process."""
    import yaml

    depth = 0
    event: Any
    for event in yaml.parse(text, _loader()):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise NoDocument(f"{name}:{event.start_mark.line + 1}: This is nested too deep.")


def _loader() -> Any:
    """Return the parser of YAML's structure: the one in C if available."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Reader:
    """Converts YAML's nodes to JSON values."""

    def __init__(self, name: str) -> None:
        self.lines: dict[str, int] = {}
        self._name = name
        self._values = 0

    def value(self, node: Any, pointer: str) -> Any:
        """Return the value of a node; the lines of its parts are recorded."""
        import yaml

        self._values += 1
        if node is None:
            raise NoDocument(f"{self._name}: There is nothing in it.")
        line = int(node.start_mark.line) + 1
        if self._values > _MOST_VALUES:
            raise NoDocument(f"{self._name}:{line}: These are too many values.")
        if node.tag.removeprefix(_TAGS) not in _KNOWN_TAGS:
            raise NoDocument(f"{self._name}:{line}: The tag {node.tag} is not known; give a plain value.")
        self.lines.setdefault(pointer, line)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, pointer)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(one, f"{pointer}/{index}") for index, one in enumerate(node.value)]
        return self._scalar(node, line)

    def _mapping(self, node: Any, pointer: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line, key = int(key_node.start_mark.line) + 1, key_node.value
            if not isinstance(key, str):
                raise NoDocument(f"{self._name}:{line}: The name of a field is a text.")
            if key in found:
                raise NoDocument(f"{self._name}:{line}: The field {key!r} is there twice.")
            place = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
            self.lines[place] = line
            found[key] = self.value(value_node, place)
        return found

    def _scalar(self, node: Any, line: int) -> Any:
        text: str = node.value
        # A plain text with this tag has an explicit tag, except for numbers such as 1e3, which YAML 1.1 does
        # not know.
        is_text = node.tag == _TEXT and (text in _PLAIN or not set(text) & set("eE"))
        if is_text or node.style in ("'", '"', "|", ">"):
            return text
        if text in _PLAIN:
            return _PLAIN[text]
        if not _NUMBER.fullmatch(text):
            return text
        try:
            number = float(text) if set(text) & set(".eE") else int(text)
        except ValueError:  # more digits than Python reads
            number = math.inf
        if isinstance(number, float) and math.isinf(number):
            raise NoDocument(f"{self._name}:{line}: This number is too large.")
        return number


def place_of(pointer: str) -> str:
    """Return a JSON pointer as people write it: `steps[2].config.expression`."""
    place = ""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        place += f"[{name}]" if name.isdecimal() else f".{name}" if place else name
    return place


def write_yaml(value: Mapping[str, Any]) -> str:
    """Return a document as YAML, which `read_document` reads back unchanged."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Quotes ambiguous texts, and writes long ones as lines."""

        def ignore_aliases(self, data: Any) -> bool:
            """Write each value in full, without aliases."""
            return True

    def text(dumper: Any, data: str) -> yaml.ScalarNode:
        lines = "|" if "\n" in data.rstrip("\n") else None
        return dumper.represent_scalar(_TEXT, data, style='"' if set(data) & _BREAKS else lines)

    Dumper.add_representer(str, text)
    number = re.compile(f"^(?:{_NUMBER.pattern})$")
    untyped: Any = Dumper
    untyped.add_implicit_resolver(f"{_TAGS}float", number, None)
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100)
