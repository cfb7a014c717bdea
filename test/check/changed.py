"""The tests that are nearest to a change: those that a few minutes are best spent on.

They are of six kinds, of which each is a reason:
  "changed"  files of tests that changed, or whose helpers, data or configuration did;
  "imports"  those that import a changed file of the product, themselves or through a helper;
  "named"    those that bear the name of a changed file, or of a pass that imports it;
  "fault"    checks that find a seeded fault in a changed file (test/mutants);
  "reads"    those that read the sources as texts, all of them as a rule;
  "smoke"    a fixed set, which compiles, proves and runs small networks on all kinds of devices.
Within a kind the cheapest come first, until the seconds are spent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import PurePosixPath
from types import ModuleType
from typing import Any

from .environment import PRODUCT
from .reach import Reacher
from .suite import test_files
from .tree import Tree

# What finds most of the seeded faults that nothing else here does: of the wide files, small cases.
SMOKE = (
    "test/unit/test_rammer_policy.py",
    "test/e2e/test_edges.py",
    "test/e2e/test_siblings.py",
    "test/e2e/test_task_bodies.py::test_the_text_of_what_the_passes_make_is_proved",
    "test/e2e/test_roots.py",
    "test/e2e/test_feature_levels.py::test_models[mlp-cpu:v3]",
    "test/e2e/test_feature_levels.py::test_models[mlp-cpu:x86-64]",
    "test/e2e/test_gpu.py::test_any_order_of_blocks_gives_the_same_bits[mlp-0]",
    "test/e2e/test_gpu.py::test_any_order_of_blocks_gives_the_same_bits[attention-0]",
)
# Tables of seeded faults: of the passes, by which the choice is judged, and of all rooms.
PASSES, ROOMS = "test/mutants/pass_faults.py", "test/mutants/room_faults.py"
_PASSES = "rcompiler/passes"
_KINDS = ("smoke", "changed", "fault", "named", "imports", "reads")
_UNKNOWN_S = 8.0  # of a file that has not run yet; a test alone takes a quarter
_DIALECTS = ("rtask_", "vdevice_", "roller_", "rammer_", "gpu_to_")


@dataclass(frozen=True)
class Choice:
    """chosen: arguments of pytest, with the reason for each. left_out: those that take too long,
    with their seconds.
    """

    chosen: Mapping[str, str]
    left_out: Mapping[str, float]


class Chooser:
    """seconds: of files of tests, as far as they are known."""

    def __init__(self, tree: Tree, reacher: Reacher, seconds: Mapping[str, float]) -> None:
        self._tree, self._reacher, self._seconds = tree, reacher, seconds
        self._read: dict[str, set[str]] = {}
        self._near = {file: self._near_to(file) for file in test_files(tree)}

    def choose(self, changed: Iterable[str], budget: float, faults: bool = True) -> Choice:
        """The tests for a change of these files, in a number of seconds of tests.

        faults: whether seeded faults may name checks, which those who judge by them leave out.
        """
        reasons = self.reasons({self._tree.real(path) for path in changed}, faults)
        chosen, left_out = dict[str, str](), dict[str, float]()
        spent = -max(0.0, sum(map(self.cost, SMOKE)) - budget / 2)  # half is for what is near
        for test in sorted(reasons, key=lambda t: (_KINDS.index(reasons[t]), self.cost(t), t)):
            spent += (cost := self.cost(test))
            if spent <= budget or reasons[test] == "smoke":
                chosen[test] = reasons[test]
            else:
                spent -= cost
                left_out[test] = cost
        whole = {test: why for test, why in chosen.items() if test.partition("::")[0] not in chosen}
        whole |= {test: why for test, why in chosen.items() if "::" not in test}
        return Choice(whole, left_out)

    def cost(self, test: str) -> float:
        """Seconds, as recorded or supposed."""
        file, single, _ = test.partition("::")
        return self._seconds.get(test, self._seconds.get(file, _UNKNOWN_S) / (4 if single else 1))

    def reasons(self, changed: set[str], faults: bool) -> dict[str, str]:
        """All tests that are near, whatever they take."""
        found = dict.fromkeys(SMOKE, "smoke")
        names = self._names(changed)
        for file, near in self._near.items():
            if near & changed:
                own = not all(map(_is_product, near & changed))
                found[file] = "changed" if own else "imports"
            elif PurePosixPath(file).stem in names:
                found[file] = "named"
            elif self._read[file] & changed:
                found[file] = "reads"
        if faults:
            for path, check in self._checks:
                if path in changed and not found.keys() & {*_around(check)}:
                    found[check] = "fault"
        return found

    def _near_to(self, file: str) -> set[str]:
        """What a file of tests reaches through files of tests, and the product's files that these
        import themselves.
        """
        found, todo = set[str](), [file]
        texts = self._read.setdefault(file, set())
        while todo:
            path = todo.pop()
            if path in found:
                continue
            found.add(path)
            if path.startswith("test/") and path.endswith(".py"):
                todo += self._reacher.imports(path)
                beside = self._reacher.beside(path)
                texts |= {each for each in beside if _is_product(each)}
                todo += beside - texts
        return found

    def _names(self, changed: set[str]) -> set[str]:
        """Names that tests of the changed files have, and of the passes that import them."""
        passes = {path for path, imported in self._imported.items() if imported & changed}
        found = set()
        for path in passes | set(filter(_is_product, changed)):
            pure = PurePosixPath(path)
            found |= {f"test_{pure.stem}", f"test_{pure.parent.name}_{pure.stem}"}
            for dialect in _DIALECTS:
                found.add(f"test_{pure.stem.removeprefix(dialect)}")
        return found

    @cached_property
    def _imported(self) -> dict[str, set[str]]:
        """What each pass imports itself."""
        passes = (p for p in self._tree.hashes if str(PurePosixPath(p).parent) == _PASSES)
        return {p: self._reacher.imports(p) for p in passes if p.endswith(".py")}

    @cached_property
    def _checks(self) -> list[tuple[str, str]]:
        """The file of each seeded fault, and the check of pytest that finds it."""
        return [
            (self._tree.real(f"rcompiler/{fault.file}"), f"test/{fault.check}")
            for fault in seeded(self._tree, PASSES, ROOMS)
            if ".py" in fault.check
        ]


def _is_product(path: str) -> bool:
    return path.split("/")[0] in PRODUCT


def _around(test: str) -> tuple[str, str, str]:
    """A test, all cases of it, and its file: each of them runs it."""
    return test, test.partition("[")[0], test.partition("::")[0]


def seeded(tree: Tree, *tables: str) -> tuple[Any, ...]:
    """The faults of these tables; none of one that is not there."""
    package = ModuleType("_seeded")  # that of this tree, which the tables import relatively
    package.__path__ = [str(tree.root / PurePosixPath(PASSES).parent)]
    for name in [name for name in sys.modules if name.startswith("_seeded")]:
        del sys.modules[name]  # of another tree
    sys.modules[package.__name__] = package
    modules = (PurePosixPath(table).stem for table in tables if table in tree.hashes)
    return tuple(fault for name in modules for fault in import_module(f"_seeded.{name}").FAULTS)


def judge(tree: Tree, chooser: Chooser, budget: float) -> list[tuple[str, str, str]]:
    """Of each fault that is seeded in a pass: its name, its check, and why that is chosen where the
    fault is all that changes, or "" if it is not. Files for lit are all run.
    """
    found = []
    for fault in seeded(tree, PASSES):
        path = tree.real(f"rcompiler/{fault.file}")
        choice = chooser.choose([path], budget, faults=False).chosen
        check = f"test/{fault.check}"
        reason = next((choice[each] for each in _around(check) if each in choice), "")
        if check.endswith(".mlir"):
            reason = "lit"
        found.append((fault.name, fault.check, reason))
    return found
