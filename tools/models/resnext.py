"""ResNeXt of 64 channels a branch (Xie et al. 2017), as Rammer's evaluation has it (OSDI'20).

There, each of the branches of a block stands for itself in the graph. ``form="normalised"`` is the
same network of the same weights with grouped convolutions in their place.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from onnx import ModelProto

from .graph import ModelGraph

MODELS = ("resnext29_16x64d", "resnext101_64x4d")

Form = Literal["written", "normalised"]


def resnext29_16x64d(
    seed: int = 0,
    batch: int = 1,
    image: int = 32,
    cardinality: int = 16,
    width: int = 64,
    channels: int = 64,
    blocks: Sequence[int] = (3, 3, 3),
    classes: int = 10,
    form: Form = "written",
) -> ModelProto:
    """For CIFAR images: input (batch, 3, image, image), logits (batch, classes).

    width: of a branch, in all stages. channels: between the blocks of the first stage. A shortcut
    is halved by averaging and widened by zeros.
    """
    g = ModelGraph("resnext29_16x64d", seed)
    x = g.conv_bn(g.input("input", (batch, 3, image, image)), channels, 3, name="conv1")
    for stage, count in enumerate(blocks):
        for block in range(count):
            with g.scope(f"stage{stage + 1}.{block}"):
                stride = 2 if stage and not block else 1
                y = _branches(g, x, width, cardinality, stride, form)
                y = g.conv_bn(y, channels << stage, 1, act="", scale=0.3, name="conv3")
                x = g.op("Relu", g.op("Add", y, _widened(g, x) if stride == 2 else x))
    return g.model(output=(_head(g, x, classes), (batch, classes)))


def resnext101_64x4d(
    seed: int = 0,
    batch: int = 1,
    image: int = 224,
    cardinality: int = 64,
    width: int = 4,
    blocks: Sequence[int] = (3, 4, 23, 3),
    classes: int = 1000,
    form: Form = "written",
) -> ModelProto:
    """For ImageNet: input (batch, 3, image, image), logits (batch, classes).

    width: of a branch in the first stage, doubled in each one after.
    """
    g = ModelGraph("resnext101_64x4d", seed)
    x = g.conv_bn(g.input("input", (batch, 3, image, image)), 64, 7, stride=2, name="conv1")
    x = g.max_pool(x, 3, 2, 1)
    for stage, count in enumerate(blocks):
        out = cardinality * width << stage
        for block in range(count):
            with g.scope(f"layer{stage + 1}.{block}"):
                stride = 2 if stage and not block else 1
                y = _branches(g, x, width << stage, cardinality, stride, form)
                y = g.conv_bn(y, out, 1, act="", scale=0.3, name="conv3")
                if g.width(x) != out:
                    x = g.conv_bn(x, out, 1, stride=stride, act="", name="downsample")
                x = g.op("Relu", g.op("Add", y, x))
    return g.model(output=(_head(g, x, classes), (batch, classes)))


class _Layer(NamedTuple):
    """The weights of a convolution and of the normalisation behind it."""

    weight: np.ndarray
    norm: tuple[np.ndarray, ...]

    @classmethod
    def draw(cls, g: ModelGraph, out: int, features: int, kernel: int) -> "_Layer":
        shape = (out, features, kernel, kernel)
        std = (2 / (features * kernel * kernel)) ** 0.5
        return cls(g.normal(shape, std), g.norm_parameters(out))

    @classmethod
    def joined(cls, layers: Sequence["_Layer"]) -> "_Layer":
        """One layer with the outputs of all."""
        norms = zip(*(layer.norm for layer in layers), strict=True)
        weight = np.concatenate([layer.weight for layer in layers])
        return cls(weight, tuple(np.concatenate(values) for values in norms))

    def apply(self, g: ModelGraph, x: str, name: str, stride: int = 1, groups: int = 1) -> str:
        x = g.conv_of(x, self.weight, stride=stride, groups=groups, name=name)
        return g.op("Relu", g.batch_norm_of(x, self.norm, f"{name}_bn"))


def _branches(g: ModelGraph, x: str, width: int, count: int, stride: int, form: Form) -> str:
    """A 1x1 and a 3x3 convolution in each of ``count`` branches, and all branches side by side."""
    layers = [
        (_Layer.draw(g, width, g.width(x), 1), _Layer.draw(g, width, width, 3))
        for _ in range(count)
    ]
    if form == "normalised":
        first, second = map(_Layer.joined, zip(*layers, strict=True))
        x = first.apply(g, x, "conv1", stride)
        return second.apply(g, x, "conv2", groups=count)
    results = []
    for index, (first, second) in enumerate(layers):
        with g.scope(f"branch{index}"):
            results.append(second.apply(g, first.apply(g, x, "conv1", stride), "conv2"))
    return g.concat(results)


def _widened(g: ModelGraph, x: str) -> str:
    """Half the height and width, twice the channels: averages with zeros on both sides."""
    more = g.width(x) // 2
    x = g.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    return g.op("Pad", x, [0, more, 0, 0, 0, more, 0, 0], width=g.width(x) + 2 * more)


def _head(g: ModelGraph, x: str, classes: int) -> str:
    x = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
    return g.matmul(x, classes, bias=False, name="fc")
