"""Convolutions as small filters that slide over an image, in whatever layout the tensors are.

What Winograd's minimal filtering applies to: every tap in step with the pixels, and channels that
are mixed. The dims of a generic fall into kinds by the operands that they index:

    pixels and taps   image[.., y + p, ..]: y is in the result, p in the weights
    channels          reduced; in image and weights
    all others        in the result: batch (image only), filters (weights only), groups (both)
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.linalg.bodies import is_multiply_add
from rcompiler.linalg.convolution import has_windows
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dim_of, dims_of
from rcompiler.linalg.values import element_of

_ELEMENTS = (("f32", "f32", "f32"), ("i16", "i16", "i32"))


@dataclass(frozen=True)
class Window:
    """One dim of the image that a filter slides along: `axis` of the image is indexed by the loop
    dims `pixel` + `tap`; `size`: taps.
    """

    axis: int
    pixel: int
    tap: int
    size: int


@dataclass(frozen=True)
class SlidingFilter:
    """A convolution: operand numbers of image and weights, its windows, and the channel dims."""

    generic: Generic
    image: int
    weights: int
    windows: tuple[Window, ...]
    channels: tuple[int, ...]

    @property
    def whole(self) -> bool:
        """Whether it is one of integers."""
        return element_of(self.generic.inputs[self.image]) == "i16"

    def dims(self, operand: int) -> list[int]:
        """The loop dim of each dim of an operand; for a window that of its pixel."""
        pixels = {w.axis: w.pixel for w in self.windows} if operand == self.image else {}
        results = self.generic.maps[operand].results
        return [pixels.get(axis, dim_of(e)) for axis, e in enumerate(results)]


def sliding_filter(op: ir.Operation) -> SlidingFilter | None:
    """`op` as a convolution with strides and dilations of 1, of f32 or 16 bits; else None."""
    generic = Generic(op)
    if not has_windows(generic) or not is_multiply_add(generic):
        return None
    if tuple(element_of(v) for v in generic.op.operands) not in _ELEMENTS:
        return None
    return _as_filter(generic, 0, 1) or _as_filter(generic, 1, 0)


def _as_filter(generic: Generic, image: int, weights: int) -> SlidingFilter | None:
    of_weights, of_result = (generic.dims[k] for k in (weights, 2))
    if any(-1 in dims or len(set(dims)) != len(dims) for dims in (of_weights, of_result)):
        return None
    windows, plain = [], []
    for axis, expression in enumerate(generic.maps[image].results):
        if dim_of(expression) >= 0:
            plain.append(dim_of(expression))
            continue
        window = _window(generic, axis, expression)
        if window is None or window.tap not in of_weights or window.pixel in of_weights:
            return None
        windows.append(window)
    inside = [d for w in windows for d in (w.pixel, w.tap)]
    if not windows or len(set(plain + inside)) != len(plain + inside):
        return None
    reduced = set(generic.reduction_dims)
    channels = tuple(d for d in plain if d in reduced)
    if not channels or reduced != {*channels, *(w.tap for w in windows)}:
        return None
    if any(d not in of_weights for d in channels):
        return None
    return SlidingFilter(generic, image, weights, tuple(windows), channels)


def _window(generic: Generic, axis: int, expression: ir.AffineExpr) -> Window | None:
    """`pixel + tap`, of which the tap is reduced."""
    expression = expression.maybe_downcast()
    if not isinstance(expression, ir.AffineAddExpr):
        return None
    terms = [dim_of(expression.lhs), dim_of(expression.rhs)]
    taps = [d for d in terms if d in generic.reduction_dims]
    if -1 in terms or len(taps) != 1 or len(dims_of(expression)) != 2:
        return None
    [pixel] = [d for d in terms if d != taps[0]]
    return Window(axis, pixel, taps[0], generic.sizes[taps[0]])
