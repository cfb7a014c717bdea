"""Windows over axes whose sizes are known at run time: how many there are, and what they see.

What is not there holds what padding holds. Where padding SAME meets a stride, how much of it lies
before an image depends on its size: the image is moved there, into room for all of it.

    image   a b c d e . .        5 elements, room for 7
    moved   0 a b c d e 0 0 0    kernel 4, stride 2: (3 - 1) * 2 + 4 - 5 = 3 of padding, 1 before
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value
from rcompiler.frontend.ops.operand_shapes import window
from rcompiler.frontend.registry import Context
from rcompiler.frontend.scalar import Number, Scalar
from rcompiler.frontend.sized import bare
from rcompiler.frontend.value import Extents, SizeAtRunTime, extent_of
from rcompiler.support.extent import Extent, Size, lowest

from .placing import placed


def windows(ctx: Context, x: Value, kernel: Sequence[int], out: Extents, least: int = 1) -> Extents:
    """The extents of windows over the spatial axes, in a tensor of which ``out`` are the others."""
    strides, dilations, pads = window(ctx, x.shape[2:], kernel)
    found = list(out)
    for axis, (size, k) in enumerate(zip(x.sizes[2:], kernel, strict=True)):
        if not isinstance(size, Extent):
            found.append(None)
            continue
        reach, stride = (k - 1) * dilations[axis] + 1, strides[axis]
        behind = pads[axis + len(kernel)]
        around = -1 if _is_moved(ctx, size, stride) else pads[axis] + behind - reach
        room, ceils = size + around, ctx.attr("ceil_mode", 0) and not _is_moved(ctx, size, stride)
        some = max(lowest(size), 1) + around  # room in an image that is there
        none = lowest(room) < 0  # there may be no image, which has no window
        if some < 0 or some // stride + 1 < least or none and (ceils or lowest(room) < -stride):
            raise SizeAtRunTime(f"there may be no window in {size} elements")
        if ceils:
            if reach - behind < stride:
                raise SizeAtRunTime("whether a last window begins in the padding depends on it")
            room = room + stride - 1
        name = f"{ctx.outputs[0]}[{axis + 2}]"
        if none:
            found.append(extent_of(ctx.b.quotient(name, room + stride, stride)))
        else:
            found.append(extent_of(ctx.b.quotient(name, room, stride) + 1))
    return tuple(found)


def _is_moved(ctx: Context, size: Size, stride: int) -> bool:
    same: bool = ctx.attr("auto_pad", "NOTSET").startswith("SAME")
    return same and stride > 1 and isinstance(size, Extent)


@dataclass(frozen=True)
class Seen:
    """An image as windows see it.

    image: at the bounds, all of which is there. ctx: the node, with the pads that this has still to
    get. before: by spatial axis, of those along which the image is moved, how far: int64 scalars.
    """

    image: Value
    ctx: Context
    before: dict[int, Value] = field(default_factory=dict)


def seen(ctx: Context, x: Value, kernel: Sequence[int], number: Number | Value = 0) -> Seen:
    """number: what is seen where nothing is."""
    strides, dilations, pads = window(ctx, x.shape[2:], kernel)
    rank = len(kernel)
    moved = [i for i in range(rank) if _is_moved(ctx, x.sizes[2 + i], strides[i])]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    before = {i: _before(ctx, x.sizes[2 + i], strides[i], reach[i]) for i in moved}
    shape, own = list(x.shape), ctx
    for i in moved:
        most = -(-x.shape[2 + i] // strides[i])  # windows
        shape[2 + i] = max((most - 1) * strides[i] + reach[i], x.shape[2 + i])
        pads[i] = pads[rank + i] = 0
    if moved:
        attributes = {**ctx.attributes, "auto_pad": "NOTSET", "pads": pads, "ceil_mode": 0}
        own = replace(ctx, attributes=attributes)

    def laid_out(value: Value, fill: Number | Value) -> Value:
        if moved:
            open_ = [axis for axis in range(2, x.rank) if value.extents[axis] is not None]
            starts = {axis + 2: start for axis, start in before.items()}
            return placed(ctx.b, value, shape, open_, starts, fill)
        return bare(ctx.b.masked(value, range(2, x.rank), fill))

    image, source = laid_out(x, number), bare(x).quantised
    if source is not None and image is not bare(x) and number == 0 and source.axis is None:
        # sums of the integers, which hold the zero point where nothing is
        zero: Number | Value = 0 if source.zero is None else ctx.b.reshape(source.zero, [])
        integers = laid_out(ctx.b.sized(source.value, x.extents), zero)
        image.quantised = replace(source, value=integers)
    return Seen(image, own, before)


def _before(ctx: Context, size: Size, stride: int, reach: int) -> Value:
    """How much padding lies before an image of a size."""
    upper = ctx.attr("auto_pad") == "SAME_UPPER"

    def body(s: Body, n: Scalar) -> Scalar:
        count = (n + (stride - 1)) / stride
        need = s.maximum((count - 1) * stride + reach - n, 0)
        return need / 2 if upper else (need + 1) / 2

    return ctx.b.elementwise(body, ctx.b.number(size))
