"""LSTM, GRU and RNN."""

from __future__ import annotations

from fuzz.catalog import generator
from fuzz.maker import Maker, Value

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_FUNCTIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}
_ACTIVATIONS = ("Relu", "Tanh", "Sigmoid")


@generator("LSTM", "GRU", "RNN")
def recurrent(g: Maker, op: str) -> None:
    steps, batch, width, hidden = g.int(1, 5), g.int(1, 3), g.int(1, 5), g.pick([1, 2, 4, 5])
    direction = g.pick([None, "forward", "reverse", "bidirectional"])
    n = 2 if direction == "bidirectional" else 1
    x = g.value([t for t in g.types(op, "T")], shape=(steps, batch, width))
    gates, fixed = _GATES[op] * hidden, g.chance(0.7)

    def weight(*shape: int) -> Value:
        return g.leaf(x.dtype, shape, -0.7, 0.7, fixed)

    w, r = weight(n, gates, width), weight(n, gates, hidden)
    bias = weight(n, 2 * gates) if g.chance(0.7) else None
    lens = None
    if g.chance(0.3):
        lens = g.value(["int32"], shape=(batch,), low=1, high=steps)
    state = g.value([x.dtype], shape=(n, batch, hidden)) if g.chance(0.5) else None
    operands = [x, w, r, bias, lens, state]
    found: dict[str, object] = {"direction": direction, "hidden_size": hidden}
    if op == "LSTM":
        operands.append(g.like(state) if state is not None and g.chance(0.8) else None)
        operands.append(weight(n, 3 * hidden) if g.chance(0.25) else None)
    if op == "GRU":
        found["linear_before_reset"] = g.pick([None, 0, 1])
    if g.chance(0.25):
        found["activations"] = [g.pick(_ACTIVATIONS) for _ in range(_FUNCTIONS[op] * n)]
    wanted = [g.chance(0.8) for _ in range(3 if op == "LSTM" else 2)]
    wanted[0] = wanted[0] or not any(wanted)
    g.node(op, operands, wanted, **found)
