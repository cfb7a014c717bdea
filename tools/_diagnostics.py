"""MLIR's diagnostics: shown like a compiler's, or checked against `expected-...` comments."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.errors import ScheduleTextError

_EXPECTED = re.compile(
    r"//\s*expected-(error|warning|remark|note)\s*"
    r"(?:@([+-]\d+|above|below|unknown))?\s*\{\{(.*?)\}\}"
)
_UNKNOWN = 0

Origin = Callable[[int, int], tuple[int, int]]
"""Line and column in the input, of those in the text that the parser reads."""


@dataclass(frozen=True)
class _Seen:
    severity: str
    line: int  # _UNKNOWN if the location names none
    message: str


class Diagnostics:
    """The diagnostics of one module."""

    def __init__(self, input_name: str, echo: bool) -> None:
        """input_name: what the parser's `-` is called; echo: print each to standard error."""
        self._input, self._echo = input_name, echo
        self._seen: list[_Seen] = []
        self.origin: Origin = lambda line, column: (line, column)

    def attach(self, context: ir.Context) -> None:
        """Take over all of the context's diagnostics."""
        context.emit_error_diagnostics = True
        context.attach_diagnostic_handler(self._handle)

    def explain(self, error: ir.MLIRError) -> None:
        """Show an exception of the bindings, unless a diagnostic has said it already."""
        if not any(seen.severity == "error" for seen in self._seen):
            self._record("error", f"{self._input}:", _UNKNOWN, str(error).strip())

    def refuse(self, error: ScheduleTextError, above: int) -> None:
        """Show an error in a text that MLIR does not come to see. above: lines in front of it."""
        line = above + error.line
        self._record("error", f"{self._input}:{line}:{error.column}:", line, error.reason)

    def _handle(self, diagnostic: ir.Diagnostic) -> bool:
        place, line = _place(diagnostic.location, self._input, self.origin)
        self._record(diagnostic.severity.name.lower(), place, line, diagnostic.message)
        for note in diagnostic.notes:
            if not note.message.startswith("see current operation"):
                self._handle(note)
        return True

    def _record(self, severity: str, place: str, line: int, message: str) -> None:
        self._seen.append(_Seen(severity, line, message))
        if self._echo:
            sys.stdout.flush()
            print(f"{place} {severity}: {message}", file=sys.stderr, flush=True)

    def check(self, text: str, first_line: int) -> int:
        """0 if the diagnostics are exactly those that the comments in `text` expect, else 1.

        first_line: lines of the file before `text`.
        """
        left = list(self._seen)
        complaints = []
        for number, line in enumerate(text.splitlines(), first_line + 1):
            for severity, where, message in _EXPECTED.findall(line):
                at = _line(number, where)
                hit = next((s for s in left if _matches(s, severity, at, message)), None)
                if hit:
                    left.remove(hit)
                else:
                    complaints.append(f"{at}: expected {severity} not produced: {message}")
        complaints += [f"{s.line}: unexpected {s.severity}: {s.message}" for s in left]
        for complaint in complaints:
            print(f"{self._input}:{complaint}", file=sys.stderr)
        return 1 if complaints else 0


def _matches(seen: _Seen, severity: str, line: int, message: str) -> bool:
    return seen.severity == severity and seen.line == line and message in seen.message


def _line(number: int, where: str) -> int:
    """The line that an expectation on line `number` is about."""
    match where:
        case "above":
            return number - 1
        case "below":
            return number + 1
        case "unknown":
            return _UNKNOWN
    return number + int(where or 0)


def _place(location: ir.Location, input_name: str, origin: Origin) -> tuple[str, int]:
    """`file:line:column:` or the name of an op that has one; and the line."""
    match location:
        case ir.FileLineColLoc():
            file = input_name if location.filename == "-" else location.filename
            if location.start_line:
                line, column = location.start_line, location.start_col
                if location.filename == "-":
                    line, column = origin(line, column)
                return f"{file}:{line}:{column}:", line
            return f"{file}:", _UNKNOWN
        case ir.NameLoc():
            place, line = _place(location.child_loc, input_name, origin)
            return f"{place} '{location.name_str}':", line
        case ir.CallSiteLoc():
            return _place(location.callee, input_name, origin)
        case ir.FusedLoc():
            places = [_place(part, input_name, origin) for part in location.locations]
            return next((p for p in places if p[1]), places[0]) if places else (f"{input_name}:", 0)
    return f"{input_name}:", _UNKNOWN
