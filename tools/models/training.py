"""A step of training as inference engines see it: a graph like any other, of forward operators, the
loss, the gradients of all parameters, and new parameters.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from onnx import ModelProto

from rcompiler.errors import InvalidModel

from .graph import ModelGraph

MODELS = ("convnet_training",)

RATE = 0.05  # of the update: new = old - RATE * gradient of the mean loss
_AROUND = [1, 1, 1, 1]  # zeros around an image that keep its size under a 3x3 convolution
_SWAPPED = [1, 0, 2, 3]  # images and channels


def convnet_training(
    seed: int = 0,
    batch: int = 32,
    image: int = 32,
    channels: Sequence[int] = (32, 64),
    classes: int = 10,
) -> ModelProto:
    """A step of gradient descent on images (batch, 3, image, image) and int64 labels (batch).

    The network: for each of `channels` a 3x3 convolution, a rectifier and averages of 2x2 pixels,
    then a linear layer. Outputs: the cross entropy of each image, `loss`, and for each parameter P
    its new value, `P.updated`.
    """
    size = image >> len(channels)
    if size << len(channels) != image:
        raise InvalidModel(
            f"image={image} cannot be halved {len(channels)} times; give a multiple of "
            f"{1 << len(channels)}"
        )
    g = ModelGraph("convnet_training", seed)
    x = g.input("input", (batch, 3, image, image))
    labels = g.input("labels", (batch,), "int64")
    blocks = []
    for index, out in enumerate(channels, 1):
        with g.scope(f"conv{index}"):
            blocks.append(_Block.forward(g, x, out))
            x = g.op("AveragePool", blocks[-1].result, kernel_shape=[2, 2], strides=[2, 2])
    last = _Linear.forward(g, g.op("Flatten", x, width=channels[-1] * size**2), classes)
    loss, slope = _cross_entropy(g, last.result, labels, batch, classes)
    outputs: dict[str, tuple[str, Sequence[int]]] = {"loss": (loss, (batch,))}
    with g.scope("backward"):
        slope, updates = last.backward(g, slope)
        slope = g.op("Reshape", slope, [batch, channels[-1], size, size])
        for block in reversed(blocks):
            slope, more = block.backward(g, _spread(g, slope), first=block is blocks[0])
            updates |= more
    for name, (gradient, shape) in updates.items():
        with g.scope("update"):
            new = g.op("Sub", name, g.op("Mul", gradient, RATE))
        outputs[f"{name}.updated"] = (new, shape)
    return g.model(**outputs)


Gradients = dict[str, tuple[str, Sequence[int]]]  # parameter -> its gradient, and their shape


class _Block(NamedTuple):
    """relu(conv(x, weight) + bias). linear: what the rectifier gets."""

    x: str
    weight: str
    bias: str
    shape: tuple[int, ...]
    linear: str
    result: str

    @classmethod
    def forward(cls, g: ModelGraph, x: str, out: int) -> "_Block":
        shape = (out, g.width(x), 3, 3)
        weight = g.weight("weight", g.normal(shape, (2 / (g.width(x) * 9)) ** 0.5))
        bias = g.weight("bias", g.normal((out,), 0.1))
        linear = g.op("Conv", x, weight, bias, kernel_shape=[3, 3], pads=_AROUND, width=out)
        return cls(x, weight, bias, shape, linear, g.op("Relu", linear))

    def backward(self, g: ModelGraph, slope: str, first: bool) -> tuple[str, Gradients]:
        """The gradients of the operand ("" of the network's) and of the parameters."""
        slope = g.op("Where", g.op("Greater", self.linear, 0.0), slope, 0.0)
        bias = g.op("ReduceSum", slope, [0, 2, 3], keepdims=0)
        # The sum over images and pixels: a convolution of channels with channels.
        images = (g.op("Transpose", value, perm=_SWAPPED) for value in (self.x, slope))
        weight = g.op("Transpose", g.op("Conv", *images, pads=_AROUND), perm=_SWAPPED)
        gradients: Gradients = {
            self.weight: (weight, self.shape),
            self.bias: (bias, self.shape[:1]),
        }
        if first:
            return "", gradients
        return g.op("ConvTranspose", slope, self.weight, pads=_AROUND), gradients


class _Linear(NamedTuple):
    """x weight^T + bias."""

    x: str
    weight: str
    bias: str
    shape: tuple[int, ...]
    result: str

    @classmethod
    def forward(cls, g: ModelGraph, x: str, out: int) -> "_Linear":
        with g.scope("fc"):
            shape = (out, g.width(x))
            weight = g.weight("weight", g.normal(shape, (1 / g.width(x)) ** 0.5))
            bias = g.weight("bias", g.normal((out,), 0.1))
            return cls(x, weight, bias, shape, g.op("Gemm", x, weight, bias, transB=1))

    def backward(self, g: ModelGraph, slope: str) -> tuple[str, Gradients]:
        """The gradients of the operand and of the parameters."""
        weight = g.op("Gemm", slope, self.x, transA=1)
        bias = g.op("ReduceSum", slope, [0], keepdims=0)
        gradients: Gradients = {
            self.weight: (weight, self.shape),
            self.bias: (bias, self.shape[:1]),
        }
        return g.op("MatMul", slope, self.weight), gradients


def _cross_entropy(
    g: ModelGraph, logits: str, labels: str, batch: int, classes: int
) -> tuple[str, str]:
    """The loss of each image, and the gradient of their mean by the logits."""
    loss, logarithm = g.ops("SoftmaxCrossEntropyLoss", logits, labels, outputs=2, reduction="none")
    right = g.op("OneHot", labels, classes, g.constant(np.array([0, 1], np.float32)))
    return loss, g.op("Div", g.op("Sub", g.op("Exp", logarithm), right), float(batch))


def _spread(g: ModelGraph, slope: str) -> str:
    """The gradient of what averages of 2x2 pixels are taken of."""
    scales = g.constant(np.array([1, 1, 2, 2], np.float32))
    wide = g.op(
        "Resize",
        *(slope, "", scales),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    return g.op("Mul", wide, 0.25)
