"""Graphs of many operators: one behind the other, up to two thousand, or side by side, up to one
thousand. What walks over a graph must not recurse by its depth, nor take the square of its width.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from . import graphs
from .graphs import Case
from .maker import Maker, Reject, Value

_FLAT = ("Neg", "Abs", "Relu", "Sigmoid", "Tanh", "Softsign", "Identity")
_DEPTHS, _WIDTHS = (60, 200, 400, 800, 2000), (20, 60, 200, 1000)
_SIZES = (1, 2, 3, 5, 8, 16, 33)
_SUMS = 30  # operators with sums in a graph, about: to choose tiles for each takes time


def case_of(seed: int, targets: Sequence[str] = ("cpu",)) -> Case:
    """The case of a seed: a deep or a wide graph.

    Raises:
        Reject: not for a CPU; emulating a GPU takes too long for these.
    """
    if not any(target.startswith("cpu") for target in targets):
        raise Reject
    g = Maker(seed, 21)
    x = g.leaf("float32", [g.pick(_SIZES), g.pick(_SIZES)], -2, 2, constant=False)
    options = graphs.options_of(g, ("cpu",))
    options["roots"] = "direct"
    if g.chance(0.5):
        _deep(g, x, g.pick(_DEPTHS))
    else:
        _wide(g, x, g.pick(_WIDTHS))
    return Case(g.model(), g.inputs, options)


def _deep(g: Maker, x: Value, count: int) -> None:
    recent = [x]
    for _ in range(count):
        recent = [*recent[-30:], _step(g, recent, count)]


def _wide(g: Maker, x: Value, count: int) -> None:
    ends = []
    for _ in range(count):
        last = [x]
        for _ in range(g.int(1, 3)):
            last.append(_step(g, last[-1:], 2 * count))
        ends.append(last[-1])
    alike = [value for value in ends if value.shape == ends[0].shape]
    how = g.pick(("Sum", "Concat", "apart"))
    if how == "Sum":  # scaled, so that a thousand of them stay numbers of moderate size
        g.node("Mul", [g.node("Sum", alike)[0], g.fixed(np.float64(1 / count), "float32")])
    elif how == "Concat":
        g.node("Concat", alike, axis=g.int(0, 1))


def _step(g: Maker, recent: Sequence[Value], count: int) -> Value:
    """One of so many operators, whose results stay of moderate size."""
    x, kind = recent[-1], g.random.random()
    if g.chance(_SUMS / count):
        return _sum(g, x)
    if kind < 0.6:
        return g.node(g.pick(_FLAT), [x])[0]
    if kind < 0.8:
        constant = g.leaf("float32", g.pick(([], x.shape, x.shape[1:])), 0.5, 1.2, constant=True)
        return g.node(g.pick(("Mul", "Max", "Min", "Sub")), [x, constant])[0]
    if kind < 0.9:
        other = g.pick([value for value in recent if value.shape == x.shape])
        half = g.fixed(np.float64(0.5), "float32")
        return g.node("Mul", [g.node("Add", [x, other])[0], half])[0]
    return g.node("Transpose", [x], perm=[1, 0])[0]


def _sum(g: Maker, x: Value) -> Value:
    if g.chance(0.5):
        return g.node(g.pick(("Softmax", "LpNormalization")), [x], axis=-1)[0]
    width = x.shape[1]
    weights = g.leaf("float32", [width, width], -1 / width, 1 / width, constant=True)
    return g.node("MatMul", [x, weights])[0]
