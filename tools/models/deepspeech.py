"""DeepSpeech2 (Amodei et al. 2016), in two forms.

``deepspeech2`` is that of Rammer's evaluation (OSDI'20): LSTM cells, one direction.
``deepspeech2_gru`` is that of the paper, with GRUs of both directions as PyTorch exports them.
"""

from collections.abc import Sequence

import numpy as np
from onnx import ModelProto

from .graph import ModelGraph
from .lstm import Form, LstmLayer, Steps

MODELS = ("deepspeech2", "deepspeech2_gru")

_CHANNELS = 32
# Kernel, stride and padding of the convolutions. Their long side runs along time in Rammer's form,
# along the frequencies in the other.
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
    g = ModelGraph("deepspeech2", seed)
    x = g.input("input", (batch, frames, frequencies, 1))
    x = g.op("Transpose", x, perm=[0, 3, 1, 2], width=1)
    sizes: Sequence[int] = (frames, frequencies)
    for index, (kernel, stride, pad) in enumerate(_CONVOLUTIONS):
        with g.scope(f"conv{index}"):
            x = g.conv(x, channels, kernel, stride=stride, pad=pad)
            x = g.batch_norm(g.op("Clip", x, 0.0, 6.0))
        sizes = _strided(sizes, kernel, stride, pad)
    steps, features = sizes[0], channels * sizes[1]
    x = g.op("Transpose", x, perm=[2, 0, 3, 1])
    x = g.op("Reshape", x, [steps, batch, features], width=features)
    sequence = Steps(g, x, steps)
    for layer in range(layers):
        n = hidden if layer else features
        sequence, _ = LstmLayer(g, f"lstm.{layer}", batch, n, hidden).run(sequence, form)
    x = g.matmul(g.batch_norm(sequence.rows()), classes, gain=4.0, name="fc")
    return g.model(output=(x, (steps * batch, classes)))


def deepspeech2_gru(
    seed: int = 0,
    batch: int = 1,
    frames: int = 101,
    frequencies: int = 161,
    channels: int = _CHANNELS,
    hidden: int = 256,
    layers: int = 3,
    classes: int = 29,
) -> ModelProto:
    """Spectrograms (batch, 1, frequencies, frames) to log-probabilities (steps, batch, classes).

    There are half as many steps as frames. The outputs of both directions are added.
    """
    g = ModelGraph("deepspeech2_gru", seed)
    x = g.input("input", (batch, 1, frequencies, frames))
    sizes: Sequence[int] = (frequencies, frames)
    for index, (kernel, stride, pad) in enumerate(_CONVOLUTIONS):
        with g.scope(f"conv{index}"):
            x = g.conv(x, channels, kernel, stride=stride, pad=pad)
            x = g.op("Clip", g.batch_norm(x), 0.0, 20.0)
        sizes = _strided(sizes, kernel, stride, pad)
    steps, features = sizes[1], channels * sizes[0]
    x = g.op("Reshape", x, [batch, features, steps], width=features)
    x = g.op("Transpose", x, perm=[2, 0, 1])
    zero = g.weight("initial_state", np.zeros((2, batch, hidden), np.float32))
    for layer in range(layers):
        with g.scope(f"gru.{layer}"):
            x = _both_directions(g, x, zero, batch, steps)
    x = g.op("LogSoftmax", g.matmul(x, classes, gain=4.0, name="fc"), axis=-1)
    return g.model(output=(x, (steps, batch, classes)))


def _both_directions(g: ModelGraph, x: str, zero: str, batch: int, steps: int) -> str:
    """A layer of GRUs, (steps, batch, features) to (steps, batch, hidden)."""
    n, hidden = g.width(x), g.width(zero)
    w = g.weight("weight_ih", g.normal((2, 3 * hidden, n), (0.5 / n) ** 0.5))
    r = g.weight("weight_hh", g.normal((2, 3 * hidden, hidden), (0.5 / hidden) ** 0.5))
    b = g.weight("bias", g.normal((2, 6 * hidden), 0.1))
    y = g.ops(
        *("GRU", x, w, r, b, "", zero),
        outputs=2,
        hidden_size=hidden,
        direction="bidirectional",
        linear_before_reset=1,
    )[0]
    y = g.op("Reshape", g.op("Transpose", y, perm=[0, 2, 1, 3]), [steps, batch, 2 * hidden])
    halves = (g.op("Slice", y, [k * hidden], [k * hidden + hidden], [-1]) for k in (0, 1))
    return g.op("Add", *halves, width=hidden)


def _strided(sizes: Sequence[int], *window: Sequence[int]) -> list[int]:
    """Sizes behind a convolution; window: kernel, stride and padding of each dimension."""
    return [(n + 2 * p - k) // s + 1 for n, k, s, p in zip(sizes, *window, strict=True)]
