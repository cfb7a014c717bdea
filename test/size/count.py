"""Lines and files of the product, which is all Python that is no test.

A line is what `wc -l` counts; one of code has more than a comment or a part of a docstring.
Installed is what the wheel has. A file of fewer than 40 lines is small: few of them have a
responsibility of their own. One that is an `__init__.py` and has a docstring only marks a folder
as a package, and is counted apart.
"""

from __future__ import annotations

import ast
import io
import tokenize
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SMALL = 40  # lines; fewer are a small file's
LINKED = "rcompiler"  # the package that the folders at the root are linked into
_ELSEWHERE = ("test", "build")
_NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip


@dataclass(frozen=True)
class File:
    """path: from the root, not through a link. text: all of it."""

    path: Path
    text: bytes
    lines: int
    installed: bool
    marker: bool

    @property
    def small(self) -> bool:
        return self.lines < SMALL and not self.marker

    @cached_property
    def code(self) -> int:
        """Lines of code."""
        return code_lines(self.text.decode())

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
        installed = _in_wheel(inside, packages, root)
        found.append(File(inside, text, text.count(b"\n"), installed, marker))
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


def code_lines(text: str) -> int:
    """Lines of a module without comments, docstrings and blank ones."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            text_of_it = node.body[0]
            lines.difference_update(range(text_of_it.lineno, (text_of_it.end_lineno or 0) + 1))
    return len(lines)
