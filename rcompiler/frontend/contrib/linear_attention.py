"""Attention whose keys and values are summed up in a state, which decays and learns with each step:
LinearAttention and GatedDeltaNet.

    S = exp(decay) * S + key * (beta * (value - key . exp(decay) * S)),   result = scale * query . S

for the state S [size, width] of each head. Steps are those of a Scan, however many there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from .node import Node, Result, operator

_RULES = ("linear", "gated", "delta", "gated_delta")
_F32 = "float32"


@operator(
    "LinearAttention",
    "query:T key:T value:T past_state:U? decay:T? beta:T?",
    outputs=2,
    chunk_size=64,
    kv_num_heads=int,
    q_num_heads=int,
    scale=0.0,
    state_window=0,
    update_rule="gated_delta",
)
def _linear_attention(n: Node) -> Result:
    """A state of keys and values that decays and learns with each step; result 1 is the last one.
    Without windows of states."""
    if n.attr("state_window"):
        raise n.refuse("state_window is not translated", "Leave it out")
    rule, heads, queries = _rule(n), n.attr("kv_num_heads"), n.attr("q_num_heads")
    batch, steps, columns = n.shape("query", 3)
    if heads < 1 or queries < 1 or max(heads, queries) % min(heads, queries):
        raise n.shape_error(f"{queries} heads of queries do not fit {heads} of keys")
    size, width = columns // queries, n.shape("value", 3)[2] // heads
    n.need_shape("query", (batch, steps, queries * size))
    n.need_shape("key", (batch, steps, heads * size))
    n.need_shape("value", (batch, steps, heads * width))
    n.need_shape("past_state", (batch, heads, size, width))
    n.need_shape("decay", (batch, steps, heads * size), (batch, steps, heads))
    n.need_shape("beta", (batch, steps, heads), (batch, steps, 1))
    if not n.has("past_state"):
        state = n.op("Expand", n.constant(0, _F32), n.ints(batch, heads, size, width))
    else:
        state = n.cast("past_state", _F32)
    each = {"query": (queries, size), "key": (heads, size), "value": (heads, width)}
    if "gated" in rule:
        each["decay"] = (heads, n.shape("decay")[2] // heads)
    if "delta" in rule:
        each["beta"] = (n.shape("beta")[2], 1)
    rows = {
        name: n.reshaped(n.cast(name, _F32), batch, steps, *form) for name, form in each.items()
    }
    state, y = _over_steps(n, rows, state, steps, _scale(n, size), queries, heads)
    y = n.cast(n.reshaped(y, batch, steps, max(queries, heads) * width), n.dtype("query"))
    kind = n.dtype("past_state") if n.has("past_state") else n.dtype("query")
    return [y, n.cast(state, kind)]


def _rule(n: Node) -> str:
    """The update rule, of which all that it needs is there."""
    rule = str(n.attr("update_rule"))
    if rule not in _RULES:
        raise n.shape_error(f"update_rule '{rule}' is none of {', '.join(_RULES)}")
    for name, needed in (("decay", "gated" in rule), ("beta", "delta" in rule)):
        if needed and not n.has(name):
            raise n.shape_error(f"'{name}' is missing, which update_rule '{rule}' needs")
    return rule


def _scale(n: Node, size: int) -> float:
    return float(n.attr("scale")) or 1 / math.sqrt(max(size, 1))


def _over_steps(
    n: Node,
    rows: Mapping[str, str],
    state: str,
    steps: int,
    scale: float,
    queries: int,
    heads: int,
    own: str = "",
) -> tuple[str, str]:
    """The last state, and what the queries find in each: [batch, steps, heads, width].

    rows: f32 [batch, steps, heads, size] of each name. state: f32 [batch, heads, size, width]. own:
    f32 [steps, sequences, 1, 1, 1], 1 for the sequence that a step is of where a batch is one row
    of steps of all sequences, whose states `state` are.
    """

    def step(state: str, at: Mapping[str, str], mask: str) -> tuple[str, str]:
        after = _learned(n, state, at)
        found = _read(n, after, at["query"], queries, heads)
        if mask:
            zero = n.constant(0, _F32)
            mine = n.op("Greater", mask, zero)
            after = n.op("Where", mine, after, state)
            found = n.op("Where", n.op("Squeeze", mine, n.ints(-1)), found, zero)
            found = n.op("ReduceSum", found, n.ints(0))
        return after, n.scaled(found, scale, _F32)

    names = list(rows)
    if steps == 1 and not own:
        state, y = step(state, {name: n.op("Squeeze", rows[name], n.ints(1)) for name in rows}, "")
        return state, n.unsqueezed(y, 1)

    def body(before: list[str], items: list[str]) -> tuple[list[str], list[str]]:
        at = dict(zip(names, items, strict=False))
        after, found = step(before[0], at, items[-1] if own else "")
        return [after], [found]

    scanned = [n.transposed(rows[name], 1, 0, 2, 3) for name in names]
    state, y = n.scan(body, [state], [*scanned, own] if own else scanned, _F32)
    return state, n.transposed(y, 1, 0, 2, 3)


def _learned(n: Node, state: str, at: Mapping[str, str]) -> str:
    """The state behind a step. at: what the step brings, [batch, heads, size] each."""
    if "decay" in at:
        state = n.op("Mul", state, n.op("Exp", n.unsqueezed(at["decay"], -1)))
    value = n.unsqueezed(at["value"], 2)
    if "beta" in at:
        known = n.op("MatMul", n.unsqueezed(at["key"], 2), state)
        value = n.op("Mul", n.op("Sub", value, known), n.unsqueezed(at["beta"], -1))
    return n.op("Add", state, n.op("Mul", n.unsqueezed(at["key"], -1), value))


def _read(n: Node, state: str, query: str, queries: int, heads: int) -> str:
    """What the queries find in the state: [batch, heads, width]. Heads of keys, or of queries, that
    are fewer serve as many of the others as follow each other.
    """
    rows = n.unsqueezed(query, 2)  # [batch, queries, 1, size]
    if queries > heads:  # all of one head of keys at once
        rows = n.op("Reshape", query, n.ints(0, heads, queries // heads, -1))
    elif queries < heads:
        wide = n.op("Expand", n.unsqueezed(query, 2), n.ints(1, 1, heads // queries, 1))
        rows = n.op("Reshape", wide, n.ints(0, heads, 1, -1))
    found = n.op("MatMul", rows, state)
    return n.op("Reshape", found, n.ints(0, max(queries, heads), -1))


@operator(
    "GatedDeltaNet",
    "query:T key:T? value:T? cu_seqlens:I? decay:U? beta:U? initial_state:U1? a_log:U1? "
    "dt_bias:U1? capture_count:I? state_update_active:I?",
    outputs=2,
    beta_activation="none",
    chunk_size=64,
    gate_activation="none",
    gate_lower_bound=-5.0,
    qk_l2_norm=0,
    scale=0.0,
    state_update_capacity=0,
    update_rule="gated_delta",
)
def _gated_delta_net(n: Node) -> Result:
    """LinearAttention of tokens [tokens, heads, size], of sequences of one length, or of lengths
    that `cu_seqlens` says while the model runs, with its gates; without updates of the state as a
    result."""
    if n.attr("state_update_capacity"):
        raise n.refuse("state_update_capacity is not translated", "Use the last state")
    if n.has("capture_count"):
        raise n.shape_error("'capture_count' is given, and state_update_capacity is 0")
    rule, form = _rule(n), _form(n)
    rows = {"query": form.query, "key": form.key, "value": form.value}
    each = {"query": form.size, "key": form.size, "value": form.width}
    for name in ("query", "key"):
        if n.attr("qk_l2_norm"):
            rows[name] = _normalised(n, rows[name])
        rows[name] = _spread(n, rows[name], form)
    if "gated" in rule:
        rows["decay"], each["decay"] = _decay(n, form)
    if "delta" in rule:
        rows["beta"], each["beta"] = _beta(n, form), 1
    batch, steps = (1, form.tokens) if n.has("cu_seqlens") else (form.batch, form.steps)
    rows = {name: n.reshaped(x, batch, steps, form.heads, each[name]) for name, x in rows.items()}
    if n.has("initial_state"):
        state = n.transposed(n.cast("initial_state", _F32), 0, 1, 3, 2)
    else:
        shape = n.ints(form.batch, form.heads, form.size, form.width)
        state = n.op("Expand", n.constant(0, _F32), shape)
    state, y = _over_steps(
        n, rows, state, steps, _scale(n, form.size), form.heads, form.heads, form.own
    )
    y = n.reshaped(n.cast(y, n.dtype("query")), *form.lead, form.heads, form.width)
    return [y, n.transposed(state, 0, 1, 3, 2)]


@dataclass(frozen=True)
class _Form:
    """f32 [tokens, heads, size] of queries, of keys and of values, and all extents.

    lead: the dimensions of tokens. steps: of each sequence; of all where they have lengths of their
    own, which `own` then says, see `_over_steps`.
    """

    query: str
    key: str
    value: str
    lead: tuple[int, ...]
    batch: int
    steps: int
    shared: int  # heads of queries and keys
    heads: int  # of values
    size: int
    width: int
    own: str = ""

    @property
    def tokens(self) -> int:
        return math.prod(self.lead)


def _form(n: Node) -> _Form:
    state = n.shape("initial_state", 4) if n.has("initial_state") else None
    if n.has("key") != n.has("value"):
        raise n.shape_error("'key' and 'value' come together")
    if n.has("key"):
        *lead, shared, size = n.shape("query")
        *_, heads, width = n.shape("value") if len(lead) in (1, 2) else (0, 0)
        n.need_shape("key", (*lead, shared, size))
        n.need_shape("value", (*lead, heads, width))
        parts = [n.cast(name, _F32) for name in ("query", "key", "value")]
    elif state is None:
        raise n.shape_error("'initial_state' is missing, which packed queries need")
    else:
        *lead, columns = n.shape("query")
        _, heads, width, size = state
        shared = (columns - heads * width) // (2 * size) if size else 0
        n.need_shape("query", (*lead, 2 * shared * size + heads * width))
        extents = (shared * size, shared * size, heads * width)
        parts = n.split(n.cast("query", _F32), -1, *extents)
    if len(lead) not in (1, 2) or shared < 1 or heads < 1 or heads % shared:
        raise n.shape_error(f"{heads} heads of values do not share {shared} of keys")
    tokens = math.prod(lead)
    shapes = ((tokens, shared, size), (tokens, shared, size), (tokens, heads, width))
    q, k, v = (n.reshaped(x, *shape) for x, shape in zip(parts, shapes, strict=True))
    batch = _batch(n, tuple(lead), state)
    n.need_shape("initial_state", (batch, heads, width, size))
    own = _own(n, tokens, batch) if n.has("cu_seqlens") else ""
    steps = tokens if own else tokens // max(batch, 1)
    return _Form(q, k, v, tuple(lead), batch, steps, shared, heads, size, width, own)


def _batch(n: Node, lead: tuple[int, ...], state: tuple[int, ...] | None) -> int:
    """How many sequences there are."""
    if n.has("cu_seqlens"):
        if len(lead) != 1:
            raise n.shape_error("'cu_seqlens' is of queries [tokens, heads, size]")
        (count,) = n.shape("cu_seqlens", 1)
        return count - 1
    if len(lead) == 2:
        return lead[0]
    if state is None:
        raise n.shape_error("'cu_seqlens' or 'initial_state' has to say how many sequences are")
    if not state[0] or lead[0] % state[0]:
        raise n.shape_error(f"{lead[0]} tokens are not those of {state[0]} sequences")
    return state[0]


def _own(n: Node, tokens: int, batch: int) -> str:
    """1 where a token is of a sequence: f32 [tokens, batch, 1, 1, 1]."""
    ends = n.cast("cu_seqlens", "int64")
    at = n.constant(np.arange(tokens, dtype=np.int64)[:, None])
    behind = n.op("GreaterOrEqual", at, n.sliced(ends, 0, 0, batch))
    before = n.op("Less", at, n.sliced(ends, 0, 1, batch + 1))
    return n.reshaped(n.cast(n.op("And", behind, before), _F32), tokens, batch, 1, 1, 1)


def _normalised(n: Node, x: str) -> str:
    """Each row by the root of the sum of its squares."""
    total = n.op("ReduceSum", n.op("Mul", x, x), n.ints(-1))
    return n.op("Div", x, n.op("Sqrt", n.op("Add", total, n.constant(1e-6, _F32))))


def _spread(n: Node, x: str, form: _Form) -> str:
    """Heads of keys for each head of values."""
    if form.shared == form.heads:
        return x
    each = form.heads // form.shared
    wide = n.op("Expand", n.unsqueezed(x, 2), n.ints(1, 1, each, 1))
    return n.reshaped(wide, form.tokens, form.heads, form.size)


_GATES: dict[str, Callable[[Node, str, str], str]] = {
    "none": lambda n, x, _: x,
    "softplus": lambda n, x, a: n.op("Neg", n.op("Mul", a, n.op("Softplus", x))),
    "sigmoid": lambda n, x, a: n.op(
        "Mul", n.op("Sigmoid", n.op("Mul", a, x)), n.constant(n.attr("gate_lower_bound"), _F32)
    ),
}
_OTHER_NAMES = {"qwen": "softplus", "kda": "sigmoid"}


def _decay(n: Node, form: _Form) -> tuple[str, int]:
    """f32 of tokens and heads, and how many numbers there are for one."""
    n.need_shape("decay", (*form.lead, form.heads), (*form.lead, form.heads, form.size))
    each = form.size if len(n.shape("decay")) > len(form.lead) + 1 else 1
    x = n.reshaped(n.cast("decay", _F32), form.tokens, form.heads, each)
    name = str(n.attr("gate_activation"))
    gate = _GATES.get(_OTHER_NAMES.get(name, name))
    if gate is None:
        raise n.shape_error(f"gate_activation '{name}' is none of {', '.join(_GATES)}")
    if name == "none":
        return x, each
    n.need_shape("a_log", (form.heads,))
    n.need_shape("dt_bias", (form.heads,), (form.heads, each), (form.heads * each,))
    for given in ("a_log", "dt_bias"):
        if not n.has(given):
            raise n.shape_error(f"'{given}' is missing, which gate_activation '{name}' needs")
    bias = n.op("Reshape", n.cast("dt_bias", _F32), n.ints(form.heads, -1))
    slope = n.reshaped(n.op("Exp", n.cast("a_log", _F32)), form.heads, 1)
    return gate(n, n.op("Add", x, bias), slope), each


def _beta(n: Node, form: _Form) -> str:
    n.need_shape("beta", (*form.lead, form.heads))
    kind, x = n.attr("beta_activation"), n.cast("beta", _F32)
    if kind not in ("none", "sigmoid"):
        raise n.shape_error(f"beta_activation '{kind}' is neither none nor sigmoid")
    return n.op("Sigmoid", x) if kind == "sigmoid" else x
