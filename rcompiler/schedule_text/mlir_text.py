"""What MLIR has printed, read as text: the items of a module, ops of ours and their attributes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rcompiler.errors import InvalidModel
from rcompiler.schedule_text.words import LETTERS, STRING, TYPE, written_name

_TOKEN = re.compile(rf"{STRING}|->|[<>=]=|[^\"()\[\]{{}}<>,=-]+|.", re.S)
_OPEN, _CLOSE = "([{<", ")]}>"
_MODULE = re.compile(
    rf"module(?P<name> @(?:{STRING}|\S+))?(?: attributes (?P<attributes>\{{.*\}}))? \{{$"
)
_OP = re.compile(r'\s*"(?P<name>[a-z_]+\.[a-z_]+)"\(\)(?P<rest>.*)$')
_TYPELESS = re.compile(
    rf"(?P<other>{STRING})|(?<![\w.#%@])"
    r"(?:(?P<whole>-?\d+) : i64|(?P<real>-?\d+\.\d+(?:[eE][-+]?\d+)?) : f64)\b"
)

UNIT = "unit"
"""The value of an attribute that is only there."""

_INTEGER = re.compile(r"(\d+) : i64")
_STEPS = re.compile(r"array<i64: (-?\d+(?:, -?\d+)*)>")
_LIST = re.compile(r"\[(.*)\]", re.S)
_QUOTED = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_SYMBOL = re.compile(rf"@({STRING}|[A-Za-z_][\w$.]*)", re.ASCII)
_TENSOR = re.compile(rf"tensor<({TYPE.pattern})>", re.ASCII)


class Unusual(Exception):
    """Text that the schedule form has no words for, and that stays as MLIR has it."""


@dataclass(frozen=True)
class ModuleText:
    """A module by its text.

    head: what stands in front of it: the names of maps. name: with its `@`, "" for none.
    attributes: a dictionary, "" for none. items: the lines of each op in it, without indentation.
    tail: what stands behind it.
    """

    head: list[str]
    name: str
    attributes: str
    items: list[list[str]]
    tail: list[str]

    @staticmethod
    def of(text: str) -> ModuleText:
        """Raises InvalidModel: it is not the text of one module as MLIR prints it."""
        lines = text.rstrip("\n").split("\n")
        start = next((k for k, line in enumerate(lines) if _MODULE.match(line)), None)
        end = next((k for k, line in enumerate(lines) if line == "}"), None)
        if start is None or end is None:
            raise InvalidModel(
                "the text is not that of a module as MLIR prints it; print it with rc-opt FILE.mlir"
            )
        found = _MODULE.match(lines[start])
        assert found
        items: list[list[str]] = []
        for line in lines[start + 1 : end]:
            line = line.removeprefix("  ")
            if line[:1] not in (" ", "}", "^", "") or not items:
                items.append([])
            items[-1].append(line)
        name, attributes = (found["name"] or "").strip(), found["attributes"] or ""
        return ModuleText(lines[:start], name, attributes, items, lines[end + 1 :])


@dataclass(frozen=True)
class OpText:
    """An op of ours in generic form, without operands and results.

    name: with its dialect. body: the ops of its region; None without a region.
    """

    name: str
    attributes: dict[str, str]
    body: list[OpText] | None = None


def op_of(lines: Sequence[str]) -> OpText:
    """The op that some lines are. Raises Unusual for any other text."""
    reader = iter(lines)
    found = _op(next(reader), reader)
    if next(reader, None) is not None:
        raise Unusual
    return found


def _op(line: str, more: Iterator[str]) -> OpText:
    match = _OP.match(line)
    if match is None:
        raise Unusual
    if match["rest"] != " ({":
        return OpText(match["name"], _ended(match["rest"]))
    body: list[OpText] = []
    for inner in more:
        text = inner.lstrip()
        if text.startswith("})"):
            return OpText(match["name"], _ended(text[2:]), body)
        if text != "^bb0:":
            body.append(_op(inner, more))
    raise Unusual


def _ended(rest: str) -> dict[str, str]:
    """The attributes of an op, from what stands behind its operands or its region."""
    dictionary = rest.removesuffix(" : () -> ()")
    if len(dictionary) == len(rest):
        raise Unusual
    return attributes_of(dictionary.strip()) if dictionary.strip() else {}


class Attributes:
    """The attributes of an op, taken one by one: what is left has no word of its own.

    Each method raises Unusual for one that is not there, or is of another form.
    """

    def __init__(self, attributes: Mapping[str, str]) -> None:
        self._left = dict(attributes)

    @classmethod
    def of(cls, dictionary: str) -> Attributes:
        """Those of `{...}`."""
        return cls(attributes_of(dictionary))

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str) -> str:
        """One as MLIR has it."""
        if name not in self._left:
            raise Unusual
        return self._left.pop(name)

    def _matched(self, pattern: re.Pattern[str], name: str) -> str:
        found = pattern.fullmatch(self.take(name))
        if found is None:
            raise Unusual
        return found[1]

    def text(self, name: str) -> str:
        """The inside of a string, with its escapes."""
        return self._matched(_QUOTED, name)

    def string(self, name: str) -> str:
        """A string that is a name, as it is written."""
        return written_name(self.text(name))

    def symbol(self, name: str) -> str:
        """A symbol, as it is written."""
        return written_name(self._matched(_SYMBOL, name).strip('"'))

    def entries(self, name: str) -> list[str]:
        """The entries of `[...]`."""
        return entries(self._matched(_LIST, name))

    def symbols(self, name: str) -> list[str]:
        """A list of symbols, as they are written."""
        found = [_SYMBOL.fullmatch(entry) for entry in self.entries(name)]
        if not all(found):
            raise Unusual
        return [written_name(match[1].strip('"')) for match in found if match]

    def type(self, name: str) -> str:
        """What stands in `tensor<...>`."""
        return self._matched(_TENSOR, name)

    def integer(self, name: str) -> int:
        """An i64 of at least 0."""
        return int(self._matched(_INTEGER, name))

    def moving(self, name: str, depth: int) -> str:
        """An integer and how it moves in the repeats around it, `depth` of them."""
        value, steps = self.moving_integer(name, depth)
        return f"{value}{steps}"

    def moving_integer(self, name: str, depth: int) -> tuple[int, str]:
        """The same as the integer and the text of its steps."""
        value, key = self.integer(name), f"{name}_steps"
        if key not in self._left:
            return value, ""
        steps = [int(step) for step in self._matched(_STEPS, key).split(", ")]
        if len(steps) != depth:
            raise Unusual
        terms = [
            f" {'-' if step < 0 else '+'} {abs(step)}{letter}"
            for step, letter in zip(steps, LETTERS, strict=False)
            if step
        ]
        return value, "".join(terms) or f" + 0{LETTERS[0]}"

    def rest(self) -> str:
        """What was not taken, as MLIR has it."""
        if not self._left:
            return ""
        each = [k if v == UNIT else f"{k} = {v}" for k, v in self._left.items()]
        self._left = {}
        return f" attributes {without_types('{' + ', '.join(each) + '}')}"


def attributes_of(dictionary: str) -> dict[str, str]:
    """The entries of `{...}` by their names, as text; UNIT for one that is only there.

    Raises Unusual for text that is no dictionary.
    """
    if not (dictionary.startswith("{") and dictionary.endswith("}")):
        raise Unusual
    found = {}
    for entry in entries(dictionary[1:-1]):
        name, there, value = entry.partition(" = ")
        found[name] = value if there else UNIT
    return found


def entries(text: str) -> list[str]:
    """The parts of a list between its commas, those inside of brackets left alone.

    Raises Unusual where brackets do not match.
    """
    found, depth, start = [], 0, 0
    for token in _TOKEN.finditer(text):
        what = token[0]
        if what in _OPEN:
            depth += 1
        elif what in _CLOSE:
            depth -= 1
            if depth < 0:
                raise Unusual
        elif what == "," and not depth:
            found.append(text[start : token.start()].strip())
            start = token.end()
    if depth:
        raise Unusual
    last = text[start:].strip()
    return [*found, last] if last else found


def without_types(text: str) -> str:
    """Attributes without the types that MLIR takes numbers to have: i64 and f64."""
    return _TYPELESS.sub(lambda match: match["other"] or match["whole"] or match["real"], text)
