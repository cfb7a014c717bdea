"""What a program is: its options, and its work on what they say."""

from __future__ import annotations

import argparse
import ast
import importlib
import pkgutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from rcompiler.tools._console import Parser, check_writable, guard


class Misused(Exception):
    """Options that do not go together; the message says which."""


@dataclass(frozen=True)
class Command:
    """A program; to be called as its `main`.

    name: of the program, or of the module that is one. text: its first paragraph describes the
    program. options: adds them to a parser. work: with what they say; gives the exit code, and may
    raise Misused. writes: options that name files which are written after the work, and have to be
    writable before. epilog: of --help. intermixed: whether arguments may follow options.
    """

    name: str
    text: str | None
    options: Callable[[argparse.ArgumentParser], None]
    work: Callable[[argparse.Namespace], int]
    writes: tuple[str, ...] = ("json",)
    epilog: str | None = None
    intermixed: bool = False

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """Exit code: that of the work (0 success), 1 a failure, 130 interrupted; argparse exits
        with 2 for wrong arguments. argv: by default those of the process.
        """
        parser = self._parser()
        given = self._parsed(parser, argv)

        def work() -> int:
            for option in self.writes:
                check_writable(getattr(given, option, None))
            return self.work(given)

        try:
            return guard(parser.prog, work)
        except Misused as error:
            parser.error(str(error))

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """What the work is given for these arguments."""
        return self._parsed(self._parser(), argv)

    def _parsed(self, parser: Parser, argv: Sequence[str] | None) -> argparse.Namespace:
        return (parser.parse_intermixed_args if self.intermixed else parser.parse_args)(argv)

    def _parser(self) -> Parser:
        name = self.name if " " in self.name else self.name.rpartition(".")[2]
        words = " ".join((self.text or "").partition("\n\n")[0].split())
        words = words.removeprefix(f"{name.split()[-1]}: ")
        parser = Parser(name, words[:1].upper() + words[1:], self.epilog)
        self.options(parser)
        return parser


def run_one_of(package: ModuleType, prog: str, argv: Sequence[str] | None = None) -> int:
    """The exit code of the module of a package that the first argument names: of its `main` with
    the other arguments. Without one, all are listed.

    prog: how the package is called.
    """
    name, *rest = [*(sys.argv[1:] if argv is None else argv)] or ["--help"]
    modules = [m for m in pkgutil.iter_modules(package.__path__) if not m.ispkg]
    known = [m.name for m in modules if m.name[0].isalpha()]
    if name in known:
        code: int = importlib.import_module(f"{package.__name__}.{name}").main(rest)
        return code
    if name not in ("-h", "--help"):
        print(f"{prog}: there is no {name!r}; see {prog} --help", file=sys.stderr)
        return 2
    print(f"usage: {prog} NAME ... (NAME --help: its options)\n")
    for name in known:
        print(f"  {name:22}{summary(Path(package.__path__[0], f'{name}.py'))}")
    return 0


def summary(path: Path) -> str:
    """What the first line of a module says, after its name; that is read, not run: a module may
    import the compiler."""
    words, *_ = (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines() or [""]
    return words.removeprefix(f"{path.stem.replace('_', '-')}: ")
