"""A place in a text of the schedule form: what stands there, or an error that says where."""

from __future__ import annotations

import re
from bisect import bisect_right

from rcompiler.errors import ScheduleTextError
from rcompiler.schedule_text.words import LARGEST, NAME, SPACE, STRING, TYPE

_WORD = re.compile(r"[A-Za-z_]\w*|\.\.|->|>=|\S", re.ASCII)
_SHOWN = re.compile(r"\w[\w$.]{0,39}|\.\.|->|>=|\S")  # of a token, in a message
_NUMBER = re.compile(r"\d+", re.ASCII)
_ALIAS = re.compile(r"#[A-Za-z_][\w$]*", re.ASCII)
_QUOTED = re.compile(STRING)
_BRACKET = re.compile(rf"//[^\n]*|{STRING}|->|[<>=]=|[()\[\]{{}}<>]|[^\"/()\[\]{{}}<>=-]+|.", re.S)
_COMMENT = re.compile(rf"(?P<string>{STRING})|//[^\n]*")
_PAIRS = {"(": ")", "[": "]", "{": "}", "<": ">"}


class Cursor:
    """Goes through a text. at: the place of the next token, behind space and comments."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._skip()

    def _skip(self) -> None:
        found = SPACE.match(self.text, self.at)
        assert found
        self.at = found.end()

    @property
    def ended(self) -> bool:
        return self.at >= len(self.text)

    def place(self, at: int | None = None) -> tuple[int, int]:
        """Line and column, from 1, of a place in the text; by default of this one."""
        at = self.at if at is None else at
        line = bisect_right(self._starts, at)
        return line, at - self._starts[line - 1] + 1

    def wrong(self, reason: str, remedy: str, at: int | None = None) -> ScheduleTextError:
        """An error at a place; by default at this one."""
        return ScheduleTextError(f"{reason}; {remedy}", *self.place(at))

    def here(self) -> str:
        """The token that stands here, for a message."""
        found = _SHOWN.match(self.text, self.at)
        return f"'{found[0]}'" if found else "the end of the text"

    def expected(self, what: str, remedy: str) -> ScheduleTextError:
        """An error that something else stands here."""
        return self.wrong(f"expected {what}, not {self.here()}", remedy)

    def sees(self, word: str) -> bool:
        """Whether a word or sign stands here."""
        found = _WORD.match(self.text, self.at)
        return found is not None and found[0] == word

    def takes(self, word: str) -> bool:
        """Go behind a word or sign if it stands here; whether it did."""
        if not self.sees(word):
            return False
        self.at += len(word)
        self._skip()
        return True

    def expect(self, word: str, remedy: str) -> None:
        """Go behind a word or sign that must stand here."""
        if not self.takes(word):
            raise self.expected(f"'{word}'", remedy)

    def _take(self, pattern: re.Pattern[str], what: str, remedy: str) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self.expected(what, remedy)
        self.at = found.end()
        self._skip()
        return found[0]

    def word(self, what: str, remedy: str) -> str:
        """A word that must stand here. Args: what: which it may be."""
        return self._take(re.compile(r"[A-Za-z_]\w*", re.ASCII), what, remedy)

    def name(self, of: str) -> str:
        """A name that must stand here, with MLIR's escapes. Args: of: what has it."""
        remedy = "write other characters than letters, digits, _, $ and . between quotes"
        if self.text.startswith('"', self.at):
            return self._take(_QUOTED, f"the name of {of}", "end it with a quote")[1:-1]
        return self._take(NAME, f"the name of {of}", remedy)

    def number(self, what: str, least: int = 0) -> int:
        """A number that must stand here. Args: what: what it is; least: that it may be."""
        at = self.at
        remedy = f"write a whole number from {least} to 2^62"
        value = int(self._take(_NUMBER, what, remedy).lstrip("0")[:30] or "0")
        if not least <= value <= LARGEST:
            raise self.wrong(f"{what} is out of range", remedy, at)
        return value

    def type(self) -> str:
        """What stands in `tensor<...>`."""
        return self._take(TYPE, "a type", "write sizes and a type of elements, as in 4x8xf32")

    def jump(self, at: int) -> None:
        """Go to another place, and behind the space there."""
        self.at = at
        self._skip()

    def value(self) -> str:
        """A value as MLIR writes it: a word and brackets, or `#` and a name."""
        remedy = "write dense<...>, dense_resource<...> or #NAME, or leave '=' out"
        if self.sees("#"):
            return self._take(_ALIAS, "a name behind #", remedy)
        return self.word("a value", remedy) + self.bracketed("<")

    def attributes(self) -> tuple[str, tuple[int, int]]:
        """Attributes in MLIR's form, without their braces, and where they begin; "" for none."""
        place = self.place()
        if not self.takes("attributes"):
            return "", place
        return self.bracketed("{")[1:-1].strip(), place

    def bracketed(self, opening: str) -> str:
        """What stands between brackets, with them and without comments.

        Args: opening: the bracket that must be here.
        """
        if not self.text.startswith(opening, self.at):
            raise self.expected(f"'{opening}'", f"put it between {opening} and {_PAIRS[opening]}")
        start, open_ = self.at, list[tuple[str, int]]()
        for token in _BRACKET.finditer(self.text, start):
            what = token[0]
            if what in _PAIRS:
                open_.append((what, token.start()))
            elif what in (")", "]", "}", ">"):
                last, at = open_.pop()
                if what != _PAIRS[last]:
                    reason = f"expected '{_PAIRS[last]}', not '{what}'"
                    remedy = f"close the '{last}' of line {self.place(at)[0]}"
                    raise self.wrong(reason, remedy, token.start())
            if not open_:
                self.at = token.end()
                self._skip()
                return _COMMENT.sub(lambda m: m["string"] or "", self.text[start : token.end()])
        raise self.wrong(f"'{opening}' is not closed", f"close it with '{_PAIRS[opening]}'", start)
