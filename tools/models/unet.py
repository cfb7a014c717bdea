"""U-Net (Ronneberger et al. 2015), small: encoder, decoder with ConvTranspose, skip Concat."""

from onnx import ModelProto

from .graph import ModelGraph

MODELS = ("unet",)


def unet(
    seed: int = 0, batch: int = 1, image: int = 128, width: int = 16, depth: int = 3
) -> ModelProto:
    """Segmentation: input (batch, 3, image, image), a probability (batch, 1, image, image).

    image must be a multiple of 2**depth.
    """
    g = ModelGraph("unet", seed)
    x = g.input("input", (batch, 3, image, image))
    skips = []
    for level in range(depth):
        x = _double(g, x, width << level, f"down{level}")
        skips.append(x)
        x = g.max_pool(x, 2, 2)
    x = _double(g, x, width << depth, "bottom")
    for level in reversed(range(depth)):
        x = _up(g, x, width << level, f"up{level}.up")
        x = _double(g, g.concat([skips[level], x]), width << level, f"up{level}")
    x = g.op("Sigmoid", g.conv(x, 1, 1, bias=True, gain=1.0, name="head"))
    return g.model(output=(x, (batch, 1, image, image)))


def _double(g: ModelGraph, x: str, channels: int, name: str) -> str:
    with g.scope(name):
        return g.conv_bn(g.conv_bn(x, channels, 3, name="conv1"), channels, 3, name="conv2")


def _up(g: ModelGraph, x: str, channels: int, name: str) -> str:
    """Transposed convolution 2x2, stride 2: each output element reads one input pixel."""
    with g.scope(name):
        n = g.width(x)
        w = g.weight("weight", g.normal((n, channels, 2, 2), (1.0 / n) ** 0.5))
        b = g.weight("bias", g.normal((channels,), 0.1))
        return g.op("ConvTranspose", x, w, b, width=channels, kernel_shape=[2, 2], strides=[2, 2])
