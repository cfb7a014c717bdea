"""Lines of MLIR that are made of a text in the schedule form, and where each comes from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rcompiler.schedule_text.folding import joined

Place = tuple[int, int | None]
"""A line and a column, from 1; None for the column that MLIR says."""

_POSITION = re.compile(r'(?:loc\()?"-":(\d+):(\d+)\)?')
_TITLE = re.compile(r"^Unable to parse module assembly:\s*error: ")


@dataclass(frozen=True)
class MlirForm:
    """A module as MLIR reads it. places: where in the schedule form each line comes from."""

    text: str
    places: tuple[Place, ...]

    def place(self, line: int, column: int) -> tuple[int, int]:
        """The place in the schedule form of one in the text."""
        if not 1 <= line <= len(self.places):
            return line, column
        there, at = self.places[line - 1]
        return there, at or column

    def explained(self, message: str) -> str:
        """A message of MLIR with the places of the schedule form."""

        def place(match: re.Match[str]) -> str:
            line, column = self.place(int(match[1]), int(match[2]))
            return f"line {line}, column {column}"

        return _POSITION.sub(place, _TITLE.sub("", message))


class Lines:
    """Some lines, in order."""

    def __init__(self) -> None:
        self._found: list[tuple[str, Place]] = []

    def __len__(self) -> int:
        return len(self._found)

    def statement(self, line: str, place: Place) -> None:
        """One line, of what begins at a place."""
        self._found.append((line, place))

    def copied(self, text: str, place: Place) -> None:
        """Text that stands in the schedule form from a place on; place: of its first line."""
        for number, line in enumerate(joined(text).split("\n")):
            self._found.append((line, (place[0] + number, None) if number else place))

    def add(self, other: Lines) -> None:
        """The lines of others behind these."""
        self._found += other._found

    def form(self) -> MlirForm:
        """All of them."""
        text = "".join(f"{line}\n" for line, _ in self._found)
        return MlirForm(text, tuple(place for _, place in self._found))


def op_line(op: str, fields: Mapping[str, object], given: str) -> str:
    """An op of vdevice that has no region.

    Args:
        op: its name, without the dialect.
        fields: its attributes.
        given: more of them, as `Cursor.attributes` has them.
    """
    attributes = dictionary(fields, given)
    return f'"vdevice.{op}"() {attributes} : () -> ()'


def dictionary(fields: Mapping[str, object], given: str) -> str:
    """Attributes as MLIR writes them; nothing where there are none. Args: see `op_line`."""
    each = [f"{name} = {value}" for name, value in fields.items()]
    each += [flat(given)] if given else []
    return f"{{{', '.join(each)}}}" if each else ""


def flat(text: str) -> str:
    """Text of MLIR on one line."""
    return " ".join(line.strip() for line in joined(text).split("\n")) if "\n" in text else text
