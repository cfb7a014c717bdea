"""Messages of the compiler as the command line says things.

The compiler speaks to callers of its Python functions, whose remedies are keywords; here they are
options. What MLIR says of a text has places in a file that it calls "-", and notes that print ops.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_KEYWORDS = "target|device|policy|kernels|roller_policy|eus|tune|roots|precision"
# Where MLIR's notes about an op end: at a remedy of ours, or the end of the message.
_END = r"(?=; this is a defect|$)"


def _option(found: re.Match[str]) -> str:
    return f"--{found[1].replace('_', '-')}={found[2].strip(chr(39))}"


def _values(found: re.Match[str]) -> str:
    names = re.findall(r"'([^']*)': \.\.\.", found[1])
    return " ".join(f"--values={name}=FILE.npy" for name in names)


def _name(found: re.Match[str]) -> str:
    """Of an operator, and its place in a file that was read."""
    line, column = found[2] or "0", found[3]
    return f"'{found[1]}'" + (f" (line {line}, column {column})" if line != "0" else "")


def _place(found: re.Match[str]) -> str:
    """Line 0 is that of what was made, not read."""
    return f"line {found[1]}, column {found[2]}: " if found[1] != "0" else ""


_AT = r"(?:Unable to parse module assembly: )?(?:error: )?(?:loc\()?\"-\":(\d+):(\d+)\)?:? ?"
_NAMED = r"\bloc\(\"(?!-\")([^\"]+)\"(?:\(\"-\":(\d+):(\d+)\)|\(unknown\))?\)"
_OF_NOTES = "see current operation|Available dialects"
_RULES: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
    (r"Pass (?=shapes=)", "Give "),
    (r"\bshapes=\{'([^']*)': \(\.\.\.\)\}", r"--shapes=\1=DIMS (1x3x224x224, say)"),
    (r"\bshapes=\{'([^']*)': \.\.\.\}", r"--shapes=\1=N"),
    (r"\bbounds=\{'([^']*)': \.\.\.\}", r"--bounds=\1=N"),
    (r"\bmore than the (\d+) that bounds gives\b", r"more than the \1 that --bounds gives"),
    (r"\bshapes\['([^']*)'\] is", r"--shapes=\1 is"),
    (r"\bpass compile_onnx the value", "give the value"),
    (r"\bPass compile_onnx the most iterations", "Give the most iterations"),
    (r"\bbounds=\{'([^']*)': \.\.\.\}", r"--bounds=\1=N"),
    (r"\bvalues=\{([^}]*)\}", _values),
    (r"\bor None for all\b", "or leave --eus out for all"),
    (r"\bleave (target|precision) out\b", r"leave --\1 out"),
    (rf"(?<![\w{{-])({_KEYWORDS})=('[^']*'|\d+)", _option),
    (r"(?<![\w-])roller_policy '", "roller-policy '"),
    (_NAMED, _name),
    (r"\bloc\(unknown\):? ?", ""),
    (_AT, _place),
    (rf"\s*\bnote: (?:line \d+, column \d+: )?(?:{_OF_NOTES}).*?{_END}", ""),
]


def on_the_command_line(message: str) -> str:
    """The same on one line, with options in the place of Python's keywords."""
    message = " ".join(message.split())
    for pattern, instead in _RULES:
        message = re.sub(pattern, instead, message)
    return message
