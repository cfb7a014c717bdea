"""Layers that models spell out in several nodes and PyTorch has as one: what its users write.

Stacked LSTMs are one torch.nn.LSTM, whose layers cuDNN runs beside one another, and attention is
scaled_dot_product_attention. The nodes that they take the place of are dead then.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from onnx import NodeProto

from measurements._torch_builder import Builder, unsupported

_GATES = [0, 2, 3, 1]  # input, forget, candidate, output from ONNX's input, output, forget, cand.


def lstm(b: Builder, node: NodeProto, a: dict[str, Any]) -> tuple[Any, ...]:
    """One direction on (steps, batch, features), with all layers below it that nothing else reads:
    Y, and the last h and c. Raises UnsupportedOp.
    """
    hidden = a["hidden_size"]
    given = [*node.input, *[""] * (8 - len(node.input))]
    if set(a) - {"hidden_size"} or given[4] or given[7] or bool(given[5]) != bool(given[6]):
        raise unsupported(node, "another direction, activation or form of operands")
    stack = _stack(b, node)
    state = (tuple(b.value(given[k]) for k in (5, 6)),) if given[5] else ()
    weights = tuple(name for layer in stack for name in layer.input[1:4])
    operands = b.value(stack[0].input[0]), *state
    made = b.call_module(weights, lambda: _layers(b, stack, hidden), *operands)
    y, last = (b.call(operator.getitem, made, k) for k in range(2))
    top = slice(len(stack) - 1, None)
    h, c = (b.call(operator.getitem, b.call(operator.getitem, last, k), top) for k in range(2))
    return b.call(b.torch.unsqueeze, y, 1), h, c


def _layers(b: Builder, stack: list[NodeProto], hidden: int) -> Any:
    """A torch.nn.LSTM with the weights of these nodes, of the lowest layer first."""
    layers = b.torch.nn.LSTM(b.shape(stack[0], 0)[2], hidden, len(stack))
    for number, layer in enumerate(stack):
        w, r, bias = (b.array(layer, k)[0] for k in (1, 2, 3))
        both = {"bias_ih": bias[: 4 * hidden], "bias_hh": bias[4 * hidden :]}
        for name, array in {"weight_ih": w, "weight_hh": r, **both}.items():
            gates = np.split(array, 4)
            ordered = np.concatenate([gates[k] for k in _GATES])
            getattr(layers, f"{name}_l{number}").data = b.torch.from_numpy(ordered)
    return layers.requires_grad_(False)


def _stack(b: Builder, node: NodeProto) -> list[NodeProto]:
    """The node, and in front of it those whose outputs it alone reads, from states of zeros."""
    found = [node]
    while not any(found[0].input[4:]):
        squeezed = b.producer(found[0].input[0])
        if squeezed is None or squeezed.op_type != "Squeeze" or b.uses(squeezed.output[0]) != 1:
            break
        below = b.producer(squeezed.input[0])
        if below is None or below.op_type != "LSTM" or any(below.input[4:]):
            break
        if [b.uses(name) for name in below.output if name] != [1, 0, 0][: len(below.output)]:
            break
        if b.shape(found[0], 2) != b.shape(below, 2):  # of another size
            break
        found.insert(0, below)
    return found


def attention(b: Builder, node: NodeProto) -> Any:
    """softmax(q k * scale + mask) v for the last product of it; None for all other products."""
    shares = _made_by(b, node.input[0], "Softmax")
    if shares is None:
        return None
    scores, mask = shares.input[0], None
    if (masked := _made_by(b, scores, "Add")) is not None:
        scores, mask = masked.input[0], b.value(masked.input[1])
    scaled = _made_by(b, scores, "Div") or _made_by(b, scores, "Mul")
    product = _made_by(b, scaled.input[0], "MatMul") if scaled is not None else None
    if scaled is None or product is None or not isinstance(b.value(scaled.input[1]), float):
        return None
    factor = b.value(scaled.input[1])
    scale = factor if scaled.op_type == "Mul" else 1.0 / factor
    q, keys, v = b.value(product.input[0]), b.value(product.input[1]), b.value(node.input[1])
    k = b.method("transpose", keys, -2, -1)
    function = b.functional.scaled_dot_product_attention
    return b.call(function, q, k, v, attn_mask=mask, scale=scale)


def _made_by(b: Builder, name: str, op: str) -> NodeProto | None:
    """The node that makes a value that is read once, if it is of this kind."""
    found = b.producer(name)
    return found if found is not None and found.op_type == op and b.uses(name) == 1 else None
