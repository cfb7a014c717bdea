"""What all command-line programs share: option errors, one-line failures, tables."""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from rcompiler.errors import CompilerError
from rcompiler.support.installed import importable, is_compilers, own_version, without
from rcompiler.tools._wording import on_the_command_line

# For the help of tools that read or write it.
CACHE_HELP = (
    "RC_CACHE_DIR names the folder that keeps compiled objects, finished models, the measured "
    "record of this machine and the profile index; default: ~/.cache/rcompiler; empty "
    "(RC_CACHE_DIR=): none. RC_CACHE_MB: how many megabytes of the first two (8000). "
    "RC_CACHE_MODELS=0: no finished models. "
    "'python -m rcompiler doctor' says what is in use."
)


class Parser(argparse.ArgumentParser):
    """LLVM-style options, never abbreviated; a wrong one is a single line and exit code 2."""

    def __init__(self, prog: str, description: str, epilog: str | None = None) -> None:
        super().__init__(prog=prog, description=description, epilog=epilog, allow_abbrev=False)
        self.add_argument("--version", action=_Version, help="print the version, and exit")

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


class _Version(argparse.Action):
    """Looks the version up when it is asked for, not whenever options are read."""

    def __init__(self, **options: Any) -> None:
        super().__init__(nargs=0, default=argparse.SUPPRESS, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"{parser.prog} {own_version()}")
        parser.exit()


def guard(prog: str, body: Callable[[], int]) -> int:
    """Exit code of ``body``; what the user can mend becomes one line on standard error and 1."""
    try:
        code = body()
        sys.stdout.flush()
        return code
    except CompilerError as error:
        message = str(error)
    except ModuleNotFoundError as error:
        if error.name is None or not is_compilers(error.name):
            raise
        message = f"this {without([error.name])}"
    except BrokenPipeError:  # the reader of a pipe left: nothing more can be printed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    except MemoryError:
        message = "not enough memory"
    except KeyboardInterrupt:
        return 130
    complain(prog, message)
    return 1


def complain(prog: str, message: str) -> None:
    """One line on standard error."""
    print(f"{prog}: error: {on_the_command_line(message)}", file=sys.stderr)


def warn(prog: str, message: str) -> None:
    """The same of what is done nevertheless."""
    print(f"{prog}: warning: {' '.join(message.split())}", file=sys.stderr)


def report(prog: str, failures: Iterable[str]) -> int:
    """One line on standard error for each failure; the exit code that they make."""
    code = 0
    for failure in failures:
        complain(prog, failure)
        code = 1
    return code


def doing(what: str) -> None:
    """Tell who waits at a terminal what is being done; the next line takes its place."""
    if sys.stderr.isatty():
        print(f"{what} ...", end="\033[K\r", file=sys.stderr)


def terminal_width() -> int | None:
    """Characters of a line of the terminal that is printed to; None for a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def number(value: float | None, form: str) -> str:
    """A cell of a table; "-" for what was not measured."""
    return "-" if value is None else format(value, form)


def items(text: str) -> list[str]:
    """An argparse type: a list separated by commas, of one or more."""
    found = [item for item in text.split(",") if item]
    if not found:
        raise argparse.ArgumentTypeError("the list is empty")
    return found


def pattern(text: str) -> re.Pattern[str]:
    """An argparse type: a regular expression."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None


def timing_options(parser: argparse.ArgumentParser, per: str, rounds: int, block: float) -> None:
    """--rounds, --seconds and --json. per: what is timed for that long; block: default seconds."""
    parser.add_argument(
        "--rounds", type=positive, default=rounds, metavar="N", help=f"default: {rounds}"
    )
    parser.add_argument(
        "--seconds", type=seconds, default=block, metavar="S",
        help=f"timed seconds per {per}; default: {block:g}",
    )  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="write figures and their circumstances")


def check_writable(path: str | None) -> None:
    """OSError before the work for a file that could not be written after it; no path: no file."""
    if path:
        Path(path).open("a").close()


def positive(text: str) -> int:
    """An argparse type: an integer of at least 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return value


def several(text: str) -> tuple[int, ...]:
    """An argparse type: integers of at least 1 in order, each once, as 1+4+8 or 1..16+32."""
    try:
        ends = [part.partition("..") for part in text.split("+")]
        ranges = [
            range(int(low), int(high if is_range else low) + 1) for low, is_range, high in ends
        ]
    except ValueError:
        ranges = [range(0)]
    if not all(ranges) or min(map(min, ranges)) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of positive integers, as 1..16+32")
    return tuple(sorted({*itertools.chain(*ranges)}))


def seconds(text: str) -> float:
    """An argparse type: a number of seconds above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return value


def table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], stream: IO[str] | None = None
) -> None:
    """Print rows: drawn by rich on a terminal, aligned plain text elsewhere.

    Columns whose cells are all numbers (or "-") are right-aligned.
    """
    stream = stream or sys.stdout
    cells = [[str(cell) for cell in row] for row in rows]
    right = [all(_numeric(row[i]) for row in cells) for i in range(len(columns))]
    if stream.isatty() and importable("rich"):
        _rich(columns, cells, right, stream)
        return
    widths = [max(len(r[i]) for r in [list(columns), *cells]) for i in range(len(columns))]
    for row in [list(columns), *cells]:
        line = [
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        ]
        print("  ".join(line).rstrip(), file=stream)


def _rich(
    columns: Sequence[str], cells: list[list[str]], right: list[bool], stream: IO[str]
) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    drawn = Table()
    for column, is_right in zip(columns, right, strict=True):
        drawn.add_column(column, justify="right" if is_right else "left", overflow="fold")
    for row in cells:
        drawn.add_row(*map(escape, row))
    Console(file=stream).print(drawn)


def _numeric(cell: str) -> bool:
    try:
        float(cell.rstrip("%x"))
    except ValueError:
        return cell in ("", "-")
    return True
