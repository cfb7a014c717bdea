"""Lines and files of the product, which is all Python that is no test, folder by folder.

    python test/size            the figures, beside the most that they may be
    python test/size --record   what is found is the most from now on

A line is what `wc -l` counts. Installed is what the wheel has. A file of fewer than 40 lines is
small: few of them have a responsibility of their own. One that is an `__init__.py` and has a
docstring only marks a folder as a package, and is counted apart.
"""

from __future__ import annotations

import argparse
import ast
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from rcompiler.tools._command import Command
from rcompiler.tools._console import report, table

ROOT = Path(__file__).resolve().parents[2]
WATCHED = ("product", "installed", "small")  # figures that may not grow
MOST = Path(__file__).with_name("most.json")
SMALL = 40  # lines; fewer are a small file's
LINKED = "rcompiler"  # the package that the folders at the root are linked into
_ELSEWHERE = ("test", "build")


@dataclass(frozen=True)
class Figures:
    """product, installed: lines. small: files of few lines that are no markers; markers: files
    that only mark a package.
    """

    product: int
    installed: int
    small: int
    markers: int


@dataclass(frozen=True)
class File:
    """path: from the root, not through a link."""

    path: Path
    lines: int
    installed: bool
    marker: bool

    @property
    def small(self) -> bool:
        return self.lines < SMALL and not self.marker

    @property
    def folder(self) -> str:
        """Of the first two of its path, where it has so many."""
        return "/".join(self.path.parts[:-1][:2]) or "."


def files(root: Path = ROOT) -> list[File]:
    """All of the product's, in order of their paths."""
    settings = tomllib.loads((root / "pyproject.toml").read_text())
    packages = settings["tool"]["setuptools"]["packages"]["find"]
    found = []
    for path in sorted(_paths(root, root)):
        text = path.read_bytes()
        inside = path.relative_to(root)
        marker = path.name == "__init__.py" and len(text.splitlines()) < SMALL and _marks(text)
        found.append(File(inside, text.count(b"\n"), _in_wheel(inside, packages, root), marker))
    return found


def _paths(folder: Path, root: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.is_symlink() or entry.name.startswith("."):
            continue
        if entry.is_dir():
            if folder != root or entry.name not in _ELSEWHERE:
                yield from _paths(entry, root)
        elif entry.suffix == ".py":
            yield entry


def _marks(text: bytes) -> bool:
    """Whether a module has a docstring at most."""
    body = ast.parse(text).body
    return all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in body)


def _in_wheel(path: Path, packages: Mapping[str, Sequence[str]], root: Path) -> bool:
    """By what pyproject.toml says of packages. Some folders at the root are linked into one."""
    folders = path.parts[:-1]
    if folders[:1] != (LINKED,) and not (folders and (root / LINKED / folders[0]).is_symlink()):
        return False
    package = ".".join(folders if folders[:1] == (LINKED,) else (LINKED, *folders))
    taken, left_out = (
        any(fnmatchcase(package, pattern) for pattern in packages.get(kind, ()))
        for kind in ("include", "exclude")
    )
    return bool(folders) and taken and not left_out


def figures(found: Sequence[File]) -> Figures:
    """Of some of the files."""
    return Figures(
        product=sum(file.lines for file in found),
        installed=sum(file.lines for file in found if file.installed),
        small=sum(file.small for file in found),
        markers=sum(file.marker for file in found),
    )


def too_large(found: Figures, most: Mapping[str, int]) -> list[str]:
    """A line for each figure that is more than it may be."""
    return [
        f"{name}: {figure}, which is {figure - most[name]} more than test/size/{MOST.name} allows"
        for name, figure in _watched(found).items()
        if figure > most[name]
    ]


def _watched(found: Figures) -> dict[str, int]:
    return {name: figure for name, figure in asdict(found).items() if name in WATCHED}


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a figure is larger than it may be."""
    found = files()
    folders = sorted({file.folder for file in found})
    rows = []
    for folder in folders:
        inside = [file for file in found if file.folder == folder]
        rows.append((folder, len(inside), *asdict(figures(inside)).values()))
    all_of_it = figures(found)
    rows.append(("all", len(found), *asdict(all_of_it).values()))
    if options.record:
        MOST.write_text(json.dumps(_watched(all_of_it), indent=1) + "\n")
    most = json.loads(MOST.read_text())
    rows.append(("at most", "", *most.values(), ""))
    table(("folder", "files", "lines", "installed", "small", "markers"), rows)
    if options.small:
        print(*(f"{file.lines:3} {file.path}" for file in found if file.small), sep="\n")
    return report("size", too_large(all_of_it, most))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--small", action="store_true", help="name the small files, too")
    parser.add_argument("--record", action="store_true", help="what is found is allowed")


main = Command("size", __doc__, _options, _run)
