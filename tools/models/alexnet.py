"""AlexNet in one tower (Krizhevsky 2014), the layer sizes of Rammer's evaluation (OSDI'20)."""

from collections.abc import Sequence

from onnx import ModelProto

from .graph import ModelGraph

MODELS = ("alexnet",)

# channels and kernel of the convolutions; () is a pooling
_LAYERS: tuple[tuple[int, ...], ...] = (
    (64, 11),
    (),
    (192, 5),
    (),
    (384, 3),
    (384, 3),
    (256, 3),
    (),
)


def alexnet(
    seed: int = 0,
    batch: int = 1,
    image: int = 227,
    layers: Sequence[Sequence[int]] = _LAYERS,
    hidden: Sequence[int] = (4096, 4096),
    classes: int = 1000,
) -> ModelProto:
    """Input (batch, 3, image, image), logits (batch, classes).

    The first convolution has stride 4 and no padding; hidden: outputs of the linear layers between
    the last pooling and the logits.
    """
    g = ModelGraph("alexnet", seed)
    x, side = g.input("input", (batch, 3, image, image)), image
    for index, layer in enumerate(layers):
        if not layer:
            x, side = g.max_pool(x, 3, 2), (side - 3) // 2 + 1
            continue
        out, kernel = layer
        stride, pad = (1, kernel // 2) if index else (4, 0)
        x = g.conv(x, out, kernel, stride=stride, pad=pad, bias=True, name=f"conv{index}")
        x, side = g.op("Relu", x), (side + 2 * pad - kernel) // stride + 1
    x = g.op("Flatten", x, axis=1, width=g.width(x) * side * side)
    for index, out in enumerate(hidden):
        x = g.op("Relu", g.gemm(x, out, gain=2.0, name=f"fc{index}"))
    return g.model(output=(g.gemm(x, classes, name="logits"), (batch, classes)))
