"""NASNet-A (Zoph et al. 2018): cells that a search has found, of separable convolutions.

The CIFAR network 6@768 and the mobile ImageNet network 4@1056, as in TensorFlow's slim library and
Rammer's evaluation (OSDI'20). N@M is N cells in a row and M channels at the end.
"""

from typing import NamedTuple

from onnx import ModelProto

from .graph import ModelGraph, window

MODELS = ("nasnet_a", "nasnet_mobile")

# Behind each convolution of a sum, so that sums of two keep the magnitude of their operands
_SCALE = 0.7


class _Plan(NamedTuple):
    """A cell. Operands are numbers: 0 is the last cell's output behind a 1x1 convolution, 1 that of
    the cell before it, 2 and up are the sums of this cell.
    """

    sums: tuple[tuple[str, int, str, int], ...]  # operator and operand of either side
    joined: tuple[int, ...]  # what the cell hands on
    stride: int


_NORMAL = _Plan(
    (
        ("sep5", 0, "sep3", 1),
        ("sep5", 1, "sep3", 1),
        ("avg", 0, "none", 1),
        ("avg", 1, "avg", 1),
        ("sep3", 0, "none", 0),
    ),
    joined=(1, 2, 3, 4, 5, 6),
    stride=1,
)
_REDUCTION = _Plan(
    (
        ("sep5", 0, "sep7", 1),
        ("max", 0, "sep7", 1),
        ("avg", 0, "sep5", 1),
        ("none", 3, "avg", 2),
        ("sep3", 2, "max", 0),
    ),
    joined=(3, 4, 5, 6),
    stride=2,
)


class _State(NamedTuple):
    """What a cell hands on. halved: how often the image is halved, which tells sizes apart."""

    value: str
    halved: int


def nasnet_a(
    seed: int = 0,
    batch: int = 1,
    image: int = 32,
    cells: int = 18,
    filters: int = 32,
    stem: int = 96,
    classes: int = 10,
) -> ModelProto:
    """For CIFAR: input (batch, image, image, 3), which is transposed; logits (batch, classes).

    cells: normal ones; a reduction cell follows one third and two thirds of them. filters: of the
    first cells. stem: channels in front of them.
    """
    g = ModelGraph("nasnet_a", seed)
    x = g.input("input", (batch, image, image, 3))
    x = g.op("Transpose", x, perm=[0, 3, 1, 2], width=3)
    x = g.conv_bn(x, stem, 3, act="", name="stem")
    return _network(g, [_State(x, 0)], cells, filters, (batch, classes))


def nasnet_mobile(
    seed: int = 0,
    batch: int = 1,
    image: int = 224,
    cells: int = 12,
    filters: int = 44,
    stem: int = 32,
    classes: int = 1000,
) -> ModelProto:
    """For ImageNet: input (batch, 3, image, image), logits (batch, classes).

    Options as those of ``nasnet_a``; two reduction cells of fewer filters are in front.
    """
    g = ModelGraph("nasnet_mobile", seed)
    x = g.input("input", (batch, 3, image, image))
    x = g.conv_bn(x, stem, 3, stride=2, pad=0, act="", name="stem")
    states = [_State(x, 0)]
    for index, share in enumerate((4, 2)):
        with g.scope(f"stem{index}"):
            states.append(_cell(g, states, filters // share, _REDUCTION))
    return _network(g, states, cells, filters, (batch, classes))


def _network(
    g: ModelGraph, states: list[_State], cells: int, filters: int, shape: tuple[int, int]
) -> ModelProto:
    """All cells and the classifier. states: outputs of the cells in front, the last ones last."""
    for index in range(cells):
        if index in (cells // 3, cells * 2 // 3):
            filters *= 2
            with g.scope(f"reduction{index}"):
                states.append(_cell(g, states, filters, _REDUCTION))
        with g.scope(f"cell{index}"):
            states.append(_cell(g, states, filters, _NORMAL))
    logits = g.classifier(g.op("Relu", states[-1].value), shape[1])
    return g.model(output=(logits, shape))


def _cell(g: ModelGraph, states: list[_State], filters: int, plan: _Plan) -> _State:
    last, before = states[-1], states[-2] if len(states) > 1 else None
    values = [_point(g, g.op("Relu", last.value), filters, "first")]
    values.append(_alike(g, before, last, filters) if before else last.value)
    for index, (left, i, right, j) in enumerate(plan.sums):
        with g.scope(f"sum{index}"):
            sides = [
                _operator(g, kind, values[k], filters, plan.stride if k < 2 else 1, side)
                for side, kind, k in (("left", left, i), ("right", right, j))
            ]
            values.append(g.op("Add", *sides))
    joined = [
        values[k] if g.width(values[k]) == filters else _point(g, values[k], filters, f"joined{k}")
        for k in plan.joined
    ]
    return _State(g.concat(joined), last.halved + (plan.stride == 2))


def _alike(g: ModelGraph, before: _State, last: _State, filters: int) -> str:
    """The output of the cell before the last one, of the size of the last one's."""
    if before.halved != last.halved:
        return _halved(g, g.op("Relu", before.value), filters)
    if g.width(before.value) != filters:
        return _point(g, g.op("Relu", before.value), filters, "before")
    return before.value


def _halved(g: ModelGraph, x: str, out: int) -> str:
    """Half the height and width: pixels of even and those of odd rows and columns, side by side."""
    shifted = g.op("Pad", x, [0, 0, 0, 0, 0, 0, 1, 1])
    shifted = g.op("Slice", shifted, [1, 1], [2**31 - 1, 2**31 - 1], [2, 3])
    halves = [
        g.conv(g.op("AveragePool", part, kernel_shape=[1, 1], strides=[2, 2]), out // 2, 1, name=n)
        for n, part in (("even", x), ("odd", shifted))
    ]
    return g.batch_norm(g.concat(halves), name="halved_bn")


def _point(g: ModelGraph, x: str, out: int, name: str, scale: float = 1.0) -> str:
    """1x1 convolution and normalisation."""
    return g.batch_norm(g.conv(x, out, 1, name=name), scale, name=f"{name}_bn")


def _operator(g: ModelGraph, kind: str, x: str, filters: int, stride: int, side: str) -> str:
    with g.scope(side):
        if kind.startswith("sep"):
            return _separable(g, x, filters, int(kind.removeprefix("sep")), stride)
        if kind == "none":
            if stride == 1 and g.width(x) == filters:
                return x
            return _point(g, g.op("Relu", x), filters, "none", _SCALE)
        pool = {"avg": "AveragePool", "max": "MaxPool"}[kind]
        x = g.op(pool, x, kernel_shape=[3, 3], **window((3, 3), stride, "same"))
        return x if g.width(x) == filters else _point(g, x, filters, "pooled", _SCALE)


def _separable(g: ModelGraph, x: str, out: int, kernel: int, stride: int) -> str:
    """Twice: rectifier, convolution in each channel, 1x1 convolution, normalisation."""
    for index in range(2):
        n = g.width(x)
        x = g.conv(
            g.op("Relu", x),
            n,
            kernel,
            stride=1 if index else stride,
            pad="same",
            groups=n,
            name=f"depthwise{index}",
        )
        x = g.conv(x, out, 1, gain=1.0, name=f"pointwise{index}")
        x = g.batch_norm(x, _SCALE if index else 1.0, name=f"bn{index}")
    return x
