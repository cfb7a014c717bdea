"""Walks of rows through trees: loops over tables, several walks abreast (ai.onnx.ml)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.decision_trees import Trees
from rcompiler.frontend.scalar import Scalar

ABREAST = 8  # walks whose steps alternate


def _with_ways_of_missing(b: Builder, x: Value, trees: Trees) -> tuple[Value, np.ndarray]:
    """Features such that a walk need not ask whether one is missing, and which of them a place
    tests: behind the features themselves, which are less than nothing where they are missing, the
    same with -inf in their place, for tests that they pass; and behind these columns that are
    numbers only where one is missing, for tests that nothing else passes.
    """
    columns, test = x.shape[1], trees.feature
    parts, missing = [x], trees.missing != 0
    only = missing & np.isnan(trees.split)
    for which, present, absent in ((missing & ~only, None, -np.inf), (only, np.nan, -np.inf)):
        if not which.any():
            continue

        def way(s: Body, a: Scalar, present: Any = present, absent: float = absent) -> Scalar:
            other = a if present is None else s.const(present, a.dtype)
            return s.select(s.is_nan(a), s.const(absent, a.dtype), other)

        test = np.where(which, trees.feature + len(parts) * columns, test)
        parts.append(b.elementwise(way, x))
    return b.concat(parts, 1), test.astype(np.int32)


class Walks:
    """Walks of each row of features through each tree, several abreast: a step takes as long as two
    loads and a comparison one after the other, and steps of other walks go on meanwhile.

    Abreast are rows, or trees where there are few rows. found: what a walk that ends at a place
    comes to.
    """

    def __init__(self, b: Builder, x: Value, trees: Trees, found: np.ndarray) -> None:
        self._b, self._trees, self._rows = b, trees, x.shape[0]
        wide = "float64" if "float64" in (x.dtype, trees.split.dtype.name) else "float32"
        x = b.cast(x, wide)
        x, test = _with_ways_of_missing(b, x, trees)
        split = np.where(trees.missing & np.isnan(trees.split), -np.inf, trees.split)
        self._columns, self._x = x.shape[1], b.reshape(x, [x.size])
        self._test, self._split = b.constant(test), b.constant(split, wide)
        self._child, self._found = b.constant(trees.child), b.constant(found)
        self._rows_abreast = self._rows >= ABREAST

    def ends(self) -> Value:
        """[trees, columns]: a column for each row, and then some more; see `of_rows`."""
        b, count = self._b, self._trees.roots.size
        depths = self._trees.depths
        if self._rows_abreast:
            groups = -(-self._rows // ABREAST)
            shape, tables = [count, groups, ABREAST], [depths, self._trees.roots]
            out = b.nest(shape[:2], b.empty(shape, self._found.dtype), self._of_rows(*tables))
            return b.reshape(out, [count, groups * ABREAST])
        shape = [count // ABREAST, ABREAST, self._rows]
        deepest = depths.reshape(-1, ABREAST).max(1)
        out = b.empty(shape, self._found.dtype)
        out = b.nest([shape[0], self._rows], out, self._of_trees(deepest, self._trees.roots))
        return b.reshape(out, [count, self._rows])

    def of_rows(self, totals: Value) -> Value:
        """What is made of the columns [n, columns], of the rows: the last group of rows may begin
        inside of the one before.
        """
        b, over = self._b, self._rows % ABREAST
        if not self._rows_abreast or not over:
            return totals
        whole = b.slice_along(totals, 1, 0, self._rows - over)
        return b.concat([whole, b.slice_along(totals, 1, totals.shape[1] - over, over)], 1)

    def _of_rows(self, depths: np.ndarray, roots: np.ndarray) -> Callable[..., Value]:
        steps, first = self._steps(depths), self._b.constant(roots)

        def walk(s: Body, at: list[Scalar], out: Value) -> Value:
            tree, group = at
            row = s.minimum(group * ABREAST, self._rows - ABREAST)
            root = s.cast(s.extract(first, [tree]), "index")
            places = [root] * ABREAST
            starts = [row * self._columns + k * self._columns for k in range(ABREAST)]
            for k, end in enumerate(self._go(s, steps(s, tree), places, starts)):
                out = s.insert(end, out, [tree, group, s.const(k, "index")])
            return out

        return walk

    def _of_trees(self, depths: np.ndarray, roots: np.ndarray) -> Callable[..., Value]:
        steps, first = self._steps(depths), self._b.constant(roots)

        def walk(s: Body, at: list[Scalar], out: Value) -> Value:
            group, row = at
            trees = [group * ABREAST + k for k in range(ABREAST)]
            places = [s.cast(s.extract(first, [tree]), "index") for tree in trees]
            starts = [row * self._columns] * ABREAST
            for k, end in enumerate(self._go(s, steps(s, group), places, starts)):
                out = s.insert(end, out, [group, s.const(k, "index"), row])
            return out

        return walk

    def _steps(self, depths: np.ndarray) -> Callable[[Body, Scalar], tuple[Any, float | None]]:
        """How many steps walks take, and if that differs, how many in the mean."""
        table = self._b.constant(depths)
        if np.unique(depths).size == 1:
            return lambda s, at: (int(depths[0]), None)
        mean = float(depths.mean())
        return lambda s, at: (s.cast(s.extract(table, [at]), "index"), mean)

    def _go(
        self,
        s: Body,
        steps: tuple[Any, float | None],
        places: list[Scalar],
        starts: list[Scalar],
    ) -> list[Scalar]:
        """What the walks that begin at places come to. starts: of their rows in the features."""

        def step(place: Scalar, start: Scalar) -> Scalar:
            test = s.cast(s.extract(self._test, [place]), "index")
            passed = s.extract(self._x, [test + start]) <= s.extract(self._split, [place])
            further = s.select(passed, s.const(0, "int32"), s.const(1, "int32"))
            return s.cast(s.extract(self._child, [place]) + further, "index")

        def all_steps(_: Scalar, *places: Scalar) -> list[Scalar]:
            return [step(*each) for each in zip(places, starts, strict=True)]

        count, mean = steps
        ends = s.for_(0, count, places, all_steps, mean)
        return [s.extract(self._found, [place]) for place in ends]
