"""Non-maximum suppression: of overlapping boxes the ones with the best scores.

Each class of each batch is a task of its own: the boxes above the threshold become a heap, of
which the best is taken until enough are selected; one that overlaps a selected box is dropped. Most
detectors have few boxes above the threshold, so that sorting all of them would take longer. All is
computed in f32 and in the order of onnxruntime, so that the same boxes are selected.
"""

from __future__ import annotations

from dataclasses import dataclass

from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.compaction import join_rows
from rcompiler.frontend.heap import heapify, pop
from rcompiler.frontend.scalar import Scalar
from rcompiler.frontend.sorting import keys_of

_INDEX_BITS = 32  # of a key in the heap, whose upper half orders the scores

# The part of the boxes that is expected to be above a threshold, and of those the part that is
# looked at before enough are selected: for estimates.
_CANDIDATES = 1 / 16
_LOOKED_AT = 1 / 2
_MEET = 1 / 8  # of pairs of boxes


@dataclass(frozen=True)
class Limits:
    """What is selected at most, for each class of each batch.

    most: the number of boxes that there is room for. count: int64 [], how many are selected at
    most; of more than there is room for, `most`. overlap: f32 [], from which ratio on of
    intersection to union a box is dropped. score: f32 [], which a score must be above; None: all
    are. boxes: int64 [batches * classes], how many boxes there are; None: as many as scores.
    """

    most: int
    count: Value
    overlap: Value
    score: Value | None = None
    boxes: Value | None = None


def selected_boxes(
    b: Builder, boxes: Value, scores: Value, limits: Limits, room: int, centred: bool
) -> tuple[Value, Value]:
    """Selected [batch, class, box] of ``boxes`` [batches, n, 4] by ``scores`` [batches, classes, n]
    of f32, ordered by batch, class and score; of equal scores the first box comes first, and NaN
    is below all others.

    centred: boxes are (x of the middle, y, width, height), and not (y, x, y, x) of two opposite
    corners. Needs a box, and room for one.

    Returns the first ``room`` of them, int64 [room, 3], with zeros behind those that are selected;
    and the number of all that are, int64 [].
    """
    batches, classes, n = scores.shape
    rows = batches * classes
    flat = b.reshape(scores, [rows, n])
    places, counts = _selected(b, _corners(b, boxes, centred), flat, limits)
    joined = join_rows(b, counts, room)

    def element(s: Body, row: Scalar, place: Scalar, total: Scalar) -> Scalar:
        row = s.cast(row, "index")
        box = s.cast(s.extract(places, [row, s.cast(place, "index")]), "int64")
        batch, category = (s.cast(f(row, classes), "int64") for f in (s.div, s.rem))
        column = s.index(1)
        found = s.select(column.eq(0), batch, s.select(column.eq(1), category, box))
        return s.select(s.cast(s.index(0), "int64") < total, found, 0)

    reads = [(joined.row, "d0"), (joined.place, "d0"), (joined.total, "")]
    return b.tabulate([room, 3], "int64", element, *reads), joined.total


def _corners(b: Builder, boxes: Value, centred: bool) -> Value:
    """[batches, n, 4] as (low, low, high, high)."""

    def corner(s: Body) -> Scalar:
        batch, n, side = (s.index(d) for d in range(3))
        upper, axis = side >= 2, s.rem(side, 2)
        first, second = (s.extract(boxes, [batch, n, at]) for at in (axis, axis + 2))
        if centred:
            half = second / 2.0
            return s.select(upper, first + half, first - half)
        return s.select(upper, s.maximum(first, second), s.minimum(first, second))

    return b.tabulate(boxes.shape, boxes.dtype, corner)


def _selected(b: Builder, corners: Value, scores: Value, limits: Limits) -> tuple[Value, Value]:
    """Places [rows, most] of the boxes that are selected, and their counts [rows], both int32."""
    rows, n = scores.shape
    classes = rows // corners.shape[0]
    room = limits.most
    negative = b.elementwise(lambda s, score: -score, scores)
    order = keys_of(b, b.reshape(negative, [rows, n, 1]), largest=False)
    often = 1.0 if limits.score is None else _CANDIDATES

    def packed(s: Body, key: Scalar) -> Scalar:
        return s.shift_left(s.cast(key, "int64"), _INDEX_BITS) + s.cast(s.index(1), "int64")

    keys = b.tabulate([rows, n], "int64", packed, (order, "d0, d1"))

    def row(s: Body, number: Scalar, heap: Value, kept: Value, counts: Value) -> list[Value]:
        batch = s.div(number, classes)
        enough = s.clamp(s.extract(limits.count, []), 0, room)
        enough = s.cast(enough, "index")
        ratio = s.extract(limits.overlap, [])
        real: Scalar | int = n
        if limits.boxes is not None:
            real = s.cast(s.clamp(s.extract(limits.boxes, [number]), 0, n), "index")

        def candidate(i: Scalar, heap: Value, size: Scalar) -> list[Value | Scalar]:
            # what is no candidate is overwritten by the next one
            heap = s.insert(s.extract(keys, [number, i]), heap, [number, size])
            if limits.score is None:
                return [heap, size + 1]
            above = s.extract(scores, [number, i]) > s.extract(limits.score, [])
            return [heap, s.select(above, size + 1, size)]

        size: Scalar
        heap, size = s.for_(0, real, [heap, s.const(0, "index")], candidate)
        heap = heapify(s, heap, number, size)

        def look(taken: Scalar, heap: Value, kept: Value, count: Scalar) -> list[Value | Scalar]:
            def best(heap: Value, kept: Value, count: Scalar) -> list[Value | Scalar]:
                key, heap = pop(s, heap, number, size - taken)
                box = s.cast(s.as_type(s.cast(key, "int32"), "uint32"), "index")

                def compare(j: Scalar, dropped: Scalar) -> list[Scalar]:
                    def with_other(dropped: Scalar) -> list[Scalar]:
                        other = s.cast(s.extract(kept, [number, j]), "index")
                        return [_overlap(s, corners, batch, box, other, ratio)]

                    return s.when(~dropped, [dropped], with_other, _LOOKED_AT)

                held = min(room, n * often) / 2
                clear = s.const(False, "bool")
                dropped = s.for_(0, count, [clear], compare, expected=held)[0]
                kept = s.insert(s.cast(box, "int32"), kept, [number, count])
                return [heap, kept, s.select(dropped, count, count + 1)]

            return s.when(count < enough, [heap, kept, count], best, _LOOKED_AT)

        looked = max(n * often, 1)
        heap, kept, count = s.for_(0, size, [heap, kept, s.const(0, "index")], look, looked)
        return [heap, kept, s.insert(s.cast(count, "int32"), counts, [number])]

    # What is behind the last one that is selected is read, and not used.
    kept = b.fill([rows, room], "int32", 0)
    outs = [b.empty([rows, n], "int64"), kept, b.empty([rows], "int32")]
    _, kept, counts = b.loop(rows, outs, row)
    return kept, counts


def _overlap(
    s: Body, corners: Value, batch: Scalar, box: Scalar, other: Scalar, ratio: Scalar
) -> Scalar:
    """Whether two boxes overlap by more than a ratio of intersection to union."""
    one, two = ([s.extract(corners, [batch, at, c]) for c in range(4)] for at in (box, other))
    low = [s.maximum(one[c], two[c]) for c in (0, 1)]
    high = [s.minimum(one[c], two[c]) for c in (2, 3)]

    def by_areas(_: Scalar) -> list[Scalar]:
        common = (high[0] - low[0]) * (high[1] - low[1])
        areas = [(c[2] - c[0]) * (c[3] - c[1]) for c in (one, two)]
        union = areas[0] + areas[1] - common
        real = (common > 0.0) & (areas[0] > 0.0) & (areas[1] > 0.0) & (union > 0.0)
        return [real & (common / union > ratio)]

    meet = (high[0] > low[0]) & (high[1] > low[1])  # few do
    return s.when(meet, [s.const(False, "bool")], by_areas, _MEET)[0]
