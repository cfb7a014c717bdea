"""Recurrent networks of LSTM cells (Hochreiter and Schmidhuber 1997).

LSTM-TC and Seq2Seq are those of Rammer's evaluation (OSDI'20), unrolled as there; what their forms
are says ``lstm.Form``.
"""

import numpy as np
from onnx import ModelProto

from .graph import ModelGraph
from .lstm import Form, LstmLayer, Steps

MODELS = ("lstm2", "lstm_tc", "seq2seq")


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
    g = ModelGraph("lstm2", seed)
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


def lstm_tc(
    seed: int = 0,
    batch: int = 1,
    steps: int = 100,
    hidden: int = 256,
    layers: int = 10,
    form: Form = "written",
) -> ModelProto:
    """Text classifier: input (steps, batch, hidden), last output (batch, hidden).

    As written, a cell has eight separate products of a vector with a matrix.
    """
    g = ModelGraph("lstm_tc", seed)
    x = Steps(g, g.input("input", (steps, batch, hidden)), steps)
    for layer in range(layers):
        x, state = LstmLayer(g, f"lstm.{layer}", batch, hidden, hidden, separate=True).run(x, form)
    return g.model(output=(state[1], (batch, hidden)))


def seq2seq(
    seed: int = 0,
    batch: int = 1,
    steps: int = 100,
    hidden: int = 128,
    layers: int = 8,
    decoder_steps: int = 30,
    decoder_layers: int = 4,
    form: Form = "written",
) -> ModelProto:
    """Encoder and decoder: input (steps, batch, hidden), last output (batch, hidden).

    The decoder starts from states of zeros; its first input is the last c of the last encoder
    layer, each one after is its own output.
    """
    g = ModelGraph("seq2seq", seed)
    x = Steps(g, g.input("input", (steps, batch, hidden)), steps)
    for layer in range(layers):
        x, state = LstmLayer(g, f"encoder.{layer}", batch, hidden, hidden).run(x, form)
    y = state[0]
    stack = [
        LstmLayer(g, f"decoder.{layer}", batch, hidden, hidden) for layer in range(decoder_layers)
    ]
    cells, states = [layer.cell(form) for layer in stack], [layer.zeros() for layer in stack]
    for t in range(decoder_steps):
        for layer, cell in enumerate(cells):
            states[layer] = cell(t, y, states[layer])
            y = states[layer][1]
    return g.model(output=(y, (batch, hidden)))
