"""Inception v3 (Szegedy et al. 2016): factorised convolutions, up to six paths side by side."""

from collections.abc import Sequence

from onnx import ModelProto

from .graph import ModelGraph, Size

MODELS = ("inception_v3",)

# One number for each block: the channels that differ between the blocks of one grid
_GRIDS = ((32, 64, 64), (128, 160, 160, 192), (384, 384))

_Layer = tuple[int, Size]  # channels, kernel


def inception_v3(
    seed: int = 0,
    batch: int = 1,
    image: int = 299,
    grids: Sequence[Sequence[int]] = _GRIDS,
    classes: int = 1000,
) -> ModelProto:
    """Without the training head: input (batch, 3, image, image), logits (batch, classes).

    grids: for each block the channels of its pooling path (first grid), inside its paths of 1x7 and
    7x1 (second grid), at the forks into 1x3 and 3x1 (third grid).
    """
    g = ModelGraph("inception_v3", seed)
    x = g.conv_bn(g.input("input", (batch, 3, image, image)), 32, 3, stride=2, pad=0, name="conv1")
    x = g.conv_bn(g.conv_bn(x, 32, 3, pad=0, name="conv2"), 64, 3, name="conv3")
    x = g.conv_bn(g.max_pool(x, 3, 2), 80, 1, name="conv4")
    x = g.max_pool(g.conv_bn(x, 192, 3, pad=0, name="conv5"), 3, 2)
    stages = zip((None, _halve_first, _halve_second), (_block35, _block17, _block8), strict=True)
    for index, (channels, (halve, block)) in enumerate(zip(grids, stages, strict=True)):
        with g.scope(f"grid{index}.reduction"):
            x = halve(g, x) if halve else x
        for number, width in enumerate(channels):
            with g.scope(f"grid{index}.{number}"):
                x = block(g, x, width)
    return g.model(output=(g.classifier(x, classes), (batch, classes)))


def _path(g: ModelGraph, x: str, name: str, *layers: _Layer, halve: bool = False) -> str:
    """Convolutions one after the other. halve: the last one has stride 2 and no padding."""
    for index, (out, kernel) in enumerate(layers):
        last = halve and index == len(layers) - 1
        stride, pad = (2, 0) if last else (1, None)
        x = g.conv_bn(x, out, kernel, stride=stride, pad=pad, name=f"{name}.{index}")
    return x


def _pooled(g: ModelGraph, x: str, out: int) -> str:
    """Averages of 3x3 pixels and a 1x1 convolution."""
    x = g.op("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)
    return g.conv_bn(x, out, 1, name="pool", scale=1.4)


def _fork(g: ModelGraph, x: str, name: str, out: int) -> list[str]:
    return [g.conv_bn(x, out, kernel, name=f"{name}.{kernel[0]}") for kernel in ((1, 3), (3, 1))]


def _block35(g: ModelGraph, x: str, pooled: int) -> str:
    branches = [
        _path(g, x, "1x1", (64, 1)),
        _path(g, x, "5x5", (48, 1), (64, 5)),
        _path(g, x, "3x3", (64, 1), (96, 3), (96, 3)),
        _pooled(g, x, pooled),
    ]
    return g.concat(branches)


def _halve_first(g: ModelGraph, x: str) -> str:
    branches = [
        _path(g, x, "one", (384, 3), halve=True),
        _path(g, x, "two", (64, 1), (96, 3), (96, 3), halve=True),
        g.max_pool(x, 3, 2),
    ]
    return g.concat(branches)


def _block17(g: ModelGraph, x: str, inner: int) -> str:
    row, column = (1, 7), (7, 1)
    once = ((inner, 1), (inner, row), (192, column))
    twice = ((inner, 1), (inner, column), (inner, row), (inner, column), (192, row))
    branches = [
        _path(g, x, "1x1", (192, 1)),
        _path(g, x, "7x7", *once),
        _path(g, x, "7x7twice", *twice),
        _pooled(g, x, 192),
    ]
    return g.concat(branches)


def _halve_second(g: ModelGraph, x: str) -> str:
    branches = [
        _path(g, x, "3x3", (192, 1), (320, 3), halve=True),
        _path(g, x, "7x7", (192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3), halve=True),
        g.max_pool(x, 3, 2),
    ]
    return g.concat(branches)


def _block8(g: ModelGraph, x: str, inner: int) -> str:
    branches = [
        _path(g, x, "1x1", (320, 1)),
        *_fork(g, _path(g, x, "3x3", (inner, 1)), "3x3fork", inner),
        *_fork(g, _path(g, x, "5x5", (448, 1), (inner, 3)), "5x5fork", inner),
        _pooled(g, x, 192),
    ]
    return g.concat(branches)
