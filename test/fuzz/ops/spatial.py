"""Images at computed places: Resize, Upsample, GridSample, regions."""

from __future__ import annotations

import numpy as np

from fuzz.catalog import generator
from fuzz.maker import FLOATS, NUMBERS, Maker, Value
from fuzz.ops.indexing import data

_MODES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
          "asymmetric", "tf_crop_and_resize")  # fmt: skip


@generator("Resize")
def resize(g: Maker, op: str) -> None:
    first = not g.has("coordinate_transformation_mode")  # of Upsample's places
    mode = g.pick(["nearest", "linear", *([] if first else ["cubic"])])
    rank = g.pick([1, 2, 2, 3]) if mode != "cubic" else 2
    lead = (g.int(1, 2), g.int(1, 3))
    extents = tuple(g.int(2, 6) for _ in range(rank))
    types = g.types(op, "T1")
    if mode == "nearest":
        types = tuple(g.among(types, NUMBERS))
    else:  # how integers round, nobody says
        types = tuple(t for t in types if t in FLOATS)
    x = g.value(types, shape=(*lead, *extents))
    found: dict[str, object] = {"mode": mode}
    by_axes = g.chance(0.4) and g.has("axes")
    axes = list(range(2, x.rank)) if by_axes else None
    same = [] if by_axes else [1.0, 1.0]
    found["coordinate_transformation_mode"] = how = (
        "asymmetric" if first else g.pick([None, *_MODES])
    )
    if mode == "nearest":
        roundings = [None, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
        found["nearest_mode"] = "floor" if first else g.pick(roundings)
    if mode == "cubic":
        found["cubic_coeff_a"] = g.pick([None, -0.5])
    if mode != "nearest" and how in (None, "half_pixel", "asymmetric"):
        found["exclude_outside"] = g.pick([None, 0, 1]) if mode == "cubic" else None
        found["antialias"] = g.pick([None, None, 1])
    region = None
    if how == "tf_crop_and_resize":
        low = [0.0] * (x.rank if not by_axes else rank)
        high = [1.0 if i < len(same) else g.random.uniform(0.6, 1.2) for i in range(len(low))]
        region = g.fixed(np.array([*low, *high]), "float32")
        found["extrapolation_value"] = g.pick([None, 2.0])
    scales = sizes = None
    if g.chance(0.5) or first:
        # scales whose products are whole: else the result's size is a matter of rounding
        factors = [g.pick([1.0, 2.0, 3.0, 1.5 if e % 2 == 0 else 2.0, 0.5 if e % 2 == 0 else 1.0])
                   for e in extents]  # fmt: skip
        scales = g.fixed(np.array([*same, *factors]), "float32")
    else:
        wanted = [g.int(1, 2 * e) for e in extents]
        sizes = g.fixed(np.array([*([] if by_axes else lead), *wanted], np.int64))
        if by_axes and g.chance(0.6) and how != "tf_crop_and_resize":
            found["keep_aspect_ratio_policy"] = g.pick(["stretch", "not_larger", "not_smaller"])
    g.node(op, [x, region, scales, sizes], axes=axes, **found)


@generator("Upsample", opsets=range(9, 10))
def upsample(g: Maker, op: str) -> None:
    types = g.among(g.types(op), ("float32",))
    x = g.value(types, shape=(g.int(1, 2), g.int(1, 3), g.int(1, 4), g.int(1, 4)))
    scales = [1.0, 1.0, float(g.int(1, 3)), float(g.int(1, 3))]
    mode = g.pick(["nearest", "linear"]) if x.dtype in FLOATS else "nearest"
    g.node(op, [x, g.fixed(np.array(scales), "float32")], mode=mode)


@generator("GridSample")
def grid_sample(g: Maker, op: str) -> None:
    rank = g.pick([2, 2, 3])
    mode = g.pick(
        [None, "linear", "nearest", "cubic"] if rank == 2 else [None, "linear", "nearest"]
    )
    x = g.value(g.among(g.types(op, "T1"), FLOATS),
                shape=(g.int(1, 2), g.int(1, 2), *(g.int(2, 5) for _ in range(rank))))  # fmt: skip
    kind = x.dtype if x.dtype in g.types(op, "T2") else "float32"
    grid = g.leaf(kind, (x.shape[0], *(g.int(1, 4) for _ in range(rank)), rank), -1.3, 1.3)
    paddings = [None, "zeros", "border", "reflection"]
    if mode == "cubic":
        paddings.remove("border")  # onnx.reference goes by the letter there, which exporters do not
    g.node(op, [x, grid], mode=mode, align_corners=g.pick([None, 0, 1]),
           padding_mode=g.pick(paddings))  # fmt: skip


def _regions(g: Maker, dtype: str, count: int, height: int, width: int) -> np.ndarray:
    """[count, 4]: x1, y1, x2, y2 inside of an image."""
    first = g.numbers.uniform(0, 0.5, (count, 2)) * [width - 1, height - 1]
    extent = g.numbers.uniform(0.3, 0.5, (count, 2)) * [width, height]
    corners = np.concatenate([first, first + extent], 1)
    return np.round(corners * 8) / 8  # exact in every type


@generator("RoiAlign")
def roi_align(g: Maker, op: str) -> None:
    x = g.value(g.types(op, "T1"), shape=(g.int(1, 2), g.int(1, 3), g.int(4, 8), g.int(4, 8)))
    count = g.int(1, 3)
    array = _regions(g, x.dtype, count, *x.shape[2:])
    rois = g._input(array, x.dtype) if g.chance(0.7) else g.fixed(array, x.dtype)
    batch = g.value(["int64"], shape=(count,), low=0, high=x.shape[0] - 1)
    g.node(op, [x, rois, batch], mode=g.pick([None, "avg", "max"]), output_height=g.int(1, 3),
           output_width=g.int(1, 3), sampling_ratio=g.int(1, 2),
           coordinate_transformation_mode=g.pick([None, "half_pixel", "output_half_pixel"]),
           spatial_scale=g.pick([None, 0.5]))  # fmt: skip


@generator("MaxRoiPool")
def max_roi(g: Maker, op: str) -> None:
    x = g.value(g.types(op), shape=(g.int(1, 2), g.int(1, 3), g.int(4, 8), g.int(4, 8)))
    count = g.int(1, 3)
    corners = np.round(_regions(g, x.dtype, count, *x.shape[2:]))
    batch = g.numbers.integers(0, x.shape[0], (count, 1))
    rois = g._input(np.concatenate([batch, corners], 1).astype(np.float64), x.dtype)
    g.node(op, [x, rois], pooled_shape=[g.int(1, 2), g.int(1, 2)],
           spatial_scale=g.pick([None, 0.5]))  # fmt: skip


def boxes(g: Maker, batch: int, count: int) -> Value:
    """[batch, count, 4] of float32: corners of boxes in [0, 1]."""
    first = g.numbers.uniform(0, 0.7, (batch, count, 2))
    extent = g.numbers.uniform(0.05, 0.3, (batch, count, 2))
    return data(g, np.concatenate([first, first + extent], 2).astype(np.float32), "float32")


@generator("NonMaxSuppression")
def suppression(g: Maker, op: str) -> None:
    batch, classes, count = g.int(1, 2), g.int(1, 2), g.int(1, 8)
    ranks = g.numbers.permutation(batch * classes * count).reshape(batch, classes, count)
    scores = data(g, (ranks / 64 + 0.1).astype(np.float32), "float32")
    given = [data(g, np.array([g.int(1, 4)], np.int64), "int64")]
    if g.chance(0.7):
        given.append(data(g, np.array([g.random.uniform(0.2, 0.8)], np.float32), "float32"))
        if g.chance(0.5):
            given.append(data(g, np.array([0.2], np.float32), "float32"))
    g.node(op, [boxes(g, batch, count), scores, *given], center_point_box=g.pick([None, 0, 1]))
