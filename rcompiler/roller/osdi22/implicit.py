"""A convolution as the matrix product it implicitly is (OSDI'22 §3.2, axis fusion).

The search sees output channels x pixels of all images, over all taps of all channels: three long
axes, of which tiles of any size can be cut, instead of seven short ones.
"""

import math

from rcompiler.roller.expr import TensorAccess, TensorExpr
from rcompiler.roller.index_expr import axis_index
from rcompiler.roller.osdi22.expression import Expression, Operand

Groups = tuple[
    tuple[int, ...], ...
]  # per axis of the product the axes it is made of, outermost first


def implicit_product(expr: TensorExpr) -> tuple[Expression, Groups] | None:
    """The product, axes in the order [groups of channels,] channels, pixels, taps; None for what
    is none: depthwise, or another kind of operator.
    """
    streams = [a for a in expr.inputs if a.axes() & set(expr.reduction)]
    if expr.kind != "convolution" or len(streams) != 2:
        return None
    image, weights = sorted(streams, key=_slides, reverse=True)
    taps = expr.reduction
    batch: list[int] = []
    channels: list[int] = []
    pixels: list[int] = []
    for axis in expr.parallel:
        where = axis in image.axes(), axis in weights.axes()
        if where == (False, False):
            return None
        (batch if all(where) else pixels if where[0] else channels).append(axis)
    shared = set(taps) <= image.axes() & weights.axes()
    if not shared or not channels or not pixels:
        return None
    groups = (*((tuple(batch),) if batch else ()), tuple(channels), tuple(pixels), taps)
    sizes = tuple(math.prod(expr.axes[axis].size for axis in group) for group in groups)
    first = range(len(groups) - 3)
    f, s, r = (len(groups) - 3 + i for i in range(3))
    inputs = (_operand(image, *first, r, s), _operand(weights, *first, f, r))
    output = _operand(expr.outputs[0], *first, f, s)
    return Expression(sizes, len(groups) - 1, inputs, (output,)), groups


def _slides(access: TensorAccess) -> bool:
    return any(dim is not None and len(dim.axes()) > 1 for dim in access.dims or ())


def _operand(access: TensorAccess, *axes: int) -> Operand:
    return Operand(tuple(map(axis_index, axes)), access.itemsize, access.shape[-1])
