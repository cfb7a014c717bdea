"""LSTM, GRU and RNN."""

from __future__ import annotations

from fuzz.catalog import generator
from fuzz.maker import Maker, Value
from rcompiler.frontend.ops.recurrent import LOOP_STEPS

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_FUNCTIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}
_ACTIVATIONS = ("Relu", "Tanh", "Sigmoid")
_MORE = ("Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu", "Softsign",
         "Softplus")  # fmt: skip


@generator("LSTM", "GRU", "RNN")
def recurrent(g: Maker, op: str) -> None:
    steps, batch, width, hidden = g.int(1, 5), g.int(1, 3), g.int(1, 5), g.pick([1, 2, 4, 5])
    if g.chance(0.25):  # a loop, where elements are of 4 bytes
        steps, hidden = g.int(LOOP_STEPS, LOOP_STEPS + 3), 16
    direction = g.pick([None, "forward", "reverse", "bidirectional"])
    n = 2 if direction == "bidirectional" else 1
    by_batch = g.chance(0.2)

    def led(first: int, second: int, *rest: int) -> tuple[int, ...]:
        return (second, first, *rest) if by_batch else (first, second, *rest)

    x = g.value([t for t in g.types(op, "T")], shape=led(steps, batch, width))
    gates, fixed = _GATES[op] * hidden, g.chance(0.7)

    def weight(*shape: int) -> Value:
        return g.leaf(x.dtype, shape, -0.7, 0.7, fixed)

    w, r = weight(n, gates, width), weight(n, gates, hidden)
    bias = weight(n, 2 * gates) if g.chance(0.7) else None
    lens = None
    if g.chance(0.3):
        lens = g.value(["int32"], shape=(batch,), low=1, high=steps)
    state = g.value([x.dtype], shape=led(n, batch, hidden)) if g.chance(0.5) else None
    operands = [x, w, r, bias, lens, state]
    found: dict[str, object] = {"direction": direction, "hidden_size": hidden}
    if op == "LSTM":
        operands.append(g.like(state) if state is not None and g.chance(0.8) else None)
        operands.append(weight(n, 3 * hidden) if g.chance(0.25) else None)
        found["input_forget"] = g.pick([None, None, 0, 1])
    if op == "GRU":
        found["linear_before_reset"] = g.pick([None, 0, 1])
    if g.chance(0.25):
        known = _ACTIVATIONS if g.chance(0.5) else (*_ACTIVATIONS, *_MORE)
        found["activations"] = [g.pick(known) for _ in range(_FUNCTIONS[op] * n)]
        for parameter in ("activation_alpha", "activation_beta"):
            if g.chance(0.5):
                values = [g.random.uniform(0.2, 1) for _ in range(g.int(1, _FUNCTIONS[op] * n))]
                found[parameter] = values
    if by_batch:
        found["layout"] = 1
    if g.chance(0.2):
        found["clip"] = g.random.uniform(0.3, 3)
    wanted = [g.chance(0.8) for _ in range(3 if op == "LSTM" else 2)]
    wanted[0] = wanted[0] or not any(wanted)
    g.node(op, operands, wanted, **found)
