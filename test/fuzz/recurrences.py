"""LSTM, GRU and RNN by the letter of the standard; onnx.reference knows them in part only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .definitions import Attributes, define

Array = np.ndarray
Function = Callable[[Array], Array]
_FUNCTIONS: dict[str, Function] = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
}
_DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


def _recurrent(op: str, a: Attributes, inputs: Sequence[Any]) -> list[Array]:
    """Y and the final states, of all directions. Sequences that ended keep their state."""
    x, w, r, bias, lens, h0, c0, peephole = [*inputs, *[None] * (8 - len(inputs))]
    steps, batch, _ = x.shape
    directions, hidden = r.shape[0], r.shape[2]
    lens = np.full(batch, steps) if lens is None else lens
    names = a.get("activations") or _DEFAULTS[op] * directions
    each = len(_DEFAULTS[op])
    y = np.zeros((steps, directions, batch, hidden))
    ends, cells = np.zeros((2, directions, batch, hidden))
    for d in range(directions):
        reverse = a.get("direction") == "reverse" or d == 1
        functions = [_FUNCTIONS[_text(n).lower()] for n in names[d * each : (d + 1) * each]]
        halves = np.zeros((2, w.shape[1])) if bias is None else bias[d].reshape(2, -1)
        weights = (w[d], r[d], halves, None if peephole is None else peephole[d])
        for n in range(batch):
            h = np.zeros(hidden) if h0 is None else h0[d, n]
            c = np.zeros(hidden) if c0 is None else c0[d, n]
            order = range(lens[n])
            for t in reversed(order) if reverse else order:
                h, c = _STEPS[op](a, x[t, n], h, c, weights, functions)
                y[t, d, n] = h
            ends[d, n], cells[d, n] = h, c
    return [y, ends, cells] if op == "LSTM" else [y, ends]


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _lstm(a: Attributes, x: Array, h: Array, c: Array, weights: Any, functions: Any) -> Any:
    w, r, bias, peephole = weights
    f, g, last = functions
    i, o, forget, new = np.split(w @ x + r @ h + bias.sum(0), 4)
    pi, po, pf = np.zeros((3, h.size)) if peephole is None else np.split(peephole, 3)
    i, forget = f(i + pi * c), f(forget + pf * c)
    cell = forget * c + i * g(new)
    return f(o + po * cell) * last(cell), cell


def _gru(a: Attributes, x: Array, h: Array, c: Array, weights: Any, functions: Any) -> Any:
    w, r, (wb, rb), _ = weights
    f, g = functions
    wz, wr, wh = np.split(w @ x + wb, 3)
    rz, rr, rh = np.split(r, 3)
    bz, br, bh = np.split(rb, 3)
    z, reset = f(wz + rz @ h + bz), f(wr + rr @ h + br)
    inner = reset * (rh @ h + bh) if a.get("linear_before_reset") else rh @ (reset * h) + bh
    new = (1 - z) * g(wh + inner) + z * h
    return new, c


def _rnn(a: Attributes, x: Array, h: Array, c: Array, weights: Any, functions: Any) -> Any:
    w, r, bias, _ = weights
    return functions[0](w @ x + r @ h + bias.sum(0)), c


_STEPS: dict[str, Callable[..., Any]] = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}

for _op in _STEPS:
    define(_op)(lambda a, *inputs, op=_op: _recurrent(op, a, inputs))
