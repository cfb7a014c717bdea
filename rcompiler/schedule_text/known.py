"""Which names a text declares, and those that it uses without."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field

from rcompiler.schedule_text.cursor import Cursor

_NUMBERS = re.compile(r"\{[^{}]*\}|\d+")
_OF_PROGRAM = ("buffer", "event")
_ARTICLES = {"event": "an event"}


@dataclass
class _Declared:
    """Names of a kind. shapes: of all names; families: of those with numbers that move."""

    names: set[str] = field(default_factory=set)
    shapes: set[str] = field(default_factory=set)
    families: set[str] = field(default_factory=set)
    all_known: bool = False


class Names:
    """Names by kind; buffers and events are those of one program.

    In repeats it is not looked at which numbers a name has in which iteration: the verifier does.
    """

    def __init__(self) -> None:
        self._declared: dict[str, _Declared] = {}
        self._used: list[tuple[str, _Declared, str, int, int]] = []

    def begin_program(self) -> None:
        """Of another program."""
        for kind in _OF_PROGRAM:
            self._declared[kind] = _Declared()

    def all_known(self, kind: str) -> None:
        """Take every name of a kind for declared."""
        self._of(kind).all_known = True

    def declared(self, cursor: Cursor, kind: str) -> str:
        """The name that stands at the cursor, which a statement gives."""
        name = cursor.name(_ARTICLES.get(kind, f"a {kind}"))
        found, shape = self._of(kind), _shape(name)
        found.names.add(name)
        found.shapes.add(shape)
        if "{" in name:
            found.families.add(shape)
        return name

    def used(self, cursor: Cursor, kind: str, depth: int = 0) -> str:
        """The name that stands at the cursor, which a statement uses, as a symbol.

        Args:
            cursor: where it stands.
            kind: what has the name.
            depth: the repeats around it.
        """
        at, name = cursor.at, cursor.name(_ARTICLES.get(kind, f"a {kind}"))
        self._used.append((kind, self._of(kind), name, at, depth))
        return f'@"{name}"'

    def check(self, cursor: Cursor) -> None:
        """Raises ScheduleTextError for the first name that is used and nowhere declared."""
        for kind, declared, name, at, depth in self._used:
            if declared.all_known or name in declared.names or _shape(name) in declared.families:
                continue
            if depth and "{" in name and _shape(name) in declared.shapes:
                continue
            near = difflib.get_close_matches(name, declared.names, 1)
            where = "of this program" if kind in _OF_PROGRAM else "of this text"
            meant = f"write '{near[0]}', or declare it" if near else f"declare the {kind}"
            raise cursor.wrong(f"'{name}' is no {kind} {where}", meant, at)

    def _of(self, kind: str) -> _Declared:
        return self._declared.setdefault(kind, _Declared())


def _shape(name: str) -> str:
    """A name without its numbers."""
    return _NUMBERS.sub("#", name)
