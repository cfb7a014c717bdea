"""Recurrent networks with the LSTM operator (Hochreiter and Schmidhuber 1997)."""

import numpy as np
from onnx import ModelProto

from .graph import Graph

MODELS = ("lstm2",)


def lstm2(
    seed: int = 0,
    batch: int = 1,
    sequence: int = 64,
    features: int = 256,
    hidden: int = 256,
    layers: int = 2,
    classes: int = 10,
) -> ModelProto:
    """Stacked LSTM classifier: input (sequence, batch, features), logits (batch, classes)."""
    g = Graph("lstm2", seed)
    x = g.input("input", (sequence, batch, features))
    zero = g.weight("initial_state", np.zeros((1, batch, hidden), np.float32))
    for layer in range(layers):
        with g.scope(f"lstm.{layer}"):
            n = g.width(x)
            # the gates saturate beyond +-2: input and state contribute one half of unit variance
            w = g.weight("weight_ih", g.normal((1, 4 * hidden, n), (0.5 / n) ** 0.5))
            r = g.weight("weight_hh", g.normal((1, 4 * hidden, hidden), (0.5 / hidden) ** 0.5))
            b = g.weight("bias", g.normal((1, 8 * hidden), 0.1))
            y = g.ops("LSTM", x, w, r, b, "", zero, zero, outputs=3, hidden_size=hidden)[0]
            x = g.op("Squeeze", y, [1], width=hidden)
    last = g.op("Gather", x, -1, axis=0)
    return g.model(output=(g.gemm(last, classes, gain=4.0), (batch, classes)))
