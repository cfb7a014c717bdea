"""DenseNet-121 (Huang et al. 2017): every layer reads all layers before it in its block."""

from collections.abc import Sequence

from onnx import ModelProto

from .graph import ModelGraph

MODELS = ("densenet121",)


def densenet121(
    seed: int = 0,
    batch: int = 1,
    image: int = 224,
    growth: int = 32,
    blocks: Sequence[int] = (6, 12, 24, 16),
    classes: int = 1000,
) -> ModelProto:
    """DenseNet-BC, k = growth: input (batch, 3, image, image), logits (batch, classes)."""
    g = ModelGraph("densenet121", seed)
    x = g.input("input", (batch, 3, image, image))
    x = g.max_pool(g.conv_bn(x, 2 * growth, 7, stride=2, name="conv0"), 3, 2, 1)
    for stage, layers in enumerate(blocks):
        for layer in range(layers):
            with g.scope(f"denseblock{stage + 1}.{layer}"):
                y = g.conv_bn(_pre(g, x, "norm1"), 4 * growth, 1, name="conv1")
                x = g.concat([x, g.conv(y, growth, 3, gain=1.0, name="conv2")])
        if stage < len(blocks) - 1:
            with g.scope(f"transition{stage + 1}"):
                x = g.conv(_pre(g, x, "norm"), g.width(x) // 2, 1, name="conv")
                x = g.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    return g.model(output=(g.classifier(_pre(g, x, "norm5"), classes), (batch, classes)))


def _pre(g: ModelGraph, x: str, name: str) -> str:
    """Normalisation and rectifier in front of a convolution."""
    return g.op("Relu", g.batch_norm(x, name=name))
