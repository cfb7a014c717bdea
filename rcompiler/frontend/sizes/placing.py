"""Tensors at a place of a larger one, where sizes at run time say how far they are from its start.

a b c        3 elements, room for 4
0 0 a b c 0  2 before them, room for 6
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.core import stored
from rcompiler.frontend.scalar import Number, Scalar
from rcompiler.frontend.sized import bare
from rcompiler.frontend.value import SizeAtRunTime


def placed(
    b: Builder,
    value: Value,
    shape: Sequence[int],
    axes: Sequence[int],
    starts: Mapping[int, Value],
    fill: Number | Value,
) -> Value:
    """All elements of a tensor of a shape, of which what is there of another is a part.

    axes: along which there is something beside that part; along the others it is as long as the
        whole. starts: by some of them, where the part begins: int64 scalars, which may be
        negative. fill: stands beside it, a scalar.
    """
    if 0 in value.shape:
        raise SizeAtRunTime("a tensor without elements is moved")
    if isinstance(fill, Value) and fill.const is not None:
        fill = fill.const.reshape(-1)[0]
    whole, (reads, told) = bare(value), b.told_sizes([value.sizes[axis] for axis in axes])
    known = len(reads)
    reads += [(start, "") for start in starts.values()]
    reads += [(fill, "")] if isinstance(fill, Value) else []

    def body(s: Body, *args: Scalar) -> Scalar:
        sizes = dict(zip(axes, told(args), strict=True))
        moved = dict(zip(starts, args[known:], strict=False))
        at = [s.index(d) for d in range(len(shape))]
        inside: Any = None
        for axis in axes:
            if axis in moved:
                at[axis] = at[axis] - s.cast(moved[axis], "index")
            size = sizes[axis]
            end = s.cast(size, "index") if isinstance(size, Scalar) else size
            here = (at[axis] >= 0) & (at[axis] < end)
            inside = here if inside is None else inside & here
            at[axis] = s.clamp(at[axis], 0, whole.shape[axis] - 1)
        kind = whole.dtype
        beside = args[-1] if isinstance(fill, Value) else s.const(stored(fill, kind), kind)
        return s.select(inside, s.extract(whole, at), beside)

    return b.tabulate(shape, whole.dtype, body, *reads)
