"""MobileNetV3-Large (Howard et al. 2019): squeeze-and-excitation, hard sigmoid and hard swish."""

from collections.abc import Sequence
from typing import NamedTuple

from onnx import ModelProto

from .graph import ModelGraph

MODELS = ("mobilenet_v3",)


class Block(NamedTuple):
    """A row of Table 1 of the paper; swish: HardSwish in place of Relu."""

    kernel: int
    inner: int
    channels: int
    squeeze: int  # 1: with squeeze-and-excitation
    swish: int
    stride: int


_BLOCKS = (
    (3, 16, 16, 0, 0, 1),
    (3, 64, 24, 0, 0, 2),
    (3, 72, 24, 0, 0, 1),
    (5, 72, 40, 1, 0, 2),
    (5, 120, 40, 1, 0, 1),
    (5, 120, 40, 1, 0, 1),
    (3, 240, 80, 0, 1, 2),
    (3, 200, 80, 0, 1, 1),
    (3, 184, 80, 0, 1, 1),
    (3, 184, 80, 0, 1, 1),
    (3, 480, 112, 1, 1, 1),
    (3, 672, 112, 1, 1, 1),
    (5, 672, 160, 1, 1, 2),
    (5, 960, 160, 1, 1, 1),
    (5, 960, 160, 1, 1, 1),
)


def mobilenet_v3(
    seed: int = 0,
    batch: int = 1,
    image: int = 224,
    blocks: Sequence[Sequence[int]] = _BLOCKS,
    last: int = 960,
    hidden: int = 1280,
    classes: int = 1000,
) -> ModelProto:
    """MobileNetV3-Large, width 1.0: input (batch, 3, image, image), logits (batch, classes).

    A block is (kernel, inner channels, channels, squeeze, swish, stride).
    """
    g = ModelGraph("mobilenet_v3", seed)
    x = g.input("input", (batch, 3, image, image))
    x = g.conv_bn(x, 16, 3, stride=2, act="HardSwish", name="stem")
    for number, block in enumerate(blocks):
        with g.scope(f"features{number}"):
            x = _inverted_residual(g, x, Block(*block))
    x = g.conv_bn(x, last, 1, act="HardSwish", name="last")
    x = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
    x = g.op("HardSwish", g.gemm(x, hidden, gain=4.0, name="classifier0"))
    return g.model(output=(g.gemm(x, classes, gain=4.0, name="classifier1"), (batch, classes)))


def _inverted_residual(g: ModelGraph, x: str, block: Block) -> str:
    skip, act = x, "HardSwish" if block.swish else "Relu"
    if block.inner != g.width(x):
        x = g.conv_bn(x, block.inner, 1, act=act, name="expand")
    x = g.conv_bn(
        *(x, block.inner, block.kernel),
        act=act,
        stride=block.stride,
        groups=block.inner,
        name="depthwise",
    )
    if block.squeeze:
        x = _squeeze_excitation(g, x)
    residual = block.stride == 1 and g.width(skip) == block.channels
    scale = 0.5 if residual else 1.0
    x = g.conv_bn(x, block.channels, 1, act="", scale=scale, name="project")
    return g.op("Add", x, skip) if residual else x


def _squeeze_excitation(g: ModelGraph, x: str) -> str:
    """Scale each channel by what two small layers make of the means of all channels."""
    channels = g.width(x)
    with g.scope("squeeze"):
        y = g.op("GlobalAveragePool", x)
        y = g.op("Relu", g.conv(y, _of_eight(channels / 4), 1, bias=True, name="fc1"))
        y = g.conv(y, channels, 1, bias=True, gain=1.0, name="fc2")
        return g.op("Mul", x, g.op("HardSigmoid", y, alpha=1 / 6, beta=0.5))


def _of_eight(channels: float) -> int:
    """The multiple of 8 that is nearest, at least 8, and not more than 10 % below."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near
