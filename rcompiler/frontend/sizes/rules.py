"""Registration of the rules, and what several of them say.

An operator without a rule is refused where an operand is not all there: nothing is computed of what
is no answer by mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rcompiler.errors import Gap, UnsupportedOp
from rcompiler.frontend.builder import Value
from rcompiler.frontend.operator_table import OperatorTable
from rcompiler.frontend.registry import Context, Lowering
from rcompiler.frontend.sized import bare
from rcompiler.frontend.value import Extents, SizeAtRunTime
from rcompiler.support.extent import Size, highest, lowest

from .numbers import computed_sizes, is_computed

Results = Value | Sequence[Value | Gap | None]
Rule = Callable[[Context, Lowering], Results]
_TABLE: OperatorTable[Rule] = OperatorTable("rcompiler.frontend.sizes", "rules")

# By operator the input that is the shape of the result, or is multiplied by its own.
_SHAPES = {"ConstantOfShape": 0, "Expand": 1, "Reshape": 1, "Tile": 1}

find = _TABLE.find
names = _TABLE.names


def rule(*ops: str, domain: str = "") -> Callable[[Rule], Rule]:
    """Register ``fn(ctx, lower)`` for one or more operators; `lower` is their usual translation."""
    return _TABLE.register(*ops, domain=domain)


def concerns(value: Any) -> bool:
    """Whether a value is made of sizes that are known at run time, or is not all there."""
    return isinstance(value, Value) and (value.whole is not None or value.elements is not None)


def has_computed_sizes(ctx: Context) -> bool:
    """Whether a run computes the shape of what the node makes."""
    index = None if ctx.domain else _SHAPES.get(ctx.op)
    return index is not None and is_computed(ctx.optional(index))


def is_partial(value: Any) -> bool:
    """Whether it is not all there."""
    return isinstance(value, Value) and value.whole is not None


def refusal(
    ctx: Context, why: str = "", kind: type[SizeAtRunTime] = SizeAtRunTime
) -> UnsupportedOp:
    """``raise refusal(ctx)``: a node that is translated for sizes that are known, only."""
    reason = f"{kind.reason}: {why}" if why else kind.reason
    return UnsupportedOp(ctx.gap(reason, kind.remedy))


def as_usual(ctx: Context, lower: Lowering) -> Results:
    """All that the operator is made of knows of sizes at run time."""
    return lower(ctx)


def of_whole(
    ctx: Context, lower: Lowering, inputs: Mapping[int, Value] | None = None
) -> list[Value | None]:
    """What the usual translation makes of all elements. inputs: others in the place of some."""
    given = [
        None if value is None else bare((inputs or {}).get(number, value))
        for number, value in enumerate(ctx.inputs)
    ]
    made = lower(replace(ctx, inputs=given))
    if isinstance(made, Value):
        return [made]
    return [None if isinstance(each, Gap) else each for each in made]


def with_extents(ctx: Context, made: Sequence[Value | None], *extents: Extents) -> list[Any]:
    """Results of which only these parts are there."""
    told = zip(made, extents, strict=False)
    return [None if value is None else ctx.b.sized(value, own) for value, own in told]


def sizes_of(ctx: Context, index: int, attribute: str = "", default: Any = None) -> list[Size]:
    """Sizes given as input ``index``, or as an attribute."""
    value = ctx.optional(index)
    if value is not None and value.elements is not None:
        return list(value.elements.reshape(-1))
    if is_computed(value):
        return computed_sizes(ctx, index)
    return list(ctx.ints(index, attribute, default))


def need_equal(ctx: Context, a: Size, b: Size, reason: str) -> None:
    """Refuse sizes that differ, or may differ: of a model that is wrong for all it is an error."""
    if a == b:
        return
    gap = a - b
    if lowest(gap) <= 0 <= highest(gap):
        raise refusal(ctx, reason)
    raise ctx.shape_error(reason)


def need_whole(ctx: Context, *indices: int) -> None:
    """Refuse inputs that are not all there."""
    for index in indices:
        if is_partial(ctx.optional(index)):
            raise refusal(ctx, f"input {index}")


def need_along(ctx: Context, value: Value, axes: Sequence[int]) -> None:
    """Refuse a tensor that is not all there along axes."""
    for axis in axes:
        if value.extents[axis] is not None:
            raise refusal(ctx, f"along axis {axis}, of {value.extents[axis]} elements")
