"""The operators of the paper's evaluation by their names in its artifact ("matmul_expr", ...).

Numbers in a name are stride, dilation and padding: depthwiseconv_expr_S2D1P3. All of fp32.
Source of the names and shapes: microsoft/nnfusion, branch osdi22_artifact, directory
artifacts/roller/test_config.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rcompiler.roller.expr import ExpressionError
from rcompiler.roller.index_expr import Index, axis_index, index
from rcompiler.roller.osdi22.expression import Expression, Operand

_FLOAT = 4


@dataclass(frozen=True)
class _Window:
    """Stride, dilation, padding; `extra`: input elements at the end that no window reads."""

    stride: int = 1
    dilation: int = 1
    padding: int = 0
    extra: int = 0

    def over(self, out: int, kernel: int) -> Index:
        """Input position from the output axis and the kernel axis."""
        return index((self.stride, out), (self.dilation, kernel))

    def length(self, out: int, kernel: int) -> int:
        """Input elements of `out` outputs and `kernel` taps, padding included."""
        return (out - 1) * self.stride + (kernel - 1) * self.dilation + 1 + self.extra


Build = Callable[[Sequence[int], _Window], Expression]


def operator(name: str, shape: Sequence[int]) -> Expression:
    """The expression of an operator of the evaluation; ExpressionError for an unknown name.

    `shape`: output extents and then reduction extents, as the artifact's command line takes them;
    ExpressionError when there are too many, too few, or one below 1.
    """
    family, window = _parse(name)
    axes, build = _FAMILIES[family]
    if not all(isinstance(size, int) and not isinstance(size, bool) for size in shape):
        raise ExpressionError(f"{name}: shape {shape!r}; integers")
    if any(size < 1 for size in shape):
        raise ExpressionError(f"{name}: shape {list(shape)}; every size is at least 1")
    if (axes and len(shape) != len(axes)) or not shape:
        wanted = f"{len(axes)} ({', '.join(axes)})" if axes else "at least 1"
        raise ExpressionError(f"{name}: shape {list(shape)} has {len(shape)} sizes, not {wanted}")
    return build(shape, window)


_NAME = re.compile(r"([a-z0-9_]*_expr[0-9]?)(?:_S(\d)(?:D(\d))?P(\d)([12]?))?")


def _parse(name: str) -> tuple[str, _Window]:
    match = _NAME.fullmatch(name)
    family = match[1] if match else ""
    if match is None or family not in _FAMILIES or (family in _WINDOWED) != (match[2] is not None):
        forms = [f"{f}_S1D1P0" if f in _WINDOWED else f for f in _FAMILIES]
        raise ExpressionError(f"operator {name!r} is unknown; known are: {', '.join(forms)}")
    if match[2] is None:
        return family, _Window()
    stride, dilation, padding = int(match[2]), int(match[3] or 1), int(match[4])
    if stride < 1 or dilation < 1:
        raise ExpressionError(f"operator {name!r}: stride and dilation are at least 1")
    # avgpool2d_expr_S2P01 lacks an element at the end, S2P02 has one too many
    extra = {"": 0, "1": -1, "2": 1}[match[5]]
    if family.endswith("conv_expr") and not family.startswith("depthwise"):
        extra += stride == 2 and padding == 0
    return family, _Window(stride, dilation, padding, extra)


def _operand(row: int, *dims: Index | int, trim: Sequence[int] = ()) -> Operand:
    """dims: of them a number is the axis alone."""
    found = tuple(axis_index(dim) if isinstance(dim, int) else dim for dim in dims)
    return Operand(found, _FLOAT, row, tuple(trim))


def _matmul(shape: Sequence[int], _: _Window) -> Expression:
    rank = len(shape)
    *batch, m, n, k = range(rank)
    inputs = (_operand(shape[-1], *batch, m, k), _operand(shape[-2], *batch, k, n))
    return Expression(tuple(shape), rank - 1, inputs, (_operand(shape[-2], *batch, m, n),))


def _fused_conv(shape: Sequence[int], window: _Window) -> Expression:
    """Implicit matrix product: channels x pixels of all images, over all taps of all channels."""
    n, f, ho, wo, c, kh, kw = shape
    sizes = (f, n * ho * wo, c * kh * kw)
    # quirk (parity): rows of the product are compared with rows of the image and of the weights,
    # and those of the output with rows of the first input
    rows = (window.length(wo, kw), kw, sizes[1])
    inputs = (_operand(rows[0], 2, 1), _operand(rows[1], 0, 2))
    return Expression(sizes, 2, inputs, (_operand(rows[2], 0, 1),))


def _conv(shape: Sequence[int], window: _Window) -> Expression:
    _, _, _, wo, _, _, kw = shape
    image = (0, 4, window.over(2, 5), window.over(3, 6))
    inputs = (
        _operand(window.length(wo, kw), *image, trim=(0, 0, *_lost(window))),
        _operand(kw, 1, 4, 5, 6),
    )
    return Expression(tuple(shape), 4, inputs, (_operand(wo, *range(4)),))


def _depthwise(shape: Sequence[int], window: _Window) -> Expression:
    _, _, _, wo, _, kw = shape
    padded = window.length(wo, kw)
    image = (0, 1, window.over(2, 4), window.over(3, 5))
    # quirk (parity): the padded tile is compared with the image before padding, and the output
    # with the image after it
    inputs = (
        _operand(padded - 2 * window.padding, *image),
        _operand(kw, 1, 4, 5),
    )
    return Expression(tuple(shape), 4, inputs, (_operand(padded, *range(4)),))


def _pool(shape: Sequence[int], window: _Window) -> Expression:
    _, _, wo, _, kw = shape
    # quirk (parity): the padding of the whole image is taken off every tile, so the footprint of a
    # small one is below 1
    image = _operand(
        window.length(wo, kw) - 2 * window.padding,
        0,
        window.over(1, 3),
        window.over(2, 4),
        trim=(0, *_lost(window)),
    )
    return Expression(tuple(shape), 3, (image,), (_operand(wo, *range(3)),))


def _lost(window: _Window) -> tuple[int, int]:
    return (2 * window.padding - window.extra,) * 2


def _reduce(reduced: int) -> Build:
    def build(shape: Sequence[int], _: _Window) -> Expression:
        spatial = len(shape) - reduced
        image = _operand(shape[-1], *range(len(shape)))
        output = _operand(shape[spatial - 1], *range(spatial))
        return Expression(tuple(shape), spatial, (image,), (output,))

    return build


def _elementwise(inputs: int) -> Build:
    def build(shape: Sequence[int], _: _Window) -> Expression:
        tensor = _operand(shape[-1], *range(len(shape)))
        return Expression(tuple(shape), len(shape), (tensor,) * inputs, (tensor,))

    return build


_IMAGE = ("N", "F", "HO", "WO", "C", "KH", "KW")
_FAMILIES: dict[str, tuple[tuple[str, ...], Build]] = {
    "matmul_expr": (("M", "N", "K"), _matmul),
    "batch_matmul_expr": (("B", "M", "N", "K"), _matmul),
    "fused_conv_expr": (_IMAGE, _fused_conv),
    "conv_expr": (_IMAGE, _conv),
    "depthwiseconv_expr": (("N", "C", "HO", "WO", "KH", "KW"), _depthwise),
    "avgpool2d_expr": (("B", "HO", "WO", "KH", "KW"), _pool),
    "maxpool2d_expr": (("B", "HO", "WO", "KH", "KW"), _pool),
    "reduce_expr1": (("D1", "D2", "K"), _reduce(1)),
    "reduce_expr2": (("D1", "K"), _reduce(1)),
    "reduce_expr3": (("D1", "D2", "K1", "K2"), _reduce(2)),
    "relu_expr": ((), _elementwise(1)),
    "add_expr": ((), _elementwise(2)),
}
_WINDOWED = {f for f in _FAMILIES if "conv" in f or "pool" in f}
