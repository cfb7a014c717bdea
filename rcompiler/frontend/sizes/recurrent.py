"""LSTM, GRU and RNN over a number of steps, or with a batch, that is known at run time only."""

from __future__ import annotations

from dataclasses import replace

from rcompiler.frontend.builder import Value
from rcompiler.frontend.registry import Context, Lowering
from rcompiler.frontend.sized import bare
from rcompiler.frontend.value import SizeAtRunTime

from .rules import Results, need_along, need_whole, of_whole, rule, with_extents


@rule("LSTM", "GRU", "RNN")
def _recurrent(ctx: Context, lower: Lowering) -> Results:
    """A state depends on the steps before it: forward, what is not there comes behind all that is.

    Otherwise its number is the length of each sequence.
    """
    b, x, by_batch = ctx.b, ctx.input(0), bool(ctx.attr("layout", 0))
    need_whole(ctx, 1, 2, 3, 7)
    need_along(ctx, x, [2])
    steps, batch = (x.extents[1], x.extents[0]) if by_batch else x.extents[:2]
    for index, axis in ((4, 0), (5, 0 if by_batch else 1), (6, 0 if by_batch else 1)):
        value = ctx.optional(index)
        if value is not None and value.extents[axis] != batch:
            raise SizeAtRunTime(f"input {index} is of another batch than input 0")
    state = (batch, None, None) if by_batch else (None, batch, None)
    all_states = (batch, steps, None, None) if by_batch else (steps, None, batch, None)
    if steps is None:
        return with_extents(ctx, of_whole(ctx, lower), all_states, state, state)
    forward = ctx.attr("direction", "forward") == "forward"
    if forward and ctx.optional(4) is None and not ctx.wants(2) and steps.lowest > 0:
        made = of_whole(replace(ctx, outputs=["states"]), lower)
        (y,) = with_extents(ctx, made[:1], all_states)
        last = b.picked(y, 1 if by_batch else 0, steps - 1, 1)
        order = [n for d, n in enumerate(last.shape) if d != (1 if by_batch else 0)]
        return [y, b.reshape(last, order, state)]
    lens = _lengths(ctx, x, by_batch)
    inputs = [*ctx.inputs, *[None] * (5 - len(ctx.inputs))]
    inputs[4] = lens
    return with_extents(ctx, of_whole(replace(ctx, inputs=inputs), lower), all_states, state, state)


def _lengths(ctx: Context, x: Value, by_batch: bool) -> Value:
    """The least of how many steps there are and how many are given, for each entry of a batch."""
    b, given = ctx.b, ctx.optional(4)
    count = b.number(x.sizes[1 if by_batch else 0])
    if given is None:
        of_batch = x.shape[0 if by_batch else 1]
        return b.broadcast_to(b.reshape(b.cast(count, "int32"), [1]), [of_batch])
    return b.elementwise(lambda s, n, m: s.minimum(n, s.cast(m, n.dtype)), bare(given), count)
