"""LSTM, GRU and RNN.

The inputs' share of the gates, ``X W^T + bias``, is one contraction over all time steps; a step is
one contraction ``H R^T`` over all gates and one elementwise generic for the new state (a GRU that
resets before its recurrence needs two of each). Inside, tensors are [time, batch, ...].

The steps are a loop (`recurrence`). Few of them are unrolled, and so are those of sequences with
lengths, whose steps differ, and of rows that do not lie at addresses that a kernel takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.control import MAX_STEPS, MAX_TRIPS
from rcompiler.frontend.core import accumulator
from rcompiler.frontend.dtypes import bits
from rcompiler.frontend.ops.gather import expect_inside
from rcompiler.frontend.ops.unary import activation, sigmoid, softplus
from rcompiler.frontend.recurrence import Collected
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar

# From so many steps on they are a loop. What a first step multiplies zeros by is left out when the
# graph of rTasks is made (`passes.schedule.zero_products`).
LOOP_STEPS = 16
ALIGNMENT = 64  # bytes, of the operands of a kernel

Function = Callable[[Body, Scalar], Scalar]
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
# Activations with parameters: (alpha, beta) where not given, None for one it does not have.
PARAMETERS: dict[str, tuple[float | None, float | None]] = {
    "affine": (1.0, 0.0), "leakyrelu": (0.01, None), "thresholdedrelu": (1.0, None),
    "scaledtanh": (1.0, 1.0), "hardsigmoid": (0.2, 0.5), "elu": (1.0, None),
}  # fmt: skip


@dataclass
class Direction:
    """One direction of a layer.

    xw: gates' share of the inputs with biases [time, batch, gates, hidden]. r: recurrence weights
    [gates * hidden, hidden]. rb: bias inside the GRU's linear_before_reset. peephole: [3, hidden].
    h, c: state [batch, hidden], None for zeros. lens: [batch], None for whole sequences.
    """

    b: Builder
    batch: int
    hidden: int
    xw: Value
    r: Value
    rb: Value | None
    peephole: Value | None
    h: Value | None
    c: Value | None
    lens: Value | None
    functions: list[Function]
    coupled: bool = False
    linear_before_reset: bool = False

    def recur(self, h: Value, first: int, count: int) -> Value:
        """``h R^T`` for gates ``first .. first + count - 1``."""
        n = self.hidden
        r = self.b.slice_along(self.r, 0, first * n, count * n)
        out = self.b.contract(
            (h, "d0, d2"), (r, "d1, d2"), ([self.batch, count * n], "d0, d1"), "ppr"
        )
        return self.b.reshape(out, [self.batch, count, n])

    def state(self, inputs: Sequence[tuple[Value, str]], count: int, fn: Callable) -> list[Value]:
        """A generic over [batch, hidden] with ``count`` results."""
        outs = [(self.b.empty([self.batch, self.hidden], self.xw.dtype), "d0, d1")] * count
        return self.b.generic(inputs, outs, "pp", fn)

    def gate(self, value: Value, gate: int, t: int | None = None) -> tuple[Value, str]:
        """Operand that reads one gate of ``xw`` at step ``t``, or of a ``recur``."""
        if t is not None:  # a slice of the step: the body stays the same at every step
            value = self.b.reshape(self.b.slice_along(value, 0, t, 1), value.shape[1:])
        return value, f"d0, {gate}, d1"

    def step(
        self,
        t: int,
        inputs: Sequence[tuple[Value, str]],
        old: Sequence[Value | None],
        fn: Callable[..., list[Scalar]],
    ) -> list[Value]:
        """The states after step ``t``, which ``fn(s, *scalars)`` makes, and behind them what it
        shows, which is the first of them. An ended sequence keeps its states and shows zero.

        old: the states before the step, None for zeros.
        """
        if self.lens is None:
            made = self.state(inputs, len(old), lambda s, *args: fn(s, *args[: len(inputs)]))
            return [*made, made[0]]
        lens, kept = self.lens, list(inputs)
        for state in old:
            state = state or self.b.splat([self.batch, self.hidden], self.xw.dtype, 0)
            kept += [(lens, "d0"), (state, "d0, d1")]

        def body(s: Body, *args: Scalar) -> list[Scalar]:
            new, rest = fn(s, *args[: len(inputs)]), args[len(inputs) : len(kept)]
            going = s.const(t, lens.dtype) < rest[0]
            states = [s.select(going, n, o) for n, o in zip(new, rest[1::2], strict=True)]
            return [*states, s.select(going, new[0], 0)]

        return self.state(kept, len(old) + 1, body)


State = tuple[Value, "Value | None", Value]  # h, c, and what is shown of the step
Step = Callable[[Direction, int], State]


@lowering("LSTM", "GRU", "RNN")
def _recurrent(ctx: Context) -> list[Value | None]:
    ctx.need_float()
    b, by_batch = ctx.b, bool(ctx.attr("layout", 0))
    name = ctx.attr("direction", "forward")
    if name not in ("forward", "reverse", "bidirectional"):
        raise ctx.shape_error(f"direction '{name}' is unknown")
    values = _operands(ctx, 2 if name == "bidirectional" else 1, by_batch)
    x = values["x"]
    assert x is not None
    backward = [name == "reverse", True][: 2 if name == "bidirectional" else 1]
    step = {"LSTM": _lstm_step, "GRU": _gru_step, "RNN": _rnn_step}[ctx.op]
    layer: list[Direction] = []
    outputs: list[list[Value]] = []  # of unrolled steps, by time
    y: Value | None = None
    for column, reverse in enumerate(backward):
        d = _direction(ctx, values, column)
        layer.append(d)
        if not _may_loop(d, ctx.wants(0)):
            if x.shape[0] > MAX_TRIPS:
                raise ctx.refuse(
                    f"{x.shape[0]} time steps would be unrolled",
                    f"At most {MAX_TRIPS} are: leave out the lengths of sequences, or make batch "
                    "times hidden size a multiple of 16",
                )
            outputs.append(_unroll(d, step, reverse))
            continue
        if y is None and ctx.wants(0):
            y = b.empty([x.shape[0], len(backward), d.batch, d.hidden], d.xw.dtype)
        y = _loop(d, step, reverse, None if y is None else Collected(0, y, column))
    zeros = b.splat([layer[0].batch, layer[0].hidden], x.dtype, 0)
    states, cells = [d.h or zeros for d in layer], [d.c or zeros for d in layer]
    return _results(ctx, y, outputs, states, cells, by_batch)


def _may_loop(d: Direction, collects: bool) -> bool:
    """Whether the steps may be a loop. collects: the states of all steps are wanted."""
    steps, batch, gates, hidden = d.xw.shape
    rows = [gates, 1] if collects else [gates]
    item = bits(d.xw.dtype) // 8
    aligned = all(n * batch * hidden * item % ALIGNMENT == 0 for n in rows)
    possible = d.xw.size > 0 and d.lens is None and not d.b.in_step
    return steps >= LOOP_STEPS and possible and aligned


def _loop(d: Direction, step: Step, backward: bool, collected: Collected | None) -> Value | None:
    """All steps of a direction, which then has its last states; the tensor of all of them."""
    zeros = d.b.splat([d.batch, d.hidden], d.xw.dtype, 0)
    inits = [d.h or zeros, *([d.c or zeros] if step is _lstm_step else [])]

    def body(rows: Sequence[Value], before: Sequence[Value]) -> list[Value]:
        h, c = (*before, None)[:2]
        return [v for v in step(replace(d, xw=rows[0], h=h, c=c), 0)[:2] if v is not None]

    once = d.b.step([d.xw], inits, body)
    into = [] if collected is None else [collected]
    last, kept = d.b.repeat(once, [d.xw], inits, into, backward)
    d.h, d.c = (*last, None)[:2]
    return kept[0] if kept else None


def _unroll(d: Direction, step: Step, backward: bool) -> list[Value]:
    """The same, step by step: what is shown of each, by time."""
    times = range(d.xw.shape[0])
    shown: dict[int, Value] = {}
    for t in reversed(times) if backward else times:
        d.h, d.c, shown[t] = step(d, t)
    return [shown[t] for t in times]


def _results(
    ctx: Context,
    y: Value | None,
    outputs: list[list[Value]],
    states: list[Value],
    cells: list[Value],
    by_batch: bool,
) -> list[Value | None]:
    """Y [time, directions, batch, hidden], Y_h and Y_c [directions, batch, hidden].

    y: that of loops; outputs: of unrolled steps.
    """
    b, dtype = ctx.b, ctx.input(0).dtype
    batch, hidden = states[0].shape

    def stacked(parts: Sequence[Value], perm: list[int], lead: list[int]) -> Value:
        whole = b.concat([b.reshape(v, [1, batch, hidden]) for v in parts], 0)
        whole = b.reshape(b.cast(whole, dtype), [*lead, batch, hidden])
        return b.transpose(whole, perm) if by_batch else whole

    if y is not None:
        y = b.cast(y, dtype)
        y = b.transpose(y, [2, 0, 1, 3]) if by_batch else y
    elif ctx.wants(0):
        count, steps = len(outputs), len(outputs[0])
        if not steps:
            y = b.empty([batch, 0, count, hidden] if by_batch else [0, count, batch, hidden], dtype)
        else:
            parts = [o[t] for t in range(steps) for o in outputs]
            y = stacked(parts, [2, 0, 1, 3], [steps, count])
    ends = [
        stacked(s, [1, 0, 2], [len(states)]) if ctx.wants(i) else None
        for i, s in ((1, states), (2, cells))
    ]
    return [y, *ends[: 2 if ctx.op == "LSTM" else 1]]


def _wide(b: Builder, value: Value) -> Value:
    """16-bit floats as f32: the state is fed back, so that their rounding would add up."""
    if value.const is not None and accumulator(value.dtype) != value.dtype:
        return b.constant(value.const.astype(np.float32))
    return b.cast(value, accumulator(value.dtype))


def _operands(ctx: Context, directions: int, by_batch: bool) -> dict[str, Value | None]:
    """Inputs by name, checked, [time, batch, ...], with weights and states [direction, ...]."""
    b, x, gates = ctx.b, ctx.input(0), GATES[ctx.op]
    w, r = ctx.input(1), ctx.input(2)
    if x.rank != 3 or w.rank != 3 or r.rank != 3:
        raise ctx.shape_error("X, W and R have three dimensions")
    x = b.transpose(x, [1, 0, 2]) if by_batch else x
    (steps, batch, width), hidden = x.shape, r.shape[2]
    if steps > MAX_STEPS:
        raise ctx.refuse(f"it has {steps} time steps", f"At most {MAX_STEPS} are compiled")
    names = {3: "bias", 4: "lens", 5: "h", 6: "c", 7: "peephole"}
    rest = {name: ctx.optional(i) for i, name in names.items() if ctx.op == "LSTM" or i < 6}
    for name in ("h", "c"):
        state = rest.get(name)
        if state is not None and by_batch and state.rank == 3:
            rest[name] = b.transpose(state, [1, 0, 2])
    n = gates * hidden
    wanted = {
        "w": (directions, n, width), "r": (directions, n, hidden), "bias": (directions, 2 * n),
        "lens": (batch,), "h": (directions, batch, hidden), "c": (directions, batch, hidden),
        "peephole": (directions, 3 * hidden),
    }  # fmt: skip
    values: dict[str, Value | None] = {"w": w, "r": r, **rest}
    for name, value in values.items():
        if value is not None and value.shape != wanted[name]:
            raise ctx.shape_error(
                f"'{name}' has shape {list(value.shape)}, expected {list(wanted[name])}"
            )
    values = {
        k: v if v is None or k == "lens" else _wide(b, v) for k, v in {**values, "x": x}.items()
    }
    lens = values["lens"]
    if lens is not None:
        expect_inside(ctx, lens, steps)
    if lens is not None and lens.const is not None and (lens.const >= steps).all():
        values["lens"] = None
    return values


def _direction(ctx: Context, values: dict[str, Value | None], d: int) -> Direction:
    b, gates = ctx.b, GATES[ctx.op]

    def part(name: str) -> Value | None:
        value = values.get(name)
        if value is None:
            return None
        return b.reshape(b.slice_along(value, 0, d, 1), value.shape[1:])

    x, w, r, bias = values["x"], part("w"), part("r"), part("bias")
    assert x is not None and w is not None and r is not None
    steps, batch, _ = x.shape
    hidden = r.shape[1]
    xw = b.contract(
        (x, "d0, d1, d3"), (w, "d2, d3"), ([steps, batch, gates * hidden], "d0, d1, d2"), "pppr"
    )
    rb = None
    before_reset = bool(ctx.attr("linear_before_reset", 0))
    if bias is not None:
        xw, rb = _add_bias(ctx, xw, bias, hidden, before_reset)
    count = len(DEFAULTS[ctx.op])
    functions = _functions(ctx)[d * count : (d + 1) * count]
    xw, peephole = b.reshape(xw, [steps, batch, gates, hidden]), part("peephole")
    if peephole is not None:
        peephole = b.reshape(peephole, [3, hidden])
    return Direction(
        b,
        batch,
        hidden,
        xw,
        r,
        rb,
        peephole,
        part("h"),
        part("c"),
        values["lens"],
        functions,
        bool(ctx.attr("input_forget", 0)),
        before_reset,
    )


def _add_bias(
    ctx: Context, xw: Value, bias: Value, hidden: int, before_reset: bool
) -> tuple[Value, Value | None]:
    """The inputs' products with both biases added; the GRU's recurrent bias of its last gate."""
    b, n = ctx.b, GATES[ctx.op] * hidden
    wb, rb = b.slice(bias, [0], [n]), b.slice(bias, [n], [n])
    inner = rb
    if ctx.op == "GRU" and before_reset:  # the last gate's Rb is multiplied by the reset gate
        zeros = b.splat([hidden], bias.dtype, 0)
        inner = b.concat([b.slice(rb, [0], [2 * hidden]), zeros], 0)
    if wb.const is not None and inner.const is not None:
        xw = b.elementwise(lambda s, a, c: a + c, xw, b.constant(wb.const + inner.const, wb.dtype))
    else:
        xw = b.elementwise(lambda s, a, c, e: a + c + e, xw, wb, inner)
    return xw, b.slice(rb, [2 * hidden], [hidden]) if ctx.op == "GRU" else None


def _functions(ctx: Context) -> list[Function]:
    """The activations of all directions, with their clip and parameters.

    `clip` bounds what gates are computed of. The standard has it bound "the input of activations",
    of which an LSTM has one more, that of the cell on its way to the hidden state. onnxruntime,
    for which models with `clip` are exported, leaves the cell as it is, and so do we.
    """
    directions = 2 if ctx.attr("direction", "forward") == "bidirectional" else 1
    names = ctx.attr("activations") or DEFAULTS[ctx.op] * directions
    if len(names) != directions * len(DEFAULTS[ctx.op]):
        raise ctx.shape_error(f"{len(names)} activations do not fit the operator")
    alphas, betas = iter(ctx.attr("activation_alpha", [])), iter(ctx.attr("activation_beta", []))
    clip = ctx.attr("clip", 0.0)
    out: list[Function] = []
    for index, name in enumerate(names):
        # Values are consumed by those activations that have a parameter, in their order.
        alpha, beta = PARAMETERS.get(name.lower(), (None, None))
        alpha = None if alpha is None else next(alphas, alpha)
        beta = None if beta is None else next(betas, beta)
        fn = _function(name.lower(), alpha or 0.0, beta or 0.0)
        if fn is None:
            raise ctx.shape_error(f"the activation '{name}' is unknown")
        of_gate = index % len(DEFAULTS[ctx.op]) < 2  # the third is the LSTM's, of its cell
        out.append(_clipped(fn, clip) if clip and of_gate else fn)
    return out


def _clipped(fn: Function, bound: float) -> Function:
    return lambda s, x: fn(s, s.clamp(x, -bound, bound))


def _function(name: str, alpha: float, beta: float) -> Function | None:
    simple: dict[str, Function] = {
        "relu": lambda s, x: s.maximum(x, 0.0),
        "tanh": lambda s, x: s.tanh(x),
        "sigmoid": sigmoid,
        "affine": lambda s, x: x * alpha + beta,
        "scaledtanh": lambda s, x: s.tanh(x * beta) * alpha,
        "softsign": lambda s, x: x / (s.abs(x) + 1.0),
        "softplus": softplus,
    }
    spelled = {op.lower(): op for op in ("LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Elu")}
    if name in simple or name not in spelled:
        return simple.get(name)
    return activation(spelled[name], {"alpha": alpha, "beta": beta}.get)


def _lstm_step(d: Direction, t: int) -> State:
    f, g, h_function = d.functions
    inputs = [d.gate(d.xw, i, t) for i in range(4)]
    if d.h is not None:
        hr = d.recur(d.h, 0, 4)
        inputs += [d.gate(hr, i) for i in range(4)]
    if d.c is not None:
        inputs.append((d.c, "d0, d1"))
    if d.peephole is not None:
        inputs += [(d.peephole, f"{i}, d1") for i in range(3)]

    def body(s: Body, *args: Scalar) -> list[Scalar]:
        rest = iter(args[4:])
        i, o, forget, c = args[:4]
        if d.h is not None:
            i, o, forget, c = (a + next(rest) for a in (i, o, forget, c))
        old = next(rest) if d.c is not None else None
        pi, po, pf = [next(rest) for _ in range(3)] if d.peephole is not None else [None] * 3
        if pi is not None and pf is not None and old is not None:
            i, forget = i + pi * old, forget + pf * old
        i = f(s, i)
        cell = i * g(s, c)
        if old is not None:
            cell = (1.0 - i if d.coupled else f(s, forget)) * old + cell
        o = f(s, o if po is None else o + po * cell)
        return [o * h_function(s, cell), cell]

    h, c, shown = d.step(t, inputs, [d.h, d.c], body)
    return h, c, shown


def _rnn_step(d: Direction, t: int) -> State:
    inputs = [d.gate(d.xw, 0, t)]
    if d.h is not None:
        inputs.append(d.gate(d.recur(d.h, 0, 1), 0))

    def body(s: Body, *args: Scalar) -> list[Scalar]:
        return [d.functions[0](s, args[0] + args[1] if len(args) == 2 else args[0])]

    h, shown = d.step(t, inputs, [d.h], body)
    return h, None, shown


def _gru_step(d: Direction, t: int) -> State:
    """``h = (1 - z) * g(...) + z * h``, gates z, r, h."""
    f, g = d.functions
    if d.h is None:
        d.h = d.b.splat([d.batch, d.hidden], d.xw.dtype, 0)
    old = d.h
    if d.linear_before_reset:
        hr = d.recur(old, 0, 3)
        inputs = [d.gate(hr, i) for i in (0, 2, 1)]
    else:
        hr = d.recur(old, 0, 2)
        reset = d.state(
            [d.gate(hr, 1), d.gate(d.xw, 1, t), (old, "d0, d1")],
            1,
            lambda s, a, x, h, _: f(s, a + x) * h,
        )[0]
        inputs = [d.gate(hr, 0), d.gate(d.recur(reset, 2, 1), 0)]
    split = len(inputs)
    inputs += [d.gate(d.xw, 0, t), d.gate(d.xw, 2, t), (old, "d0, d1")]
    if d.linear_before_reset:
        inputs.append(d.gate(d.xw, 1, t))
        inputs += [(d.rb, "d1")] if d.rb is not None else []

    def body(s: Body, *args: Scalar) -> list[Scalar]:
        (hz, hh), (xz, xh, h) = args[:2], args[split : split + 3]
        z = f(s, hz + xz)
        if d.linear_before_reset:
            inner = hh + args[split + 4] if d.rb is not None else hh
            hh = f(s, args[2] + args[split + 3]) * inner
        return [(1.0 - z) * g(s, xh + hh) + z * h]

    h, shown = d.step(t, inputs, [old], body)
    return h, None, shown
