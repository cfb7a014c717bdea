"""The hash of all that a step or a file of tests may read: what has passed with it passes again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from fnmatch import fnmatchcase

from .environment import Environment
from .facts import FactsOf
from .reach import Reach, Reacher
from .steps import Step
from .tree import Tree


class Keys:
    """Of one tree in one environment. None for what always has to run: steps of which nothing is
    known that they read only, and all where git does not know the files.
    """

    def __init__(self, tree: Tree, environment: Environment, variables: Mapping[str, str]) -> None:
        self._tree = tree
        self._around = environment.key(tree)
        self._turns = f"{tree.commit} {variables.get('RC_TURNS', '')}"
        self._facts = FactsOf(tree, environment.home / "facts.json")
        self.reacher = Reacher(tree, self._facts)

    def of_step(self, step: Step) -> str | None:
        if not step.reads or step.by_commit:
            return None
        reach = self.reacher.of([*step.entries]) if step.entries else Reach()
        named = {
            path
            for path in self._tree.hashes
            if any(fnmatchcase(path, pattern) for pattern in step.reads)
            if not fnmatchcase(path, step.but)
        }
        # what tells of commits does not make their work depend on them
        return self._key(step.command, Reach(reach.files | named))

    def of_tests(self, file: str) -> str | None:
        return self._key(file, self.reacher.of([file]))

    def _key(self, name: str, reach: Reach) -> str | None:
        if self._tree.commit is None:
            return None
        turns = self._turns if reach.by_commit else ""
        parts = (name, self._around, self._tree.digest(reach.files), turns)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def keep(self) -> None:
        """Keep what was read of the files for the next run."""
        self._facts.keep()
