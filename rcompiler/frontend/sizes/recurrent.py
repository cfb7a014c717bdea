"""LSTM, GRU and RNN over a number of steps, or with a batch, that is known at run time only."""

from __future__ import annotations

from dataclasses import replace

from rcompiler.frontend.builder import Value
from rcompiler.frontend.ops.gather import expect_inside
from rcompiler.frontend.registry import Context, Lowering
from rcompiler.frontend.sized import bare
from rcompiler.frontend.value import SizeAtRunTime
from rcompiler.support.extent import SIZE_BESIDE, Size, lowest

from .agreement import fitted
from .rules import Results, is_partial, need_along, need_whole, of_whole, rule, with_extents


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
    lens = ctx.optional(4)
    if steps is None and not is_partial(lens):
        return with_extents(ctx, of_whole(ctx, lower), all_states, state, state)
    forward = ctx.attr("direction", "forward") == "forward"
    shows_all = forward and lens is None and not ctx.wants(2)
    if shows_all and steps is not None and steps.lowest > 0:
        made = of_whole(replace(ctx, outputs=["states"]), lower)
        (y,) = with_extents(ctx, made[:1], all_states)
        last = b.picked(y, 1 if by_batch else 0, steps - 1, 1)
        order = [n for d, n in enumerate(last.shape) if d != (1 if by_batch else 0)]
        return [y, b.reshape(last, order, state)]
    inputs = [*ctx.inputs, *[None] * (5 - len(ctx.inputs))]
    inputs[4] = _lengths(ctx, x, by_batch)
    return with_extents(ctx, of_whole(replace(ctx, inputs=inputs), lower), all_states, state, state)


def _lengths(ctx: Context, x: Value, by_batch: bool) -> Value:
    """How many steps each entry of a batch has: so many as are given, or all that are there.

    Lengths are looked at where entries are there, and against the steps that are there; beyond
    these they are bounded, so that the translation of whole tensors finds nothing to look at.
    """
    b, given, axis = ctx.b, ctx.optional(4), 1 if by_batch else 0
    count, most, varies = b.number(x.sizes[axis]), x.shape[axis], x.extents[axis] is not None
    if given is None:
        of_batch = x.shape[0 if by_batch else 1]
        lens = b.broadcast_to(b.reshape(b.cast(count, "int32"), [1]), [of_batch])
    else:
        if not varies or given.const is not None:
            expect_inside(ctx, given, most)
        if varies:
            _expect_steps(ctx, given, x.sizes[axis])
        lens = b.elementwise(lambda s, n, m: s.clamp(n, 0, s.cast(m, n.dtype)), bare(given), count)
    lens.known = 0, most
    return lens


def _expect_steps(ctx: Context, lengths: Value, steps: Size) -> None:
    """Of lengths that they are not above a number of steps that a run tells."""
    b, reader = ctx.b, f"{ctx.op} '{ctx.name}'"
    count = b.number(steps)
    wrong = b.elementwise(
        lambda s, n, m: s.select((n < 0) | (s.cast(n, "int64") > m), n, 0), lengths, count
    )
    sentence = (
        f"{reader} is given a length of {{}}, and it is from 0 to {SIZE_BESIDE}, the number of "
        f"steps in this call ('{steps}')"
    )
    b.expect(wrong, 0, 0, reader, lengths, sentence, count)


@rule("ReverseSequence")
def _reverse_sequence(ctx: Context, lower: Lowering) -> Results:
    """What is turned round lies at the start; what is no sequence has no steps."""
    x, given = ctx.input(0), ctx.input(1)
    time, batch = ctx.attr("time_axis", 0), ctx.attr("batch_axis", 1)
    if x.rank < 2 or {time, batch} != {0, 1} or given.rank != 1:
        return lower(ctx)
    lengths = ctx.b.masked(fitted(ctx, given, 0, x.sizes[batch]))
    if x.extents[time] is not None:
        _expect_steps(ctx, lengths, x.sizes[time])
    return with_extents(ctx, of_whole(ctx, lower, {1: lengths}), x.extents)


@rule("RotaryEmbedding")
def _rotary(ctx: Context, lower: Lowering) -> Results:
    """Each step of each sequence by itself."""
    x, flat = ctx.input(0), ctx.input(0).rank == 3
    need_along(ctx, x, [2] if flat else [1, 3])
    batch, steps = x.sizes[0], x.sizes[1 if flat else 2]
    given: dict[int, Value] = {}
    for number in (1, 2, 3):
        value = ctx.optional(number)
        if value is None:
            continue
        if ctx.has(3) and number < 3:
            need_whole(ctx, number)
            continue
        if value.rank != (2 if number == 3 else 3):
            return lower(ctx)
        if value.sizes[0] not in (1, batch):
            if lowest(value.sizes[0]) <= 1:
                raise SizeAtRunTime(f"{value.sizes[0]} rows may be one for all of {batch}")
            value = fitted(ctx, value, 0, batch)
        value = fitted(ctx, value, 1, steps)
        need_along(ctx, value, range(2, value.rank))
        # the position of what is not there is the first one
        given[number] = ctx.b.masked(value) if number == 3 else value
    return with_extents(ctx, of_whole(ctx, lower, given), x.extents)
