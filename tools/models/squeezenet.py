"""SqueezeNet 1.1 (Iandola et al. 2016): fire modules, no fully connected layer."""

from collections.abc import Sequence

from onnx import ModelProto

from .graph import ModelGraph

MODELS = ("squeezenet1_1",)

_FIRES = (16, 16, 0, 32, 32, 0, 48, 48, 64, 64)  # squeeze channels; 0 is a pooling layer


def squeezenet1_1(
    seed: int = 0,
    batch: int = 1,
    image: int = 224,
    fires: Sequence[int] = _FIRES,
    classes: int = 1000,
) -> ModelProto:
    """SqueezeNet 1.1: input (batch, 3, image, image), logits (batch, classes)."""
    g = ModelGraph("squeezenet1_1", seed)
    x = g.input("input", (batch, 3, image, image))
    x = g.op("Relu", g.conv(x, 64, 3, stride=2, pad=0, bias=True, name="features.0"))
    x = g.max_pool(x, 3, 2, ceil=1)
    for index, squeeze in enumerate(fires):
        with g.scope(f"fire{index}"):
            x = _fire(g, x, squeeze) if squeeze else g.max_pool(x, 3, 2, ceil=1)
    x = g.op("Relu", g.conv(x, classes, 1, bias=True, name="classifier"))
    x = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
    return g.model(output=(x, (batch, classes)))


def _fire(g: ModelGraph, x: str, squeeze: int) -> str:
    x = g.op("Relu", g.conv(x, squeeze, 1, bias=True, name="squeeze"))
    left = g.op("Relu", g.conv(x, 4 * squeeze, 1, bias=True, name="expand1x1"))
    right = g.op("Relu", g.conv(x, 4 * squeeze, 3, bias=True, name="expand3x3"))
    return g.concat([left, right])
