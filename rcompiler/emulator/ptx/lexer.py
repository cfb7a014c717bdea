"""PTX text to tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rcompiler.emulator.faults import UnsupportedPtx

# Words hold their dots: an opcode with its modifiers, a special register with its component.
_TOKEN = re.compile(
    r"""
      (?P<skip>\s+|//[^\n]*|/\*.*?\*/)
    | (?P<string>"[^"\n]*")
    | (?P<float>0[fF][0-9A-Fa-f]{8}(?!\w)|0[dD][0-9A-Fa-f]{16}(?!\w)|\d+\.\d*(?:[eE][-+]?\d+)?)
    | (?P<integer>0[xX][0-9A-Fa-f]+U?(?!\w)|\d+U?(?!\w))
    | (?P<word>[A-Za-z_$%][\w$]*(?:(?:\.|::)\w+)*)
    | (?P<directive>\.\w+(?:::\w+)*)
    | (?P<mark>[{}()\[\]<>,;:@!|=+\-])
    """,
    re.VERBOSE | re.DOTALL,
)
# Debugging directives end with their line, and say nothing about what is computed.
_DEBUG = re.compile(r"^\s*\.(?:loc|file)\b[^\n]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    line: int


def tokens(text: str) -> list[Token]:
    """The tokens of a module, an "end" token last. Raises UnsupportedPtx."""
    text = _DEBUG.sub("", text)
    found: list[Token] = []
    line, at = 1, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise UnsupportedPtx(f"unexpected character {text[at]!r}", line)
        if match.lastgroup != "skip":
            found.append(Token(str(match.lastgroup), match.group(), line))
        line += match.group().count("\n")
        at = match.end()
    found.append(Token("end", "", line))
    return found


class Tokens:
    """Tokens to be taken one after another."""

    def __init__(self, text: str) -> None:
        self._all, self._at = tokens(text), 0

    @property
    def next(self) -> Token:
        return self._all[self._at]

    def peek(self, ahead: int = 1) -> Token:
        return self._all[min(self._at + ahead, len(self._all) - 1)]

    def take(self, kind: str = "") -> Token:
        token = self.next
        if token.kind == "end":
            raise UnsupportedPtx("the text ends too early", token.line)
        if kind and token.kind != kind:
            raise UnsupportedPtx(f"expected a {kind}, found '{token.text}'", token.line)
        self._at += 1
        return token

    def at(self, text: str) -> bool:
        return self.next.text == text

    def accept(self, text: str) -> bool:
        if self.at(text):
            self._at += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        if not self.at(text):
            raise UnsupportedPtx(f"expected '{text}', found '{self.next.text}'", self.next.line)
        return self.take()

    def integer(self) -> int:
        """A number with its sign."""
        sign = -1 if self.accept("-") else 1
        token = self.take("integer")
        digits = token.text.rstrip("U")
        octal = digits[0] == "0" and digits.isdigit()
        try:
            return sign * int(digits, 8 if octal else 0)
        except ValueError:
            raise UnsupportedPtx(f"'{token.text}' is no number", token.line) from None

    def skip_past(self, text: str) -> None:
        while not self.at(text):
            self.take()
        self.take()
