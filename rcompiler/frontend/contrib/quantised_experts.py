"""QMoE: mixtures of experts whose weights are integers of a few bits with scales.

Each expert is a product of its own, with weights that stay narrow as those of MatMulNBits do.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rcompiler.frontend import dtypes
from rcompiler.frontend.few_bits import bit_fields

from .experts import ATTRIBUTES, mixture
from .node import Node, Result, operator

_KIND = {2: "uint2", 3: "uint4", 4: "uint4", 8: "uint8"}  # of numbers of so many bits


@operator(
    "QMoE",
    "input:T router_probs:T fc1_experts_weights:Q fc1_scales:U? fc1_experts_bias:T? "
    "fc2_experts_weights:Q fc2_scales:U? fc2_experts_bias:T? fc3_experts_weights:Q? fc3_scales:U? "
    "fc3_experts_bias:T? fc1_zero_points:Q? fc2_zero_points:Q? fc3_zero_points:Q? "
    "router_weights:T?",
    **ATTRIBUTES,
    accuracy_level=0,
    block_size=0,
    expert_weight_bits=4,
    fc1_expert_weight_bits=0,
    fc2_expert_weight_bits=0,
    fc3_expert_weight_bits=0,
    quant_type="int",
    weights_prepacked=-1,
)
def _quantised_experts(n: Node) -> Result:
    """MoE of constant weights of 2, 3, 4 or 8 bits with a scale for each row or for each block of
    it, in the layout of onnxruntime's CPU provider; the experts that a token is routed to count by
    the softmax of their logits, or by `router_weights`. Not of floats of 4 or 8 bits."""
    if n.attr("quant_type") != "int":
        reason = f"quant_type '{n.attr('quant_type')}' is not translated"
        raise n.refuse(reason, "Quantise the experts to integers")
    if n.attr("weights_prepacked") not in (-1, 0):
        remedy = "Save the model with weights that are not packed for one device"
        raise n.refuse("weights that are packed for one device are not translated", remedy)
    n.need_shape("router_weights", n.shape("router_probs"))
    return mixture(n, _product, _shares)


def _shares(n: Node, found: str, at: str) -> str:
    if not n.has("router_weights"):
        return n.op("Softmax", found, axis=1)
    given = n.op("GatherElements", "router_weights", at, axis=1)
    if not n.attr("normalize_routing_weights"):
        return given
    return n.op("Div", given, n.op("ReduceSum", given, n.ints(1)))


def _product(n: Node, x: str, layer: str, shape: tuple[int, int, int]) -> str:
    experts = shape[0]
    parts = [x] if layer != "fc2" or experts == 1 else n.split(x, 0, *[1] * experts)
    products = [
        n.op("MatMul", parts[number % len(parts)], weights)
        for number, weights in enumerate(_weights(n, layer, shape))
    ]
    return n.op("Concat", *products, axis=0)


def _weights(n: Node, layer: str, shape: tuple[int, int, int]) -> Iterator[str]:
    """Those of each expert, [depth, columns]."""
    experts, columns, depth = shape
    bits = n.attr(f"{layer}_expert_weight_bits") or n.attr("expert_weight_bits")
    if bits not in _KIND:
        raise n.refuse(f"weights of {bits} bits are not translated", "Use 2, 3, 4 or 8 bits")
    block = n.attr("block_size")
    if block < 0 or block and depth % block:
        raise n.shape_error(f"a depth of {depth} does not divide into blocks of {block}")
    names = [f"{layer}_{what}" for what in ("experts_weights", "scales", "zero_points")]
    n.need_shape(names[0], (experts, columns, -(-depth * bits // 8)))
    if not n.has(names[1]):
        raise n.shape_error(f"'{names[1]}' is missing")
    blocks = depth // block if block else 1
    n.need_shape(names[1], (experts, columns, blocks) if block else (experts, columns))
    numbers = bit_fields(n.known(names[0], "they are taken apart"), bits)[..., :depth]
    scales = n.known(names[1], "weights are constants").reshape(experts, columns, blocks)
    zeros = np.full(scales.shape, 1 << bits - 1, np.uint8)
    if n.has(names[2]):
        run = blocks if block else columns  # of zero points that lie in whole bytes
        n.need_shape(names[2], (experts, *[columns] * bool(block), -(-run * bits // 8)))
        zeros = bit_fields(n.known(names[2], "they are taken apart"), bits)[..., :run]
    how = {"axis": 0, "block_size": block} if block else {"axis": 1}
    for expert in range(experts):
        given = [part[expert].reshape(columns, -1).T for part in (numbers, scales, zeros)]
        if not block:
            given[1:] = [part.reshape(-1) for part in given[1:]]
        q, scale, zero = (
            n.constant(np.ascontiguousarray(part), kind)
            for part, kind in zip(given, (_KIND[bits], n.dtype(names[1]), _KIND[bits]), strict=True)
        )
        to = dtypes.to_onnx(n.dtype("input"))
        yield n.op("DequantizeLinear", q, scale, zero, output_dtype=to, **how)
