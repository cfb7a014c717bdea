"""All that files of Python may read when they run: what they import, and data.

What cannot be told is taken to be read. A module that finds others by name reaches the whole
product, and so does one that starts a process, or asks `rcompiler` for a name that it imports late.
Names of helpers are looked for in all folders of test/, and what a string names is reached as if it
was imported or opened. A file that makes a path of its own place reaches what is there, and below.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from .environment import PRODUCT
from .facts import Facts, FactsOf
from .tree import Tree

PACKAGE = "rcompiler"
_LATE = f"{PACKAGE}/__init__.py"  # imports its names when they are asked for
_BENCH = "tools/bench"
# Where packages lie that are imported by the names of their folders.
_HOMES = ("test", _BENCH, "docs")
# What says of which commit a checkout is, to those that choose by it.
_COMMIT = {(f"{PACKAGE}.tools._record", "commit"), (f"{PACKAGE}.tools", "_record")}
_PRODUCT = "*"  # stands for all files of the product
# What they execute or start imports nothing of ours, or what a string of the caller names.
_HARMLESS = {
    f"{PACKAGE}/emulator/translate/kernel.py",  # the text that it made itself
    f"{PACKAGE}/options.py",  # a policy of the user's own
    f"{PACKAGE}/codegen/cuda_tools.py",  # ptxas and nvdisasm
    f"{PACKAGE}/viz/page.py",  # files of its folder
    "tools/_record.py",  # git
}


@dataclass(frozen=True)
class Reach:
    """files: by their paths below the root. by_commit: whether the commit is asked for, too."""

    files: frozenset[str] = frozenset()
    by_commit: bool = False


class Reacher:
    """Of the files of one tree."""

    def __init__(self, tree: Tree, facts: FactsOf | None = None) -> None:
        self._tree = tree
        self.facts = facts or FactsOf(tree)
        self._steps: dict[str, frozenset[str]] = {}
        self._helpers = self._index()
        bench = tree.below(_BENCH)
        self._product = frozenset(
            path for folder in PRODUCT for path in tree.below(folder) if path not in bench
        )

    def of(self, files: Iterable[str]) -> Reach:
        """What these files of Python may read, and what pytest reads with them."""
        found = self._closure(files, frozenset())
        if _PRODUCT in found:
            found |= self._whole_product
        if not self._climbers.isdisjoint(found):
            found |= self._closure(self._tree.hashes, frozenset(found))
        return Reach(frozenset(found - {_PRODUCT}), not self._askers.isdisjoint(found))

    def beside(self, path: str) -> set[str]:
        """Data and configuration that a file comes with, and files that it names."""
        facts = self.facts(path) if path.endswith(".py") else None
        return {*self._beside(path), *(self._opened(facts, path) if facts else ())}

    def imports(self, path: str) -> set[str]:
        """The files that one imports itself."""
        facts = self.facts(path) if path.endswith(".py") else None
        named = facts.imports if facts is not None else ()
        return {file for module, name in named for file in self._modules(module, name)}

    @cached_property
    def _whole_product(self) -> frozenset[str]:
        """All of it, and what it reaches."""
        return frozenset(self._closure(self._product, frozenset()))

    def _closure(self, files: Iterable[str], done: frozenset[str]) -> set[str]:
        todo, found = [file for file in files if file in self._tree.hashes], set(done)
        while todo:
            path = todo.pop()
            if path not in found:
                found.add(path)
                todo += self._next(path)
        return found

    def _next(self, path: str) -> frozenset[str]:
        """What one file reaches in one step."""
        if path not in self._steps:
            self._steps[path] = frozenset(self._one_step(path))
        return self._steps[path]

    def _one_step(self, path: str) -> Iterator[str]:
        if path == _PRODUCT:
            return
        yield from self._beside(path)
        # a module that is no Python fails in whatever runs it, and data says nothing
        facts = self.facts(path) if path.endswith(".py") and path != _LATE else None
        if facts is not None:
            if facts.finds and path not in _HARMLESS:
                yield _PRODUCT
            yield from self._named(facts, path)

    def _may_climb(self, path: str) -> bool:
        """Whether a file of the checkout goes up from a path, which may be one that it, or what it
        imports, makes of its place.
        """
        facts = self._own_facts(path)
        if facts is None or not facts.climbs:
            return False
        near = map(self._own_facts, (path, *self._named_modules(facts)))
        return any(each is not None and each.paths for each in near)

    def _named_modules(self, facts: Facts) -> Iterator[str]:
        """The files of which a file has the names, and not of the packages around them."""
        for module, name in facts.imports:
            inside = {*self._modules(module, name)} - {*self._modules(module, "")}
            if not (name and inside):
                last = module.rpartition(".")[2]
                places = (PurePosixPath(each) for each in self._modules(module, ""))
                yield from (str(p) for p in places if last in (p.stem, p.parent.name))

    def _own_facts(self, path: str) -> Facts | None:
        """Of what is Python, and no file of the product: that is installed elsewhere."""
        return self.facts(path) if path.endswith(".py") and path not in self._product else None

    @cached_property
    def _climbers(self) -> frozenset[str]:
        return frozenset(filter(self._may_climb, self._tree.hashes))

    @cached_property
    def _askers(self) -> frozenset[str]:
        """The files of tests that choose by the commit."""
        own = ((p, self._own_facts(p)) for p in self._tree.hashes if p.startswith("test/"))
        return frozenset(p for p, f in own if f is not None and not f.imports.isdisjoint(_COMMIT))

    def _beside(self, path: str) -> Iterator[str]:
        """What comes with a file: the packages that it lies in, the configuration of its tests, and
        data in its folder, or in one below that has no Python.
        """
        here = PurePosixPath(path).parent
        for parent in (here, *here.parents):
            names = ("__init__.py", "conftest.py") if path.startswith("test/") else ("__init__.py",)
            yield from (f for name in names if (f := str(parent / name)) in self._tree.hashes)
        if path.endswith(".py") and str(here) not in (".", "test"):
            yield from self._data[str(here)]

    @cached_property
    def _data(self) -> dict[str, set[str]]:
        """Files that are no Python, by the folders whose modules they come with."""
        with_python = {str(PurePosixPath(p).parent) for p in self._tree.hashes if p.endswith(".py")}
        found: dict[str, set[str]] = defaultdict(set)
        for path in self._tree.hashes:
            if not path.endswith(".py"):
                for parent in map(str, PurePosixPath(path).parents):
                    found[parent].add(path)
                    if parent in with_python:
                        break
        return found

    def _index(self) -> dict[str, set[str]]:
        """The files and folders that a top-level name may be, but for the product's."""
        found: dict[str, set[str]] = defaultdict(set)
        for path in self._tree.hashes:
            if path.endswith(".py") and path.startswith(tuple(home + "/" for home in _HOMES)):
                pure = PurePosixPath(path)
                found[pure.stem].add(str(pure.with_suffix("")))
                for parent in pure.parents:
                    if str(parent) not in (".", *_HOMES):
                        found[parent.name].add(str(parent))
        return found

    def _named(self, facts: Facts, path: str) -> Iterator[str]:
        """The files that are imported, or named in strings, or by their place."""
        for module, name in facts.imports:
            yield from self._modules(module, name)
            if self._is_late(module, name):
                yield _PRODUCT
        for word in facts.words:
            if word.startswith(PACKAGE + "."):
                yield from self._modules(word, "")
        yield from self._opened(facts, path)

    def _opened(self, facts: Facts, path: str) -> Iterator[str]:
        """The files that strings name, or that lie where a path leads: in the product only to what
        comes with it, as it is installed elsewhere.
        """
        places = facts.paths if path not in self._product else ()
        named = (self._tree.real(word.rstrip("/")) for word in facts.words if "/" in word)
        for place in (*places, *named):
            yield from self._at(place)

    def _at(self, place: str) -> Iterator[str]:
        if place in self._tree.hashes:
            yield place
        elif place in self._tree.folders:
            yield from self._tree.below(place)

    def _is_late(self, module: str, name: str) -> bool:
        return module == PACKAGE and {*self._modules(module, name)} == {_LATE}

    def _modules(self, module: str, name: str) -> Iterator[str]:
        """The files of a module, of the packages around it, and of the name in it if it is one."""
        top, *rest = module.split(".")
        if top == PACKAGE:
            bases = {PACKAGE}
        elif top in PRODUCT:
            bases = {top, *self._helpers.get(top, ())}
        else:
            bases = self._helpers.get(top, set())
        for base in bases:
            for last in range(len(rest) + 1):
                yield from self._file("/".join([base, *rest[:last]]))
            if name:
                yield from self._file("/".join([base, *rest, name]))

    def _file(self, path: str) -> Iterator[str]:
        real = self._tree.real(path)
        for file in (f"{real}.py", f"{real}/__init__.py"):
            if file in self._tree.hashes:
                yield file
