"""Long lines of text that MLIR reads: folded at spaces, and strings of them as several.

MLIR takes a line end for a space anywhere but in a string. So strings that are too long are cut
into several, one behind the other, which is nothing that MLIR reads: `joined` makes one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from rcompiler.schedule_text.words import STRING

WIDTH = 120
_INDENT = 4  # of the lines that go on
_BEGIN = ("->", "ins(", "outs(", "attrs", "attributes", "iter_args(")
_NO_BRACKETS = re.compile(rf"{STRING}|->|[<>]=")
_WORD = re.compile(rf'(?:{STRING}|[^\s"])+')
_ADJACENT = re.compile(rf"//[^\n]*|{STRING}(?:[ \t]*\n\s*{STRING})*")
_BETWEEN = re.compile(r'"([ \t]*\n\s*)"')
_LEAST = 40  # characters of a string in front of a cut


def folded(line: str) -> list[str]:
    """A line as lines of at most WIDTH, as far as words are no longer."""
    if len(line) <= WIDTH:
        return [line]
    margin = len(line) - len(line.lstrip())
    lines: list[str] = []
    start, words = " " * margin, list[str]()
    for word in _WORD.findall(line):
        for number, piece in enumerate(_cut(word, WIDTH - margin - _INDENT)):
            while words and (number or len(start) + len(" ".join([*words, piece])) > WIDTH):
                taken = len(words) if number else _break([*words, piece])
                lines.append(start + " ".join(words[:taken]))
                start, words, number = " " * (margin + _INDENT), words[taken:], 0
            words.append(piece)
    return [*lines, start + " ".join(words)]


def _break(words: Sequence[str]) -> int:
    """How many words stay on a line that is full without the last one.

    So many that its second half ends in as few open brackets as it can, there behind a comma or in
    front of what one would expect at the beginning of a line, there as far right as it can.
    """
    taken, best, length, depth = len(words) - 1, (1 << 30, True), 0, 0
    for number, (word, following) in enumerate(pairwise(words), 1):
        length += len(word) + 1
        plain = _NO_BRACKETS.sub("", word)
        depth += sum(plain.count(c) for c in "([{<") - sum(plain.count(c) for c in ")]}>")
        if length > WIDTH // 2:
            found = depth, not (word.endswith(",") or following.startswith(_BEGIN))
            if found <= best:
                taken, best = number, found
    return taken


def _cut(word: str, room: int) -> Iterator[str]:
    """A word in pieces that fit, as far as the strings in it are what is long."""
    while len(word) > room:
        found = max(re.finditer(STRING, word), key=lambda m: len(m[0]), default=None)
        if found is None or len(found[0]) <= _LEAST:
            break
        at = _place(word, found.start() + 1, min(room - 1, found.end() - 2))
        if at is None:
            break
        yield word[:at] + '"'
        word = '"' + word[at:]
    yield word


def _place(word: str, first: int, last: int) -> int | None:
    """Where to cut a string between two places of it: behind a space if there is one, and in no
    escape.
    """
    space = word.rfind(" ", first + _LEAST, last)
    for at in range(space + 1 if space >= 0 else last, first + 1, -1):
        escape = word.rfind("\\", first, at)
        if escape < 0 or at - escape > 2:
            return at
    return None


def joined(text: str) -> str:
    """Strings that follow one another on lines of their own as one; all lines stay, behind it."""

    def join(match: re.Match[str]) -> str:
        found = match[0]
        if found.startswith("//") or "\n" not in found:
            return found
        return _BETWEEN.sub("", found) + "\n" * found.count("\n")

    return _ADJACENT.sub(join, text)
