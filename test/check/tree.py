"""The files of a checkout as they lie there: a hash of each, and the commit they are closest to."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_NO_SOURCES = {"build", "dist", "__pycache__"}


@dataclass(frozen=True)
class Tree:
    """The files that git knows or would take, changed or not.

    root: the folder. hashes: of the content of each file, by its path below the root; of a link,
    of where it leads. commit: of the checkout, with "-dirty" where files differ from it; None where
    git knows nothing of the folder.
    """

    root: Path
    hashes: Mapping[str, str]
    commit: str | None

    @cached_property
    def _links(self) -> dict[str, str]:
        """Folders of the tree that are links to others of it."""
        found = {}
        for path in self.hashes:
            entry = self.root / path
            if entry.is_symlink() and entry.is_dir():
                home = Path(os.path.normpath(entry.parent / os.readlink(entry)))
                if home.is_relative_to(self.root):
                    found[path] = str(home.relative_to(self.root))
        return found

    def real(self, path: str) -> str:
        """The path below the root that is not through a link: 'dialects/x.py' is what
        'rcompiler/dialects/x.py' names."""
        for link, home in self._links.items():
            if path == link or path.startswith(link + "/"):
                return home + path[len(link) :]
        return path

    @cached_property
    def folders(self) -> frozenset[str]:
        """All folders with files below them; the root is '.'."""
        return frozenset(str(parent) for path in self.hashes for parent in Path(path).parents)

    def below(self, folder: str) -> set[str]:
        """The files in a folder and in those below it."""
        return {p for p in self.hashes if folder == "." or p.startswith(folder + "/")}

    def digest(self, paths: Iterable[str]) -> str:
        """One hash of the names and contents of some files."""
        lines = "".join(f"{self.hashes[path]} {path}\n" for path in sorted({*paths}))
        return hashlib.sha256(lines.encode()).hexdigest()


def read(root: Path = ROOT) -> Tree:
    """The tree in a folder: by git where it is the top of a checkout, else by a walk."""
    top = _git(root, "rev-parse", "--show-toplevel")
    listed = None
    if top is not None and Path(top.strip()).resolve() == root.resolve():
        listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed is None:
        return Tree(root, _hashes(root, _walk(root)), None)
    names = {name for name in listed.split("\0") if name and os.path.lexists(root / name)}
    found = _git(root, "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*")
    return Tree(root, _hashes(root, names), found.strip() if found else None)


def changed_since(base: str, root: Path = ROOT) -> set[str] | None:
    """The files that differ from a commit, new ones and those that are gone among them; None where
    git does not know the commit.
    """
    differing = _git(root, "diff", "--name-only", "-z", "--no-renames", base, "--")
    new = _git(root, "ls-files", "-z", "--others", "--exclude-standard")
    if differing is None or new is None:
        return None
    return {name for name in (differing + new).split("\0") if name}


def _walk(root: Path) -> Iterable[str]:
    for folder, folders, files in os.walk(root):
        here = Path(folder)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = [
            name
            for name in folders
            if name not in links
            and name not in _NO_SOURCES
            and (name == ".ci" or not name.startswith("."))
            and not name.endswith(".egg-info")
        ]
        yield from (str((here / name).relative_to(root)) for name in (*files, *links))


def _hashes(root: Path, names: Iterable[str]) -> dict[str, str]:
    return {name: _hash(root / name) for name in sorted(names)}


def _hash(path: Path) -> str:
    if path.is_symlink():
        return hashlib.sha256(b"link " + os.fsencode(os.readlink(path))).hexdigest()
    if path.is_dir():  # a checkout of another repository inside this one
        return "folder"
    runs = b"run " if os.access(path, os.X_OK) else b"file "
    return hashlib.sha256(runs + path.read_bytes()).hexdigest()


def _git(root: Path, *command: str) -> str | None:
    """What git prints; None where there is no git, or it fails."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *command], capture_output=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return os.fsdecode(done.stdout)
