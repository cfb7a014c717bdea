"""Residual networks: ResNet-50 (He et al. 2016, v1.5 strides) and ResNeXt-29 (Xie et al. 2017)."""

from collections.abc import Sequence

from onnx import ModelProto

from .graph import ModelGraph

MODELS = ("resnet50", "resnext29")


def resnet50(
    seed: int = 0,
    batch: int = 1,
    image: int = 224,
    width: int = 64,
    blocks: Sequence[int] = (3, 4, 6, 3),
    classes: int = 1000,
) -> ModelProto:
    """ResNet-50: input (batch, 3, image, image), logits (batch, classes)."""
    g = ModelGraph("resnet50", seed)
    x = g.input("input", (batch, 3, image, image))
    x = g.conv_bn(x, width, 7, stride=2, name="conv1")
    x = g.max_pool(x, 3, 2, 1)
    for stage, count in enumerate(blocks):
        inner = width << stage
        for block in range(count):
            with g.scope(f"layer{stage + 1}.{block}"):
                stride = 2 if stage and not block else 1
                x = _bottleneck(g, x, inner, 4 * inner, stride, 1)
    return g.model(output=(g.classifier(x, classes), (batch, classes)))


def resnext29(
    seed: int = 0,
    batch: int = 1,
    image: int = 32,
    cardinality: int = 8,
    width: int = 64,
    blocks: Sequence[int] = (3, 3, 3),
    classes: int = 10,
) -> ModelProto:
    """ResNeXt-29, ``cardinality`` x ``width``d, for CIFAR images: logits (batch, classes).

    Blocks are 256 channels wide in the first stage, whatever the groups inside (section 5.2).
    """
    g = ModelGraph("resnext29", seed)
    x = g.conv_bn(g.input("input", (batch, 3, image, image)), 64, 3, name="conv1")
    for stage, count in enumerate(blocks):
        inner, out = cardinality * width << stage, 256 << stage
        for block in range(count):
            with g.scope(f"stage{stage + 1}.{block}"):
                stride = 2 if stage and not block else 1
                x = _bottleneck(g, x, inner, out, stride, cardinality)
    return g.model(output=(g.classifier(x, classes), (batch, classes)))


def _bottleneck(g: ModelGraph, x: str, inner: int, out: int, stride: int, groups: int) -> str:
    """1x1, 3x3 (grouped), 1x1, plus the shortcut (projected where the shape changes)."""
    y = g.conv_bn(x, inner, 1, name="conv1")
    y = g.conv_bn(y, inner, 3, stride=stride, groups=groups, name="conv2")
    y = g.conv_bn(y, out, 1, act="", scale=0.3, name="conv3")
    if stride != 1 or g.width(x) != out:
        x = g.conv_bn(x, out, 1, stride=stride, act="", name="downsample")
    return g.op("Relu", g.op("Add", y, x))
