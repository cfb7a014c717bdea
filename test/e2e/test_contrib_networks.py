"""Small networks as tools of onnxruntime write them: a layer of BERT, of GPT-2 and of a decoder
with grouped heads, in fused operators. Nothing of them is refused, they compute what onnxruntime
does, and products take in what stands around them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper
from oracles.contrib_node import by_onnxruntime

import rcompiler
from rcompiler.frontend import check, dtypes

pytest.importorskip("onnxruntime")
HEADS, SIZE, STEPS = 2, 16, 6
COLUMNS = HEADS * SIZE


class Network:
    """A graph while it is written; weights are random."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.feeds: dict[str, np.ndarray] = {}

    def weight(self, *shape: int, scale: float = 0.3) -> str:
        return self.fixed((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def fixed(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def fed(self, array: np.ndarray) -> str:
        name = f"x{len(self.feeds)}"
        self.feeds[name] = array
        return name

    def ops(
        self, op: str, *inputs: str, results: int = 1, domain: str = "com.microsoft", **rest: Any
    ):
        names = [f"{op}_{len(self.nodes)}_{i}" for i in range(results)]
        node = helper.make_node(op, inputs, names, f"{op}_{len(self.nodes)}", domain=domain, **rest)
        self.nodes.append(node)
        return names

    def op(self, op: str, *inputs: str, **rest: Any) -> str:
        return self.ops(op, *inputs, **rest)[0]

    def std(self, op: str, *inputs: str, **rest: Any) -> str:
        return self.op(op, *inputs, domain="", **rest)

    def model(self, *results: str) -> ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "network",
            [_info(n, x.dtype.name, x.shape) for n, x in self.feeds.items()],
            [_info(name, "float32", None) for name in results],
            self.weights,
        )
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _info(name: str, dtype: str, shape: Any) -> Any:
    return helper.make_tensor_value_info(name, dtypes.to_onnx(dtype), shape)


def bert() -> tuple[Network, list[str]]:
    """As the optimiser leaves an encoder: embeddings, masked attention, two sums with norms."""
    n, ints = Network(), np.random.default_rng(1).integers
    ids, segments = (n.fed(ints(0, k, (1, STEPS)).astype(np.int32)) for k in (9, 2))
    mask = n.fed(np.array([[1] * (STEPS - 2) + [0] * 2], np.int32))
    tables = [n.weight(k, COLUMNS) for k in (9, STEPS, 2)]
    norm = [n.weight(COLUMNS) for _ in range(2)]
    x = n.ops("EmbedLayerNormalization", ids, segments, *tables, *norm, results=2)[0]
    qkv = n.weight(COLUMNS, 3 * COLUMNS), n.weight(3 * COLUMNS)
    mixed = n.op("Attention", x, *qkv, mask, num_heads=HEADS)
    out = n.std("MatMul", mixed, n.weight(COLUMNS, COLUMNS))
    x = n.op("SkipLayerNormalization", out, x, *(n.weight(COLUMNS) for _ in range(3)))
    wide = n.std("MatMul", x, n.weight(COLUMNS, 4 * COLUMNS))
    active = n.op("BiasGelu", wide, n.weight(4 * COLUMNS))
    out = n.std("MatMul", active, n.weight(4 * COLUMNS, COLUMNS))
    return n, [n.op("SkipLayerNormalization", out, x, *(n.weight(COLUMNS) for _ in range(3)))]


def gpt2() -> tuple[Network, list[str]]:
    """A step after others, with the sums of one norm for the next."""
    n = Network()
    x = n.fed(n.rng.standard_normal((1, 1, COLUMNS)).astype(np.float32))
    past = n.fed(n.rng.standard_normal((2, 1, HEADS, STEPS, SIZE)).astype(np.float32))
    normal = n.std("LayerNormalization", x, n.weight(COLUMNS), n.weight(COLUMNS))
    qkv = n.weight(COLUMNS, 3 * COLUMNS), n.weight(3 * COLUMNS)
    mixed, present = n.ops(
        "Attention", normal, *qkv, "", past, results=2, num_heads=HEADS, unidirectional=1
    )
    out = n.std("MatMul", mixed, n.weight(COLUMNS, COLUMNS))
    norm = [n.weight(COLUMNS) for _ in range(3)]
    normal, _, _, total = n.ops("SkipLayerNormalization", x, out, *norm, results=4)
    active = n.op("FastGelu", n.std("MatMul", normal, n.weight(COLUMNS, 64)), n.weight(64))
    out = n.std("Add", total, n.std("MatMul", active, n.weight(64, COLUMNS)))
    return n, [n.op("FusedMatMul", out, n.weight(9, COLUMNS), transB=1, alpha=0.5), present]


def decoder() -> tuple[Network, list[str]]:
    """As the model builder writes it: 4 heads that share 2, keys in a buffer that is not full."""
    n, shared, room = Network(), 2, 9
    x = n.fed(n.rng.standard_normal((1, 1, 2 * COLUMNS)).astype(np.float32))
    buffers = [
        n.fed(n.rng.standard_normal((1, shared, room, SIZE)).astype(np.float32)) for _ in "kv"
    ]
    ends, total = n.fed(np.array([STEPS], np.int32)), n.fixed(np.int32(room))
    normal = n.std("SimplifiedLayerNormalization", x, n.weight(2 * COLUMNS), epsilon=1e-5, axis=-1)
    qkv = n.std("MatMul", normal, n.weight(2 * COLUMNS, 2 * COLUMNS + 2 * shared * SIZE))
    caches = n.weight(room, SIZE // 2), n.weight(room, SIZE // 2)
    mixed, *present = n.ops(
        "GroupQueryAttention", qkv, "", "", *buffers, ends, total, *caches, results=3,
        num_heads=4, kv_num_heads=shared, do_rotary=1,
    )  # fmt: skip
    out = n.std("MatMul", mixed, n.weight(2 * COLUMNS, 2 * COLUMNS))
    normal, _, _, total = n.ops(
        "SkipSimplifiedLayerNormalization", x, out, n.weight(2 * COLUMNS), results=4, epsilon=1e-5
    )
    gate, up = (n.std("MatMul", normal, n.weight(2 * COLUMNS, 48)) for _ in range(2))
    active = n.std("Mul", n.op("QuickGelu", gate, alpha=1.0), up)
    return n, [n.std("Add", total, n.std("MatMul", active, n.weight(48, 2 * COLUMNS))), *present]


@pytest.mark.parametrize("network", [bert, gpt2, decoder])
def test_networks_of_fused_operators(network):
    n, results = network()
    model = n.model(*results)
    assert check(model) == []
    wanted = by_onnxruntime(model, n.feeds)
    found = rcompiler.compile_onnx(model, eus=1)(**n.feeds)
    for got, want in zip(found, wanted, strict=True):
        if got.ndim == 4:  # of a buffer, what is filled
            got, want = got[:, :, : STEPS + 1], want[:, :, : STEPS + 1]
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())


def test_what_is_fused_stays_fused():
    """Of the encoder eight products, of which three take in biases and activations, two norms with
    their sums and a softmax; beside them what the mask says, once for all heads."""
    n, results = bert()
    model = rcompiler.compile_onnx(n.model(*results), eus=1, target="cpu:v4", device="epyc-9555")
    kinds = Counter(operator.kind for operator in model.report().operators)
    assert kinds == {"contraction": 8, "reduction": 4, "gather": 2, "elementwise": 1, "movement": 1}
