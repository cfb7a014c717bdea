"""NonMaxSuppression and Det."""

from __future__ import annotations

import math

import numpy as np

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.counted import counted, room_for
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar
from rcompiler.frontend.sized import bare
from rcompiler.frontend.suppression import Limits, selected_boxes


@lowering("NonMaxSuppression")
def _non_max_suppression(ctx: Context) -> Value:
    """Selected [batch, class, box]; of constants while compiling."""
    b, boxes, scores = ctx.b, ctx.input(0), ctx.input(1)
    if (
        boxes.rank != 3
        or scores.rank != 3
        or boxes.shape[2] != 4
        or (scores.shape[0], scores.shape[2]) != boxes.shape[:2]
        or boxes.dtype != "float32"
        or scores.dtype != "float32"
        or boxes.extents[2] is not None
        or (scores.extents[0], scores.extents[2]) != boxes.extents[:2]
    ):
        raise ctx.shape_error("boxes are [batch, n, 4] and scores [batch, classes, n], of float32")
    count, overlap, least = (
        _number(ctx, index, dtype)
        for index, dtype in ((2, "int64"), (3, "float32"), (4, "float32"))
    )
    centred = bool(ctx.attr("center_point_box", 0))
    given = [boxes, scores, *(each for each in (count, overlap, least) if each is not None)]
    if all(each.const is not None for each in given):
        return _selected_constants(ctx, centred)
    _, high = (None if count is None else count.bounds) or (0, 0)
    most = min(high, boxes.shape[1])
    rows = math.prod(scores.shape[:2])
    if most <= 0 or count is None or not rows:
        return b.constant(np.zeros((0, 3), np.int64))
    room = room_for(ctx, rows * most)
    limits = Limits(
        most,
        count,
        b.constant(0.0, "float32") if overlap is None else overlap,
        least,
        _boxes_of_rows(b, scores),
    )
    found, number = selected_boxes(b, bare(boxes), bare(scores), limits, room, centred)
    return b.sized(found, [counted(ctx, number, room, rows * most), None])


def _number(ctx: Context, index: int, dtype: str) -> Value | None:
    """An optional input of one element, as a scalar."""
    value = ctx.optional(index)
    if value is None:
        return None
    if value.size != 1 or value.dtype != dtype:
        raise ctx.shape_error(f"input {index} is not one {dtype}")
    return ctx.b.reshape(value, [])


def _boxes_of_rows(b: Builder, scores: Value) -> Value | None:
    """How many boxes there are, int64 [batches * classes]; None: all of them."""
    if not any(scores.extents):
        return None
    batches, classes, boxes = (b.number(size) for size in scores.sizes)

    def number(s: Body, batches: Scalar, classes: Scalar, boxes: Scalar) -> Scalar:
        row = s.index(0)
        batch, category = (s.cast(f(row, scores.shape[1]), "int64") for f in (s.div, s.rem))
        return s.select((batch < batches) & (category < classes), boxes, 0)

    reads = [(each, "") for each in (batches, classes, boxes)]
    return b.tabulate([math.prod(scores.shape[:2])], "int64", number, *reads)


def _selected_constants(ctx: Context, centred: bool) -> Value:
    boxes, scores, most = ctx.input(0).array, ctx.input(1).array, int(ctx.scalar(2, 0))
    overlap, least = ctx.scalar(3, 0.0), ctx.scalar(4, None)
    rows: list[list[int]] = []
    for batch in range(scores.shape[0]):
        corners = _corners(boxes[batch], centred)
        for category in range(scores.shape[1]):
            kept = _selected(corners, scores[batch, category], most, overlap, least)
            rows += [[batch, category, box] for box in kept]
    return ctx.b.constant(np.array(rows, np.int64).reshape(-1, 3))


def _corners(boxes: np.ndarray, centred: bool) -> np.ndarray:
    """[n, 4] as (low, low, high, high); corners may be given in any order."""
    if centred:
        half = boxes[:, [3, 2]] / 2
        middle = boxes[:, [1, 0]]
        return np.concatenate([middle - half, middle + half], 1)
    first, second = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], 1)


def _selected(
    corners: np.ndarray, scores: np.ndarray, most: int, overlap: float, least: float | None
) -> list[int]:
    """Greedy choice by score; boxes that overlap a chosen one by more than ``overlap`` go."""
    kept: list[int] = []
    area = np.prod(corners[:, 2:] - corners[:, :2], axis=1)
    for box in np.argsort(-scores, kind="stable"):
        if len(kept) >= most or (least is not None and scores[box] <= least):
            break
        low = np.maximum(corners[kept, :2], corners[box, :2])
        high = np.minimum(corners[kept, 2:], corners[box, 2:])
        common = np.prod(np.clip(high - low, 0, None), axis=1)
        union = area[kept] + area[box] - common
        share = np.divide(common, union, out=np.zeros_like(common), where=union > 0)
        if not (share > overlap).any():
            kept.append(int(box))
    return kept


@lowering("Det")
def _det(ctx: Context) -> Value:
    """Determinants of [..., n, n] by Gaussian elimination with partial pivoting, one at a time."""
    ctx.need_float()
    b, x = ctx.b, ctx.input(0)
    if x.rank < 2 or x.shape[-1] != x.shape[-2]:
        raise ctx.shape_error("the input is a square matrix or a batch of them")
    n, batch, lead = x.shape[-1], math.prod(x.shape[:-2]), x.shape[:-2]
    if not n or not batch:
        return b.splat(lead, x.dtype, 1)
    wide = dtypes.wide(x.dtype)
    matrices = b.reshape(b.cast(x, wide), [batch, n, n])

    def matrix(s: Body, m: Scalar, a: Value, out: Value) -> list[Value]:
        def column(k: Scalar, work: Value, det: Scalar) -> list[Value | Scalar]:
            return _eliminated(s, m, k, n, work, det)

        cleared, det = s.for_(0, n, [a, s.const(1.0, wide)], column)
        return [cleared, s.insert(det, out, [m])]

    out = b.loop(batch, [matrices, b.splat([batch], wide, 0)], matrix)[1]
    return b.cast(b.reshape(out, lead), x.dtype)


def _eliminated(
    s: Body, m: Scalar, k: Scalar, n: int, work: Value, det: Scalar
) -> list[Value | Scalar]:
    """Column ``k`` of matrix ``m`` cleared below the diagonal; ``det`` times its pivot."""

    def larger(i: Scalar, row: Scalar, size: Scalar) -> list[Scalar]:
        here = s.abs(s.extract(work, [m, i, k]))
        return [s.select(here > size, i, row), s.select(here > size, here, size)]

    pivot_row = s.for_(k, n, [k, s.const(-1.0, det.dtype)], larger)[0]

    def swap(j: Scalar, tensor: Value) -> list[Value]:
        upper, lower = s.extract(tensor, [m, k, j]), s.extract(tensor, [m, pivot_row, j])
        return [s.insert(upper, s.insert(lower, tensor, [m, k, j]), [m, pivot_row, j])]

    swapped = s.for_(0, n, [work], swap)[0]
    pivot = s.extract(swapped, [m, k, k])
    divisor = s.select(pivot.eq(0.0), 1.0, pivot)

    def clear(i: Scalar, tensor: Value) -> list[Value]:
        factor = s.extract(tensor, [m, i, k]) / divisor

        def subtract(j: Scalar, inner: Value) -> list[Value]:
            value = s.extract(inner, [m, i, j]) - factor * s.extract(inner, [m, k, j])
            return [s.insert(value, inner, [m, i, j])]

        return s.for_(k, n, [tensor], subtract)

    done = s.for_(k + 1, n, [swapped], clear)[0]
    return [done, s.select(pivot_row.ne(k), -det, det) * pivot]
