"""DeepSpeech2 (Amodei et al. 2016) of Rammer's evaluation (OSDI'20): LSTM cells, one direction."""

from collections.abc import Sequence

from onnx import ModelProto

from .graph import Graph
from .lstm import Form, LstmLayer, Steps

MODELS = ("deepspeech2",)

_CHANNELS = 32
# kernel, stride and padding, of time and of frequency, of the convolutions
_CONVOLUTIONS = (((41, 11), (2, 2), (20, 5)), ((21, 11), (2, 1), (10, 5)))


def deepspeech2(
    seed: int = 0,
    batch: int = 1,
    frames: int = 300,
    frequencies: int = 171,
    channels: int = _CHANNELS,
    hidden: int = 256,
    layers: int = 7,
    classes: int = 29,
    form: Form = "written",
) -> ModelProto:
    """Spectrograms (batch, frames, frequencies, 1) to logits (steps * batch, classes).

    There are a quarter as many steps as frames. What the forms are says ``lstm.Form``.
    """
    g = Graph("deepspeech2", seed)
    x = g.input("input", (batch, frames, frequencies, 1))
    x = g.op("Transpose", x, perm=[0, 3, 1, 2], width=1)
    sizes: Sequence[int] = (frames, frequencies)
    for index, (kernel, stride, pad) in enumerate(_CONVOLUTIONS):
        with g.scope(f"conv{index}"):
            x = g.conv(x, channels, kernel, stride=stride, pad=pad)
            x = g.batch_norm(g.op("Clip", x, 0.0, 6.0))
        sizes = [
            (n + 2 * p - k) // s + 1 for n, k, s, p in zip(sizes, kernel, stride, pad, strict=True)
        ]
    steps, features = sizes[0], channels * sizes[1]
    x = g.op("Transpose", x, perm=[2, 0, 3, 1])
    x = g.op("Reshape", x, [steps, batch, features], width=features)
    sequence = Steps(g, x, steps)
    for layer in range(layers):
        n = hidden if layer else features
        sequence, _ = LstmLayer(g, f"lstm.{layer}", batch, n, hidden).run(sequence, form)
    x = g.matmul(g.batch_norm(sequence.rows()), classes, gain=4.0, name="fc")
    return g.model(output=(x, (steps * batch, classes)))
