"""Small networks on images of any height and width, as exporters write them."""

import numpy as np
from sized_networks import Graph


def kernel(g, outer, inner, size):
    """Weights that keep the scale of what they are multiplied with."""
    scale = (inner * size * size) ** -0.5
    shape = outer, inner, size, size
    return g.const((g.rng.standard_normal(shape) * scale).astype(np.float32))


def convolved(g, x, inner, outer, size=3, stride=1, act="SiLU"):
    pads = [size // 2] * 4
    y = g.Conv(x, kernel(g, outer, inner, size), g.weight(outer), pads=pads, strides=[stride] * 2)
    if act == "Relu":
        return g.Relu(y)
    return g.Mul(y, g.Sigmoid(y))


def _twice(g, x, inner, outer):
    return convolved(g, convolved(g, x, inner, outer, act="Relu"), outer, outer, act="Relu")


def _padded(g, x, skip):
    """As large as what it meets, half of what is missing on each side, as exporters write it."""
    sides = [g.Shape(each, start=2) for each in (skip, x)]
    missing = g.Sub(*sides)
    before = g.Div(missing, g.ints(2))
    return g.Pad(x, g.Concat(before, g.Sub(missing, before), axis=0), "", g.ints(2, 3))


def unet(transposed=True, levels=2, width=4, padded=False):
    """Segmentation. What is half as large comes up by ConvTranspose, for sides that can be halved
    as often as there are levels, or padded for all sides; else by Resize to the size of what it
    meets, for all sides, too.
    """
    g = Graph()
    x, skips = _twice(g, "image", 3, width), []
    for level in range(levels):
        skips.append(x)
        x = g.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2])
        x = _twice(g, x, width << level, width << (level + 1))
    for level in reversed(range(levels)):
        inner, outer, skip = width << (level + 1), width << level, skips[level]
        if transposed:
            x = g.ConvTranspose(x, kernel(g, inner, outer, 2), g.weight(outer), strides=[2, 2])
            x = _padded(g, x, skip) if padded else x
        else:
            sizes = g.Concat(g.Shape(x, start=0, end=2), g.Shape(skip, start=2), axis=0)
            x = g.Resize(x, "", "", sizes, mode="linear")
            x = convolved(g, x, inner, outer, 1, act="Relu")
        x = _twice(g, g.Concat(skip, x, axis=1), 2 * outer, outer)
    mask = g.Sigmoid(g.Conv(x, kernel(g, 1, width, 1)))
    return g.model([("image", "f", ["batch", 3, "height", "width"])], [mask])


def _csp(g, x, inner, outer, shortcut=True):
    """The block C3 of YOLOv5: a bottleneck beside a way past it."""
    half = outer // 2
    a, past = convolved(g, x, inner, half, 1), convolved(g, x, inner, half, 1)
    y = convolved(g, convolved(g, a, half, half, 1), half, half)
    a = g.Add(a, y) if shortcut else y
    return convolved(g, g.Concat(a, past, axis=1), outer, outer, 1)


def _sppf(g, x, channels):
    pooled = [convolved(g, x, channels, channels // 2, 1)]
    for _ in range(3):
        pooled.append(g.MaxPool(pooled[-1], kernel_shape=[5, 5], pads=[2] * 4))
    return convolved(g, g.Concat(*pooled, axis=1), 2 * channels, channels, 1)


ANCHORS = ((10, 13), (16, 30)), ((30, 61), (62, 45))


def _decoded(g, x, channels, stride, anchors, classes=3):
    """Boxes of all cells: [batch, anchors * height * width, 5 + classes]."""
    outputs, count = 5 + classes, len(anchors)
    x = g.Conv(x, kernel(g, count * outputs, channels, 1), g.weight(count * outputs))
    batch, height, width = (g.dim(x, axis) for axis in (0, 2, 3))
    shape = g.Concat(batch, g.ints(count), g.ints(outputs), height, width, axis=0)
    x = g.Sigmoid(g.Transpose(g.Reshape(x, shape), perm=[0, 1, 3, 4, 2]))
    centre, extent, rest = g.Split(x, g.ints(2, 2, 1 + classes), outputs=3, axis=4)
    numbers = [
        g.Range(g.const(np.array(0)), g.Squeeze(size, g.ints(0)), g.const(np.array(1)))
        for size in (height, width)
    ]
    whole = g.Concat(height, width, axis=0)
    rows = g.Expand(g.Unsqueeze(numbers[0], g.ints(1)), whole)
    columns = g.Expand(g.Unsqueeze(numbers[1], g.ints(0)), whole)
    grid = g.Concat(g.Unsqueeze(columns, g.ints(2)), g.Unsqueeze(rows, g.ints(2)), axis=2)
    grid = g.Sub(g.Cast(grid, to=1), g.const(np.float32(0.5)))
    centre = g.Mul(g.Add(g.Mul(centre, g.const(np.float32(2))), grid), g.const(np.float32(stride)))
    doubled = g.Mul(extent, g.const(np.float32(2)))
    of_anchors = g.const(np.array(anchors, np.float32).reshape(1, count, 1, 1, 2))
    extent = g.Mul(g.Mul(doubled, doubled), of_anchors)
    boxes = g.Concat(centre, extent, rest, axis=4)
    return g.Reshape(boxes, g.Concat(batch, g.ints(-1), g.ints(outputs), axis=0))


def yolo(width=4):
    """A detector of two scales: a backbone with CSP blocks, SPPF, a way up and a way down, heads.
    Sides are of any size of which what is halved thrice, and doubled, is what is halved twice.
    """
    g = Graph()
    x = convolved(g, "images", 3, width, 3, 2)
    x = convolved(g, x, width, 2 * width, 3, 2)
    fine = _csp(g, x, 2 * width, 2 * width)
    x = convolved(g, fine, 2 * width, 4 * width, 3, 2)
    x = _sppf(g, _csp(g, x, 4 * width, 4 * width), 4 * width)
    coarse = convolved(g, x, 4 * width, 2 * width, 1)
    scales = g.const(np.float32([1, 1, 2, 2]))
    x = g.Resize(coarse, "", scales, mode="nearest", nearest_mode="floor",
                 coordinate_transformation_mode="asymmetric")  # fmt: skip
    fine = _csp(g, g.Concat(x, fine, axis=1), 4 * width, 2 * width, shortcut=False)
    x = convolved(g, fine, 2 * width, 2 * width, 3, 2)
    coarse = _csp(g, g.Concat(x, coarse, axis=1), 4 * width, 4 * width, shortcut=False)
    found = [
        _decoded(g, fine, 2 * width, 4, ANCHORS[0]),
        _decoded(g, coarse, 4 * width, 8, ANCHORS[1]),
    ]
    both = g.Concat(*found, axis=1)
    return g.model([("images", "f", ["batch", 3, "height", "width"])], [both])
