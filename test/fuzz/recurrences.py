"""LSTM, GRU and RNN by the letter of the standard; onnx.reference knows them in part only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from .definitions import Attributes, check_lengths, define

Array = np.ndarray
Function = Callable[[Array], Array]
_FUNCTIONS: dict[str, Function] = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "softsign": lambda x: x / (1 + abs(x)),
    "softplus": lambda x: np.logaddexp(x, 0),
}
# Those with parameters, and the parameters where none are given.
_WITH_PARAMETERS: dict[str, tuple[Callable[..., Array], tuple[float, ...]]] = {
    "affine": (lambda x, alpha, beta: alpha * x + beta, (1, 0)),
    "leakyrelu": (lambda x, alpha: np.where(x >= 0, x, alpha * x), (0.01,)),
    "thresholdedrelu": (lambda x, alpha: np.where(x > alpha, x, 0), (1,)),
    "scaledtanh": (lambda x, alpha, beta: alpha * np.tanh(beta * x), (1, 1)),
    "hardsigmoid": (lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), (0.2, 0.5)),
    "elu": (lambda x, alpha: np.where(x >= 0, x, alpha * np.expm1(x)), (1,)),
}
_DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


def _recurrent(op: str, a: Attributes, inputs: Sequence[Any]) -> list[Array]:
    """Y and the final states, of all directions. Sequences that ended keep their state."""
    x, w, r, bias, lens, h0, c0, peephole = [*inputs, *[None] * (8 - len(inputs))]
    by_batch = a.get("layout") == 1
    if by_batch:
        x, h0, c0 = (None if v is None else np.swapaxes(v, 0, 1) for v in (x, h0, c0))
    steps, batch, _ = x.shape
    directions, hidden = r.shape[0], r.shape[2]
    lens = np.full(batch, steps) if lens is None else lens
    check_lengths(lens, steps)
    every = _functions(op, a, directions)
    each = len(_DEFAULTS[op])
    y = np.zeros((steps, directions, batch, hidden))
    ends, cells = np.zeros((2, directions, batch, hidden))
    for d in range(directions):
        reverse = a.get("direction") == "reverse" or d == 1
        functions = every[d * each : (d + 1) * each]
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
    if by_batch:
        y, ends, cells = y.transpose(2, 0, 1, 3), ends.swapaxes(0, 1), cells.swapaxes(0, 1)
    return [y, ends, cells] if op == "LSTM" else [y, ends]


def _functions(op: str, a: Attributes, directions: int) -> list[Function]:
    """The activations of all directions. Those with parameters take values in their order; `clip`
    bounds what gates are computed of, but not the cell (as onnxruntime has it, see the README)."""
    given = [iter(a.get(f"activation_{which}") or ()) for which in ("alpha", "beta")]
    clip, names = a.get("clip") or 0.0, a.get("activations") or _DEFAULTS[op] * directions
    found = []
    for index, name in enumerate(names):
        function = _activation(_text(name).lower(), given)
        of_gate = index % len(_DEFAULTS[op]) < 2
        found.append(partial(_clipped, function, clip) if clip and of_gate else function)
    return found


def _activation(name: str, given: Sequence[Iterator[float]]) -> Function:
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    function, usual = _WITH_PARAMETERS[name]
    values = [next(g, default) for g, default in zip(given, usual, strict=False)]
    return lambda x: function(x, *values)


def _clipped(function: Function, bound: float, x: Array) -> Array:
    return function(np.clip(x, -bound, bound))


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _lstm(a: Attributes, x: Array, h: Array, c: Array, weights: Any, functions: Any) -> Any:
    w, r, bias, peephole = weights
    f, g, last = functions
    i, o, forget, new = np.split(w @ x + r @ h + bias.sum(0), 4)
    pi, po, pf = np.zeros((3, h.size)) if peephole is None else np.split(peephole, 3)
    i = f(i + pi * c)
    forget = 1 - i if a.get("input_forget") else f(forget + pf * c)
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
