"""Minimal filtering of bytes: when it gives the same numbers as the direct sum.

B^T d B and G g G^T of whole numbers fit 16 bits, their products are added in 32 bits, and what
leaves these there is lost and comes back: sums of integers are exact modulo 2^32. The results y are
`scale` times as large, per dimension. Its odd part is divided exactly, modulo 2^32, whatever y is;
the power of two 2^s in it needs |y| 2^s < 2^31. With |d| <= 255 that is known from the weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from torch_mlir import ir

from rcompiler.linalg.bodies import copied_argument
from rcompiler.linalg.constants import scalar_of
from rcompiler.linalg.pieces import pad_value
from rcompiler.linalg.values import defining, ops_of
from rcompiler.linalg.views import MOVES
from rcompiler.passes.constants.fold import resource_key
from rcompiler.passes.constants.model_context import ModelContext
from rcompiler.passes.winograd.filter_form import SlidingFilter
from rcompiler.roller.winograd import Matrix, whole_filtering
from rcompiler.runtime.deferred import Constant, whole

_LOWEST, _HIGHEST, _WEIGHT = -128, 255, 128  # of bytes, whatever their sign; of signed ones
_SIGNED = ("arith.extsi",)
_EXTENSIONS = (*_SIGNED, "arith.extui")


def starts_at_zero(form: SlidingFilter) -> bool:
    """Whether nothing but the products is in the sums."""
    op = defining(form.generic.inits[0])
    return op is not None and op.name == "linalg.fill" and scalar_of(op.operands[0]) == 0


def extends_bytes(form: SlidingFilter) -> bool:
    """Whether image and weights hold bytes that were extended, the weights with a sign."""
    image, weights = (form.generic.inputs[k] for k in (form.image, form.weights))
    return _bytes(image, _EXTENSIONS) is not None and _bytes(weights, _SIGNED) is not None


def is_exact(form: SlidingFilter, root: str) -> bool:
    """Whether no number is lost in the filtering of a root, for all images of bytes."""
    f = whole_filtering(int(root.removeprefix("winograd")))
    scale = f.scale ** len(form.windows)
    dims = len(form.windows)
    narrow = _fits(f.inputs, dims, _LOWEST, _HIGHEST) and _fits(f.taps, dims, -_WEIGHT, _WEIGHT)
    return narrow and _largest_sum(form) * (scale & -scale) < 1 << 31


def _fits(matrix: Matrix, dims: int, lowest: int, highest: int) -> bool:
    """Whether the matrix times numbers of a range, along each of so many dims, fits 16 bits."""
    factors = np.array([[float(x) for x in row] for row in matrix])
    nested = factors
    for _ in range(dims - 1):
        nested = np.kron(nested, factors)
    up, down = np.maximum(nested, 0).sum(1), np.maximum(-nested, 0).sum(1)
    most = (highest * up - lowest * down).max()
    least = (lowest * up - highest * down).min()
    limits = np.iinfo(np.int16)
    return bool(limits.min <= least and most <= limits.max)


def _largest_sum(form: SlidingFilter) -> int:
    """What no direct sum of the convolution exceeds, whatever the image."""
    steps = math.prod(form.generic.sizes[d] for d in form.generic.reduction_dims)
    bytes_ = _bytes(form.generic.inputs[form.weights], _SIGNED)
    array = None if bytes_ is None else _array(bytes_)
    if array is None:
        return _HIGHEST * _WEIGHT * steps
    # whichever dim numbers the filters, each of them has `steps` weights
    sizes = np.abs(whole(array).view(np.int8).astype(np.int64))
    axes = [axis for axis, size in enumerate(sizes.shape) if sizes.size == size * steps]
    sums = (sizes.sum(tuple(d for d in range(sizes.ndim) if d != axis)).max() for axis in axes)
    return _HIGHEST * int(max(sums, default=_WEIGHT * steps))


def _array(value: ir.Value) -> Constant | None:
    """The elements of a constant that lies beside the module."""
    op = defining(value)
    while op is not None and (op.name in MOVES or op.name == "linalg.generic"):
        op = defining(op.operands[0])
    if op is None or op.name != "arith.constant" or not isinstance(op.context, ModelContext):
        return None
    key = resource_key(op.attributes["value"])
    return op.context.arrays.get(key) if key is not None else None


def _bytes(value: ir.Value, extensions: Sequence[str]) -> ir.Value | None:
    """The bytes that a tensor of 16 bits is made from, of which it may be a part or a padded form;
    None where others are among its numbers. extensions: by which they may have been extended.
    """
    op = defining(value)
    if op is None or op.name not in (*MOVES, "linalg.generic") or op.name == "tensor.concat":
        return None
    if op.name == "tensor.pad":
        edge = scalar_of(pad_value(op))
        if edge is None or not _LOWEST <= edge <= _HIGHEST:
            return None
    if op.name != "linalg.generic" or copied_argument(op.regions[0].blocks[0]) == 0:
        return _bytes(op.operands[0], extensions)
    *_, end = ops_of(op.regions[0].blocks[0])
    last = defining(end.operands[0]) if len(end.operands) == 1 else None
    if last is None or last.name not in extensions or str(last.operands[0].type) != "i8":
        return None
    return op.operands[0]
