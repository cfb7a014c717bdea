"""Vision transformer ViT-B/16 (Dosovitskiy et al. 2021)."""

from onnx import ModelProto

from .attention import Heads, gelu_erf
from .graph import ModelGraph

MODELS = ("vit_b16",)


def vit_b16(
    seed: int = 0,
    batch: int = 1,
    image: int = 224,
    patch: int = 16,
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    classes: int = 1000,
) -> ModelProto:
    """Input (batch, 3, image, image), logits (batch, classes); image is a multiple of patch."""
    g = ModelGraph("vit_b16", seed)
    x = g.input("input", (batch, 3, image, image))
    count = (image // patch) ** 2
    x = g.conv(x, hidden, patch, stride=patch, pad=0, bias=True, gain=1.0, name="conv_proj")
    x = g.op("Transpose", g.op("Reshape", x, [batch, hidden, count]), perm=[0, 2, 1])
    token = g.weight("class_token", g.normal((1, 1, hidden), 1.0))
    token = g.op("Expand", token, [batch, 1, hidden])
    x = g.op("Concat", token, x, axis=1, width=hidden)
    x = g.op("Add", x, g.weight("pos_embedding", g.normal((1, count + 1, hidden), 0.3)))
    shape = Heads(batch, count + 1, heads, hidden // heads)
    for layer in range(layers):
        with g.scope(f"encoder.{layer}"):
            x = _block(g, x, shape, layers)
    x = g.op("Gather", g.layer_norm(x, 1e-6, name="ln"), 0, axis=1)
    return g.model(output=(g.gemm(x, classes, name="head"), (batch, classes)))


def _block(g: ModelGraph, x: str, shape: Heads, layers: int) -> str:
    hidden, gain = g.width(x), 1.0 / layers
    y = g.matmul(g.layer_norm(x, 1e-6, name="ln_1"), 3 * hidden, name="in_proj")
    q, k, v = g.ops("Split", y, outputs=3, axis=2, num_outputs=3, width=hidden)
    scores = shape.scores(g, shape.split(g, q), shape.split(g, k, keys=True))
    y = g.matmul(shape.mix(g, scores, shape.split(g, v)), hidden, gain=gain, name="out_proj")
    x = g.op("Add", y, x)
    y = g.matmul(g.layer_norm(x, 1e-6, name="ln_2"), 4 * hidden, name="mlp.0")
    return g.op("Add", x, g.matmul(gelu_erf(g, y), hidden, gain=2 * gain, name="mlp.3"))
