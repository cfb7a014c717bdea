"""VarlenCausalConvWithState: convolutions of the tokens of several sequences, one behind the other.

What a token reads is gathered: of the tokens before it, or of the state of its sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .activations import silu
from .node import Node, Result, operator


@dataclass(frozen=True)
class _Tokens:
    """tokens, batch, kept: how many there are, of how many sequences, and in the state of each.
    first, end: of each sequence, int64 [batch]. rows: all tokens and, behind them, all states.
    """

    tokens: int
    batch: int
    kept: int
    first: str
    end: str
    rows: str

    def read(self, n: Node, places: str, first: str, sequence: str) -> str:
        """Rows at places of sequences, those before a sequence's begin of its state. first: where
        sequences begin; sequence: their numbers.
        """
        inside = n.op("GreaterOrEqual", places, n.constant(0, "int64"))
        states = n.op("Mul", sequence, n.constant(self.kept, "int64"))
        end = n.op("Add", states, n.constant(self.tokens + self.kept, "int64"))
        at = n.op("Add", places, n.op("Where", inside, first, end))
        return n.op("Gather", self.rows, at, axis=0)


@operator(
    "VarlenCausalConvWithState",
    "input:T weight:T cumulative_sequence_length:I bias:T? initial_state:T capture_count:I?",
    outputs=3,
    activation="none",
    delta_offset=0,
    dilation=1,
    group_size=1,
    state_update_capacity=0,
)
def _causal_conv_of_tokens(n: Node) -> Result:
    """CausalConvWithState of tokens [tokens, channels] of several sequences, whose ends a call
    says; result 2 has the first tokens of each. Without grouped deltas of the weights."""
    if n.attr("activation") not in ("none", "silu", "swish"):
        raise n.refuse(f"activation '{n.attr('activation')}' is not translated", "Use silu or none")
    given = _tokens(n)
    y = n.add(_convolved(n, given), "bias")
    y = y if n.attr("activation") == "none" else silu(n, y)
    last = n.constant(np.arange(given.kept, dtype=np.int64) - given.kept)
    places = n.op("Add", n.unsqueezed(n.op("Sub", given.end, given.first), 1), last)
    numbers = n.constant(np.arange(given.batch, dtype=np.int64)[:, None])
    state = given.read(n, places, n.unsqueezed(given.first, 1), numbers)
    return [y, n.transposed(state, 0, 2, 1), _captured(n, given) if n.wants(2) else None]


def _tokens(n: Node) -> _Tokens:
    (tokens, channels), dilation = n.shape("input", 2), n.attr("dilation")
    batch, taps = n.shape("cumulative_sequence_length", 1)[0] - 1, n.shape("weight", 3)[2]
    kept, room = (taps - 1) * dilation, n.attr("state_update_capacity")
    if dilation < 1 or room < 0 or batch < 1 or n.has("capture_count") != bool(room):
        raise n.shape_error(
            "dilation is at least 1, and 'capture_count' is there where state_update_capacity is"
        )
    n.need_shape("weight", (channels, 1, taps))
    n.need_shape("bias", (channels,))
    n.need_shape("initial_state", (batch, channels, kept))
    n.need_shape("capture_count", (batch,))
    ends = n.cast("cumulative_sequence_length", "int64")
    states = n.reshaped(n.transposed("initial_state", 0, 2, 1), batch * kept, channels)
    return _Tokens(
        tokens,
        batch,
        kept,
        n.sliced(ends, 0, 0, batch),
        n.sliced(ends, 0, 1, batch + 1),
        n.op("Concat", "input", states, axis=0),
    )


def _convolved(n: Node, given: _Tokens) -> str:
    """The sum over the taps: [tokens, channels]. Tokens behind all sequences are of the last."""
    numbers = n.constant(np.arange(given.tokens, dtype=np.int64))
    behind = n.op("GreaterOrEqual", n.unsqueezed(numbers, 1), given.end)
    own = n.op("ReduceSum", n.cast(behind, "int64"), n.ints(1), keepdims=0)
    own = n.op("Min", own, n.constant(given.batch - 1, "int64"))
    first = n.op("Gather", given.first, own)
    place = n.op("Sub", numbers, first)
    channels, _, taps = n.shape("weight")
    weights = n.transposed(n.reshaped("weight", channels, taps), 1, 0)
    parts: Sequence[str] = [
        n.op(
            "Mul",
            given.read(n, n.op("Sub", place, _back(n, taps - 1 - tap)), first, own),
            n.sliced(weights, 0, tap, tap + 1),
        )
        for tap in range(taps)
    ]
    return n.add(*parts)


def _back(n: Node, taps: int) -> str:
    return n.constant(taps * n.attr("dilation"), "int64")


def _captured(n: Node, given: _Tokens) -> str:
    """The first tokens of each sequence, as many as it says, and zeros: [batch, room, channels]."""
    slots = n.constant(np.arange(n.attr("state_update_capacity"), dtype=np.int64))
    lengths = n.op("Sub", given.end, given.first)
    count = n.op("Min", n.cast("capture_count", "int64"), lengths)
    at = n.op("Add", n.unsqueezed(given.first, 1), slots)
    at = n.op("Min", at, n.constant(given.tokens - 1, "int64"))
    there = n.unsqueezed(n.op("Less", slots, n.unsqueezed(count, 1)), 2)
    found = n.op("Gather", "input", at, axis=0)
    return n.op("Where", there, found, n.constant(0, n.dtype("input")))
