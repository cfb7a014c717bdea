"""Inception v1 with batch normalisation (Szegedy et al. 2015, Ioffe and Szegedy 2015)."""

from collections.abc import Sequence

from onnx import ModelProto

from .graph import ModelGraph

MODELS = ("inception_v1",)

# 1x1 | 3x3 reduce, 3x3 | 5x5 reduce, 5x5 | pool projection: Table 1 of the paper; () is a pooling
_BLOCKS: tuple[tuple[int, ...], ...] = (
    (64, 96, 128, 16, 32, 32),
    (128, 128, 192, 32, 96, 64),
    (),
    (192, 96, 208, 16, 48, 64),
    (160, 112, 224, 24, 64, 64),
    (128, 128, 256, 24, 64, 64),
    (112, 144, 288, 32, 64, 64),
    (256, 160, 320, 32, 128, 128),
    (),
    (256, 160, 320, 32, 128, 128),
    (384, 192, 384, 48, 128, 128),
)


def inception_v1(
    seed: int = 0,
    batch: int = 1,
    image: int = 224,
    blocks: Sequence[Sequence[int]] = _BLOCKS,
    classes: int = 1000,
) -> ModelProto:
    """GoogLeNet without the training heads: four branches per block. Logits (batch, classes)."""
    g = ModelGraph("inception_v1", seed)
    x = g.conv_bn(g.input("input", (batch, 3, image, image)), 64, 7, stride=2, name="conv1")
    x = g.max_pool(x, 3, 2, ceil=1)
    x = g.conv_bn(g.conv_bn(x, 64, 1, name="conv2"), 192, 3, name="conv3")
    x = g.max_pool(x, 3, 2, ceil=1)
    for index, channels in enumerate(blocks):
        with g.scope(f"inception{index}"):
            x = _inception(g, x, *channels) if channels else g.max_pool(x, 3, 2, ceil=1)
    return g.model(output=(g.classifier(x, classes), (batch, classes)))


def _inception(
    g: ModelGraph, x: str, one: int, r3: int, three: int, r5: int, five: int, p: int
) -> str:
    branches = [
        g.conv_bn(x, one, 1, name="branch1"),
        g.conv_bn(g.conv_bn(x, r3, 1, name="branch2.0"), three, 3, name="branch2.1"),
        g.conv_bn(g.conv_bn(x, r5, 1, name="branch3.0"), five, 5, name="branch3.1"),
        g.conv_bn(g.max_pool(x, 3, 1, 1), p, 1, scale=0.6, name="branch4"),
    ]
    return g.concat(branches)
