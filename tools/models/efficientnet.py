"""EfficientNet-B0 (Tan and Le 2019): inverted residuals with squeeze-and-excitation and swish."""

from collections.abc import Sequence
from typing import NamedTuple

from onnx import ModelProto

from .graph import ModelGraph

MODELS = ("efficientnet_b0",)


class Stage(NamedTuple):
    """A row of Table 1 of the paper; stride: of the first block."""

    kernel: int
    expansion: int
    channels: int
    blocks: int
    stride: int


_STAGES = (
    (3, 1, 16, 1, 1),
    (3, 6, 24, 2, 2),
    (5, 6, 40, 2, 2),
    (3, 6, 80, 3, 2),
    (5, 6, 112, 3, 1),
    (5, 6, 192, 4, 2),
    (3, 6, 320, 1, 1),
)


def efficientnet_b0(
    seed: int = 0,
    batch: int = 1,
    image: int = 224,
    stages: Sequence[Sequence[int]] = _STAGES,
    last: int = 1280,
    classes: int = 1000,
) -> ModelProto:
    """EfficientNet-B0: input (batch, 3, image, image), logits (batch, classes).

    A stage is (kernel, expansion, channels, blocks, stride).
    """
    g = ModelGraph("efficientnet_b0", seed)
    x = g.input("input", (batch, 3, image, image))
    x = _swish(g, g.conv_bn(x, 32, 3, stride=2, act="", scale=1.4, name="stem"))
    for number, row in enumerate(stages):
        stage = Stage(*row)
        for block in range(stage.blocks):
            with g.scope(f"features{number}.{block}"):
                x = _inverted_residual(g, x, stage, 1 if block else stage.stride)
    x = _swish(g, g.conv_bn(x, last, 1, act="", scale=1.4, name="last"))
    return g.model(output=(g.classifier(x, classes), (batch, classes)))


def _swish(g: ModelGraph, x: str) -> str:
    return g.op("Mul", x, g.op("Sigmoid", x))


def _inverted_residual(g: ModelGraph, x: str, stage: Stage, stride: int) -> str:
    skip, channels = x, g.width(x)
    inner = stage.expansion * channels
    if stage.expansion != 1:
        x = _swish(g, g.conv_bn(x, inner, 1, act="", scale=1.4, name="expand"))
    deep = {"stride": stride, "groups": inner, "name": "depthwise"}
    x = _swish(g, g.conv_bn(x, inner, stage.kernel, act="", scale=1.4, **deep))
    x = _squeeze_excitation(g, x, max(1, channels // 4))
    residual = stride == 1 and channels == stage.channels
    scale = 0.5 if residual else 1.0
    x = g.conv_bn(x, stage.channels, 1, act="", scale=scale, name="project")
    return g.op("Add", x, skip) if residual else x


def _squeeze_excitation(g: ModelGraph, x: str, squeezed: int) -> str:
    """Scale each channel by what two small layers make of the means of all channels."""
    channels = g.width(x)
    with g.scope("squeeze"):
        y = g.op("GlobalAveragePool", x)
        y = _swish(g, g.conv(y, squeezed, 1, bias=True, name="fc1"))
        y = g.conv(y, channels, 1, bias=True, gain=1.0, name="fc2")
        return g.op("Mul", x, g.op("Sigmoid", y))
