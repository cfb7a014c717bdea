"""MobileNetV2 (Sandler et al. 2018): inverted residuals with depthwise convolutions and ReLU6."""

from collections.abc import Sequence

from onnx import ModelProto

from .graph import ModelGraph

MODELS = ("mobilenet_v2",)

# expansion, channels, repeats, stride of the first: Table 2 of the paper
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v2(
    seed: int = 0,
    batch: int = 1,
    image: int = 224,
    last: int = 1280,
    stages: Sequence[Sequence[int]] = _STAGES,
    classes: int = 1000,
) -> ModelProto:
    """MobileNetV2, width 1.0: input (batch, 3, image, image), logits (batch, classes)."""
    g = ModelGraph("mobilenet_v2", seed)
    x = g.input("input", (batch, 3, image, image))
    x = _relu6(g, g.conv_bn(x, 32, 3, stride=2, act="", name="stem"))
    for stage, (expansion, channels, repeats, first) in enumerate(stages):
        for block in range(repeats):
            with g.scope(f"features{stage}.{block}"):
                x = _inverted_residual(g, x, expansion, channels, 1 if block else first)
    x = _relu6(g, g.conv_bn(x, last, 1, act="", name="last"))
    return g.model(output=(g.classifier(x, classes), (batch, classes)))


def _relu6(g: ModelGraph, x: str) -> str:
    return g.op("Clip", x, 0.0, 6.0)


def _inverted_residual(g: ModelGraph, x: str, expansion: int, channels: int, stride: int) -> str:
    skip, inner = x, expansion * g.width(x)
    if expansion != 1:
        x = _relu6(g, g.conv_bn(x, inner, 1, act="", scale=1.4, name="expand"))
    x = g.conv_bn(x, inner, 3, stride=stride, groups=inner, act="", scale=1.4, name="depthwise")
    residual = stride == 1 and g.width(skip) == channels
    x = _relu6(g, x)
    x = g.conv_bn(x, channels, 1, act="", scale=0.4 if residual else 1.0, name="project")
    return g.op("Add", skip, x) if residual else x
