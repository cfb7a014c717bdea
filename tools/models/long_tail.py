"""Recurrent cells that no vendor's library has: the long tail of Astra's evaluation (ASPLOS'19).

Unrolled as the tracer of a framework writes them: each product by itself, a node for each
element-wise operator, and the weights shared by all steps. A product x w is of rows: x is (batch,
n), w (n, out). A state starts as zeros.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import ModelProto

from .graph import ModelGraph
from .lstm import State, Steps

MODELS = ("milstm", "scrnn", "sublstm")

_Cell = Callable[[str, State], State]  # input and state to the next state

# The share of the slow context that a step of scrnn keeps, of the paper.
_KEPT = 0.95


def milstm(
    seed: int = 0, batch: int = 1, steps: int = 20, hidden: int = 256, layers: int = 1
) -> ModelProto:
    """LSTM with multiplicative integration (Wu et al. 2016).

    Input (steps, batch, hidden), last output (batch, hidden). With x the input of a step, (c, h)
    the state, (batch, hidden) each, and * element by element, a gate g of i, j, f, o is

        g = alpha * (x w) * (h u) + beta1 * (h u) + beta2 * (x w) + b

    c' = sigmoid(f) * c + sigmoid(i) * tanh(j)
    h' = sigmoid(o) * tanh(c')
    """
    return _stack("milstm", _milstm_cell, seed, batch, steps, hidden, layers)


def sublstm(
    seed: int = 0, batch: int = 1, steps: int = 20, hidden: int = 256, layers: int = 2
) -> ModelProto:
    """Subtractive LSTM (Costa et al. 2017): gates are subtracted where an LSTM multiplies.

    Input (steps, batch, hidden), last output (batch, hidden). With x the input of a step and (c, h)
    the state, (batch, hidden) each, a gate g of z, i, o, f is sigmoid(x w + h u + b).

    c' = f * c + z - i
    h' = sigmoid(c') - o
    """
    return _stack("sublstm", _sublstm_cell, seed, batch, steps, hidden, layers)


def scrnn(
    seed: int = 0,
    batch: int = 1,
    steps: int = 20,
    hidden: int = 256,
    context: int = 40,
    classes: int = 50,
) -> ModelProto:
    """Structurally constrained recurrent network (Mikolov et al. 2014): part of its state is slow.

    Input (steps, batch, hidden), probabilities (steps * batch, classes). With x the input of a
    step, s (batch, context) and h (batch, hidden) the state, and a = 0.95:

    s' = (1 - a) * (x B) + a * s
    h' = sigmoid(s' P + x A + h R)
    y = softmax(h' U + s' V)
    """
    g = ModelGraph("scrnn", seed)
    x = Steps(g, g.input("input", (steps, batch, hidden)), steps)
    # a mean over time is smaller than what it is taken of: the gain undoes that
    b = _matrix(g, "B", hidden, context, gain=(1 + _KEPT) / (1 - _KEPT))
    p = _matrix(g, "P", context, hidden)
    a, r = (_matrix(g, name, hidden, hidden) for name in "AR")
    u = _matrix(g, "U", hidden, classes, gain=8.0)
    v = _matrix(g, "V", context, classes, gain=8.0)
    s, h = _zeros(g, "context", batch, context), _zeros(g, "state", batch, hidden)
    outputs = []
    for t, value in enumerate(x.each()):
        with g.scope(f"step{t}"):
            seen = g.op("Mul", g.op("MatMul", value, b), 1 - _KEPT)
            s = g.op("Add", seen, g.op("Mul", s, _KEPT))
            z = g.op("Add", g.op("MatMul", s, p), g.op("MatMul", value, a))
            h = g.op("Sigmoid", g.op("Add", z, g.op("MatMul", h, r)))
            y = g.op("Add", g.op("MatMul", h, u), g.op("MatMul", s, v))
            outputs.append(g.op("Softmax", y, axis=-1))
    y = Steps(g, outputs, steps).rows()
    return g.model(output=(y, (steps * batch, classes)))


# -- layers of cells of one width -----------------------------------------------------------
def _stack(
    name: str,
    make: Callable[[ModelGraph, int], _Cell],
    seed: int,
    batch: int,
    steps: int,
    hidden: int,
    layers: int,
) -> ModelProto:
    """Layers of the cells that ``make`` gives once it has added their weights."""
    g = ModelGraph(name, seed)
    x = Steps(g, g.input("input", (steps, batch, hidden)), steps)
    for layer in range(layers):
        with g.scope(f"layer{layer}"):
            cell, zero = make(g, hidden), _zeros(g, "initial_state", batch, hidden)
            state, outputs = (zero, zero), []
            for t, value in enumerate(x.each()):
                with g.scope(f"step{t}"):
                    state = cell(value, state)
                outputs.append(state[1])
            x = Steps(g, outputs, steps)
    return g.model(output=(state[1], (batch, hidden)))


class _Gates:
    """The two products of each gate: of the input with w, of the state h with u."""

    def __init__(self, g: ModelGraph, names: str, hidden: int, gain: float) -> None:
        self._g = g
        self._w = [_matrix(g, f"w_{name}", hidden, hidden, gain) for name in names]
        self._u = [_matrix(g, f"u_{name}", hidden, hidden, gain) for name in names]

    def __call__(self, x: str, h: str) -> list[tuple[str, str]]:
        op = self._g.op
        return [
            (op("MatMul", x, w), op("MatMul", h, u)) for w, u in zip(self._w, self._u, strict=True)
        ]


def _milstm_cell(g: ModelGraph, hidden: int) -> _Cell:
    op, names = g.op, "ijfo"
    # an h is well below 1: without these gains nothing of the input is left behind some layers
    gates = _Gates(g, names, hidden, gain=3.0)
    factors = [
        [
            g.weight(f"{factor}_{name}", g.uniform((hidden,), low, high))
            for factor, low, high in (("alpha", 0.8, 1.2), ("beta1", 0.6, 1.0), ("beta2", 0.6, 1.0))
        ]
        for name in names
    ]
    offsets = _offsets(g, names, hidden)

    def gate(products: tuple[str, str], factors: list[str], offset: str) -> str:
        (wx, uh), (alpha, beta1, beta2) = products, factors
        both = op("Mul", op("Mul", wx, alpha), uh)
        z = op("Add", op("Add", both, op("Mul", uh, beta1)), op("Mul", wx, beta2))
        return op("Add", z, offset)

    def cell(x: str, state: State) -> State:
        c, h = state
        i, j, f, o = map(gate, gates(x, h), factors, offsets)
        new = op("Mul", op("Sigmoid", i), op("Tanh", j))
        c = op("Add", op("Mul", op("Sigmoid", f), c), new)
        return c, op("Mul", op("Sigmoid", o), op("Tanh", c))

    return cell


def _sublstm_cell(g: ModelGraph, hidden: int) -> _Cell:
    op, names = g.op, "ziof"
    gates = _Gates(g, names, hidden, gain=5.0)
    offsets = _offsets(g, names, hidden)

    def cell(x: str, state: State) -> State:
        c, h = state
        z, i, o, f = (
            op("Sigmoid", op("Add", op("Add", wx, uh), offset))
            for (wx, uh), offset in zip(gates(x, h), offsets, strict=True)
        )
        c = op("Sub", op("Add", op("Mul", f, c), z), i)
        return c, op("Sub", op("Sigmoid", c), o)

    return cell


# -- weights ----------------------------------------------------------------------------------
def _matrix(g: ModelGraph, name: str, n: int, out: int, gain: float = 1.0) -> str:
    return g.weight(name, g.normal((n, out), (gain / n) ** 0.5))


def _offsets(g: ModelGraph, names: str, hidden: int) -> list[str]:
    """The b of each gate, near 0; near 1 of the forget gate f, as usual."""
    return [g.weight(f"b_{name}", g.normal((hidden,), 0.1, float(name == "f"))) for name in names]


def _zeros(g: ModelGraph, name: str, batch: int, n: int) -> str:
    return g.weight(name, np.zeros((batch, n), np.float32))
