"""A convolution by minimal filtering as IR: the generics of rtask_winograd.

Tensors keep the order of their dims, so that a blocked layout stays one. Among them stand the
numbers i, j, .. of the products, one for each window: the rows of the matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith

from rcompiler.device.model import Device
from rcompiler.linalg.constants import scalar_of
from rcompiler.linalg.element_types import item_bytes, numpy_type
from rcompiler.linalg.pieces import pad_value
from rcompiler.linalg.values import defining, element_of, element_type, integers, shape_of
from rcompiler.passes.ir.tensor_ir import (
    affine_map,
    elementwise,
    fill,
    generic,
    pad_high,
    padded,
    scalar_zero,
    type_like,
)
from rcompiler.passes.winograd.filter_form import SlidingFilter
from rcompiler.roller.product_layout import ProductTensor
from rcompiler.roller.winograd import Filtering, Matrix

_TERM = "term"  # the loop over what a row of B^T combines
# Index expressions of an operand, from the loop dims by name.
_Read = Callable[[Mapping[Hashable, ir.AffineExpr]], list[ir.AffineExpr]]


@dataclass(frozen=True)
class Filtered:
    """The result of a convolution, and the generic that multiplies."""

    result: ir.Value
    products: ir.Operation


def by_filtering(form: SlidingFilter, filterings: Sequence[Filtering], device: Device) -> Filtered:
    """A convolution, computed by one filtering for each of its windows; laid out for `device`."""
    return _Builder(form, filterings, device).build()


class _Builder:
    def __init__(
        self, form: SlidingFilter, filterings: Sequence[Filtering], device: Device
    ) -> None:
        self._form = form
        self._device = device
        self._steps = list(zip(form.windows, filterings, strict=True))
        self._rows = [f"row{n}" for n in range(len(filterings))]
        generic = form.generic
        self._extents = {w.pixel: generic.sizes[w.pixel] for w in form.windows}
        self._tiles = {w.pixel: -(-self._extents[w.pixel] // f.size) for w, f in self._steps}
        # of the dims of the products: rows, and tiles instead of pixels
        self._sizes: dict[Hashable, int] = {
            d: self._tiles.get(d) or generic.sizes[d]
            for d in (*form.dims(form.image), *form.dims(2))
        }
        for row, f in zip(self._rows, filterings, strict=True):
            self._sizes[row] = f.products

    def build(self) -> Filtered:
        """The result, and the products that it is made from."""
        form, taps = self._form, {w.tap for w in self._form.windows}
        image, result = self._layouts()
        filters = [*self._rows, *(d for d in form.dims(form.weights) if d not in taps)]
        products = _multiply_add(
            (self._inputs(image), _plain(image)), (self._weights(), _plain(filters)),
            result, form.channels, [self._sizes[d] for d in result],
            sums=element_type(form.generic.inits[0]),
        )  # fmt: skip
        return Filtered(self._outputs(products, result), products.owner.operation)

    def _divided(self, value: ir.Value) -> ir.Value:
        """Results of filterings of whole numbers without their scale, which divides them.

        In 32 bits, of which products and sums keep the low ones: for its odd part, the product with
        its inverse; for the power of two a shift.
        """
        scale = math.prod(f.scale for _, f in self._steps)
        shift = (scale & -scale).bit_length() - 1
        inverse = pow(scale >> shift, -1, 1 << 32)
        if scale == 1:
            return value
        i32 = ir.IntegerType.get_signless(32)

        def divide(x: ir.Value) -> ir.Value:
            if inverse != 1:
                number = inverse - (1 << 32) * (inverse >> 31)
                x = arith.muli(x, arith.constant(i32, number))
            return arith.shrsi(x, arith.constant(i32, shift))

        return elementwise([value], i32, divide)

    def _layouts(self) -> tuple[list[Hashable], list[Hashable]]:
        """The dims of the transformed image and of the products.

        The tasks that multiply go through the result in its order: with the products outermost, a
        transformed image that exceeds the private caches is read from the shared one only once.
        """
        first, private = self._device.first_level, self._device.private_bytes
        image, result = (self._products(k) for k in (self._form.image, 2))
        order = result.outermost() if image.bytes > private else result.without_conflicts(first)
        return image.without_conflicts(first), order

    def _products(self, operand: int) -> ProductTensor:
        dims = self._form.dims(operand)
        pixels = tuple(w.pixel for w in self._form.windows)
        item = item_bytes(element_of(self._form.generic.operands[operand]))
        return ProductTensor(tuple(dims), pixels, tuple(self._rows), self._sizes, item)

    def _inputs(self, order: Sequence[Hashable]) -> ir.Value:
        """B^T d B of every tile, with tiles where the image has pixels."""
        form = self._form
        source: list[Hashable] = list(form.dims(form.image))
        value = self._whole_tiles(form.generic.inputs[form.image])
        sizes: dict[Hashable, int] = dict(zip(source, shape_of(value), strict=True))
        for number, (window, f) in enumerate(self._steps):
            row = self._rows[number]
            target = list(order) if row == self._rows[-1] else [row, *source]
            sizes |= {row: f.products, window.pixel: self._tiles[window.pixel]}
            value = _multiply_add(
                (_matrix(f.inputs, value), _plain([row, _TERM])),
                (value, _pixels(source, window.pixel, f.size)),
                target, [_TERM], [sizes[d] for d in target],
            )  # fmt: skip
            source = target
        return value

    def _whole_tiles(self, image: ir.Value) -> ir.Value:
        """The image with zeros behind it where its last tiles end."""
        high = [0] * len(shape_of(image))
        for window, f in self._steps:
            covered = self._tiles[window.pixel] * f.size
            high[window.axis] = covered - self._extents[window.pixel]
        pad = defining(image)
        if pad is None or pad.name != "tensor.pad" or len(pad.operands) != 1 or not any(high):
            return pad_high(image, high)
        zeros = scalar_of(pad_value(pad)) == 0
        return _padded_again(pad, high) if zeros else pad_high(image, high)

    def _weights(self) -> ir.Value:
        """G g G^T, [i, j, .., weights without taps]: in f64, rounded once; of integers exact in
        f32.
        """
        form = self._form
        weights = form.generic.inputs[form.weights]
        value = _cast(weights, ir.F32Type.get() if form.whole else ir.F64Type.get())
        source: list[Hashable] = list(form.dims(form.weights))
        sizes = dict(zip(source, shape_of(value), strict=True))
        # the last row first: every step then makes the outermost dim, and nothing is transposed
        for row, (window, f) in reversed(list(zip(self._rows, self._steps, strict=True))):
            sizes[row] = f.products
            target = [row, *(d for d in source if d != window.tap)]
            value = _multiply_add(
                (_matrix(f.taps, value), _plain([row, window.tap])), (value, _plain(source)),
                target, [window.tap], [sizes[d] for d in target],
            )  # fmt: skip
            source = target
        return _cast(value, element_type(weights))

    def _outputs(self, value: ir.Value, order: Sequence[Hashable]) -> ir.Value:
        """A^T m A of every tile, in the shape of the convolution's result."""
        [start] = self._form.generic.inits
        source, sizes = list(order), dict(self._sizes)
        for number, (window, f) in enumerate(self._steps):
            row, last = self._rows[number], number == len(self._steps) - 1
            target = self._form.dims(2) if last else [d for d in source if d != row]
            sizes[window.pixel] = self._extents[window.pixel]
            value = _multiply_add(
                (_matrix(f.outputs, value), _row_of_pixel(window.pixel, f.size, row)),
                (value, _tile_of_pixel(source, window.pixel, f.size)),
                target, [row], [sizes[d] for d in target], start if last else None,
            )  # fmt: skip
            source = list(target)
        return self._divided(value)


def _plain(names: Sequence[Hashable]) -> _Read:
    return lambda d: [d[name] for name in names]


def _pixels(names: Sequence[Hashable], pixel: Hashable, size: int) -> _Read:
    """Indexed by `names`, but `pixel` numbers tiles: each begins `size` pixels after the last."""
    return lambda d: [d[n] * size + d[_TERM] if n == pixel else d[n] for n in names]


def _row_of_pixel(pixel: Hashable, size: int, row: Hashable) -> _Read:
    """The place of a pixel in its tile, then `row`."""
    return lambda d: [ir.AffineExpr.get_mod(d[pixel], size), d[row]]


def _tile_of_pixel(names: Sequence[Hashable], pixel: Hashable, size: int) -> _Read:
    """Indexed by `names`, but by the tile that `pixel` lies in."""
    return lambda d: [
        ir.AffineExpr.get_floor_div(d[n], size) if n == pixel else d[n] for n in names
    ]


def _multiply_add(
    a: tuple[ir.Value, _Read],
    b: tuple[ir.Value, _Read],
    result: Sequence[Hashable],
    reduced: Sequence[Hashable],
    shape: Sequence[int],
    start: ir.Value | None = None,
    sums: ir.Type | None = None,
) -> ir.Value:
    """start (else zeros) + the sum of a * b over the loops `reduced`; loops by name. sums: their
    type, by default that of the factors.
    """
    names = [*result, *reduced]
    loops = {name: ir.AffineExpr.get_dim(k) for k, name in enumerate(names)}
    maps = [affine_map(len(names), read(loops)) for read in (a[1], b[1], _plain(result))]
    kinds = ["parallel"] * len(result) + ["reduction"] * len(reduced)
    sums = element_type(a[0]) if sums is None else sums
    init = fill(scalar_zero(sums), shape) if start is None else start

    def add(x: ir.Value, y: ir.Value, total: ir.Value) -> ir.Value:
        if isinstance(sums, ir.FloatType):
            return arith.addf(total, arith.mulf(x, y))
        if x.type != sums:
            x, y = arith.extsi(sums, x), arith.extsi(sums, y)
        return arith.addi(total, arith.muli(x, y))

    return generic([a[0], b[0]], [init], maps, kinds, add).results[0]


def _cast(value: ir.Value, element: ir.Type) -> ir.Value:
    """The tensor in another type, which has its numbers: floats, or integers that are exact."""
    before = element_type(value)
    floats = [isinstance(kind, ir.FloatType) for kind in (before, element)]
    if all(floats):
        wider = ir.FloatType(element).width > ir.FloatType(before).width
        cast = arith.ExtFOp if wider else arith.TruncFOp
    else:
        cast = arith.FPToSIOp if floats[0] else arith.SIToFPOp
    return elementwise([value], element, lambda x: cast(element, x).result)


def _matrix(matrix: Matrix, like: ir.Value) -> ir.Value:
    """A constant with the element type of `like`."""
    array = np.array([[float(x) for x in row] for row in matrix])
    kind = type_like(like, array.shape)
    array = array.astype(numpy_type(kind.element_type))
    return arith.ConstantOp(kind, ir.DenseElementsAttr.get(array, type=kind)).result


def _padded_again(pad: ir.Operation, more: Sequence[int]) -> ir.Value:
    """What a tensor.pad of zeros pads, with `more` zeros behind every dim."""
    source = pad.operands[0]
    low, high = integers(pad, "static_low"), integers(pad, "static_high")
    zero = scalar_zero(element_type(source))
    return padded(source, low, [h + m for h, m in zip(high, more, strict=True)], zero)
