"""Operators of onnxruntime's domain that networks of several streams, experts and states have, and
older ones: as onnxruntime computes them.
"""

import numpy as np
import pytest
from oracles.contrib_node import by_onnxruntime, check_node, node_model

from rcompiler.errors import CompilerError
from rcompiler.frontend import import_onnx

pytest.importorskip("onnxruntime")
rng = np.random.default_rng(0)
F = "float32"


def f(*shape: int, dtype: str = "float32") -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def ids(high: int, *shape: int, dtype: str = "int64") -> np.ndarray:
    return rng.integers(0, high, shape).astype(dtype)


def table(rows: int, columns: int = 8) -> np.ndarray:
    return rng.integers(0, 256, (rows, columns)).astype(np.uint8)


X, S = f(2, 3, 8), f(2, 3, 4, 8)
ROPE = [f(2, 5, 8), ids(6, 2, 5), f(6, 2), f(6, 2)]

# operator, inputs, attributes, types of results, in the domain of the standard
CASES = [
    ("ScaledSiLU", [X], {"alpha": 0.5}, [F]),
    ("ScaledSiLU", [X, np.float32(1.5)], {}, [F]),
    ("GatedAdd", [X, X, f(2, 3, 1)], {}, [F]),
    ("GatedRMSNorm", [X, f(8), X], {}, [F]),
    ("GatedRMSNorm", [X, f(4), f(2, 3, 8)], {"activation": "sigmoid", "epsilon": 0.1}, [F]),
    ("BranchwiseRMSNorm", [S], {}, [F]),
    ("BranchwiseRMSNorm", [S, f(4, 8)], {"epsilon": 0.1}, [F]),
    ("BranchwiseRMSNorm", [X, f(4)], {"num_branches": 2}, [F]),
    ("BranchwiseRMSNorm", [X, f(8)], {"num_branches": 2}, [F]),
    ("HyperConnectionPreMix", [S, f(2, 3, 4)], {"reduction_scale": 0.5}, [F]),
    ("HyperConnectionPreMix", [S, f(2, 3, 4, 8)], {}, [F]),
    ("HyperConnectionPreMix", [X, f(2, 3, 2, 1)], {"num_branches": 2}, [F]),
    ("HyperConnectionPostMix", [S, X, f(2, 3, 4)], {}, [F]),
    ("HyperConnectionPostMix", [S, X, f(2, 3, 4, 8), f(2, 3, 4, 4)], {}, [F]),
    ("HyperConnectionPostMix", [X, f(2, 3, 4), f(2, 3, 2, 1)], {"num_branches": 2}, [F]),
    ("EngramGate", [S, f(2, 3, 4, 8), X, f(4, 8), f(4, 8)], {}, [F]),
    ("EngramGate", [S, f(2, 3, 4, 8), X, f(4, 8), f(4, 8), f(4, 8)], {}, [F, F]),
    ("LinearAttentionGate", [X, f(8), f(8)], {}, [F]),
    ("LinearAttentionGate", [X, f(8), f(8), f(2, 3, 8)], {}, [F, F]),
    ("CausalConvWithState", [X, f(3, 1, 4)], {}, [F, F]),
    ("CausalConvWithState", [X, f(3, 1, 4), f(3), f(2, 3, 3)], {"activation": "silu"}, [F, F]),
    ("CausalConvWithState", [X, f(3, 1, 3), None, f(2, 3, 4)], {"dilation": 2}, [F, F]),
    ("CausalConvWithState", [X, f(8, 1, 3), f(8), f(2, 2, 8)], {"channels_last": 1}, [F, F]),
    ("CausalConvWithState", [S, f(32, 1, 2)], {"channels_last": 1}, [F, F]),
    ("MatMulInteger16", [ids(99, 3, 4).astype("i2"), ids(99, 4, 5).astype("i2")], {}, ["int32"]),
    ("UnfoldTensor", [X], {"size": 3}, [F]),
    ("UnfoldTensor", [X], {"size": 2, "dim": 1, "step": 1}, [F]),
    ("UnfoldTensor", [S], {"size": 2, "dim": 0}, [F]),
    ("UnfoldTensor", [X], {"size": 3, "dim": 2, "step": 2}, [F]),
    ("SampleOp", [X], {}, [F]),
    ("NGramRepeatBlock", [ids(3, 2, 9), f(2, 3)], {"ngram_size": 3}, [F]),
    ("NGramRepeatBlock", [ids(5, 2, 9), f(2, 6)], {"ngram_size": 2}, [F]),
    ("NGramRepeatBlock", [ids(5, 2, 3), f(2, 6)], {"ngram_size": 1}, [F]),
    ("NGramRepeatBlock", [ids(5, 2, 3), f(2, 6)], {"ngram_size": 4}, [F]),
    ("QLinearConv", [table(2 * 5 * 7, 4).reshape(2, 4, 5, 7), np.float32(0.1), np.uint8(3),
                     table(6 * 4 * 3, 3).reshape(6, 4, 3, 3), np.float32(0.2), np.uint8(9),
                     np.float32(20), np.uint8(99)], {"pads": [1, 0, 1, 0]}, ["uint8"]),
    ("QLinearConv", [table(2 * 5 * 7, 4).reshape(2, 5, 7, 4), np.float32(0.1), np.uint8(3),
                     table(6 * 4 * 3, 3).reshape(6, 4, 3, 3), np.float32(0.2), np.uint8(9),
                     np.float32(20), np.uint8(99)], {"channels_last": 1}, ["uint8"]),
    *(
        ("QLinearConv", [table(2 * 5 * 7, 4).reshape(2, 4, 5, 7), np.float32(0.1), np.uint8(3),
                         table(6 * 9, 4 // how.get("group", 1)).reshape(6, -1, 3, 3),
                         np.float32(0.2), np.uint8(9), np.float32(20), np.uint8(99),
                         ids(900, 6, dtype="int32")], how, ["uint8"])
        for how in ({"pads": [1, 0, 1, 0]}, {"auto_pad": "SAME_UPPER"},
                    {"group": 2, "strides": [2, 1], "dilations": [1, 2], "kernel_shape": [3, 3]})
    ),
    ("RotaryEmbedding", ROPE, {"is_packed_batching": 1}, [F]),
    ("Inverse", [f(4, 4)], {}, [F]),
    ("Inverse", [f(2, 3, 5, 5, dtype="float64")], {}, ["float64"]),
    ("Inverse", [np.float32([[0, 2], [1, 0]])], {}, [F]),
]  # fmt: skip
OLDER = [
    ("Affine", [X], {"alpha": 2.0, "beta": 0.5}),
    ("Affine", [X], {}),
    ("Scale", [X], {"scale": 3.0}),
    ("ParametricSoftplus", [X], {"alpha": 2.0, "beta": 0.5}),
    ("ScaledTanh", [X], {"alpha": 2.0, "beta": 0.5}),
    ("ImageScaler", [S], {"scale": 2.0, "bias": [1.0, 2.0, 3.0]}),
    ("Crop", [S], {"border": [1, 1, 2, 1]}),
    ("Crop", [S], {"border": [1, 1, 2, 1], "scale": [2, 3]}),
    ("DynamicSlice", [X, ids(1, 2) + 1, ids(1, 2) + 9, np.array([1, 2])], {}),
]


@pytest.mark.parametrize(("op", "inputs", "attributes", "types"), CASES)
def test_as_onnxruntime(op: str, inputs: list, attributes: dict, types: list[str]):
    apart = 1 if "QLinear" in op else 0
    fed = 1 if op == "QLinearConv" else 99
    check_node(op, inputs, types, fed, apart=apart, **attributes)


@pytest.mark.parametrize(
    "how",
    [
        {"group": 2},
        {"group": 2, "dilations": [2, 2], "strides": [2, 2], "output_padding": [1, 1]},
        {"kernel_shape": [3, 3]},
    ],
)
def test_transposed_convolution_of_pads_that_are_an_input(how: dict):
    inputs = [f(1, 4, 3, 3), f(4, 2, 3, 3), np.array([1, 1, 1, 1])]
    check_node("ConvTransposeWithDynamicPads", inputs, fed=2, **how)


@pytest.mark.parametrize(("op", "inputs", "attributes"), OLDER)
def test_operators_of_the_standard_before_opset_10(op: str, inputs: list, attributes: dict):
    check_node(op, inputs, [F], fed=1, domain="", standard=9, **attributes)


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("form", ["rows", "heads", "a part"])
def test_three_positions_of_a_token(layout: int, interleaved: int, form: str):
    x = f(2, 3, 5, 12) if form == "heads" else f(2, 5, 36)
    half = 6 if form != "a part" else 4
    inputs = [x, ids(7, 3, 2, 5), f(7, half), f(7, half)]
    how = {"mrope_section": [2, 2, half - 4], "mrope_layout": layout, "interleaved": interleaved}
    how |= {"num_heads": 3} if form == "rows" else {}
    how |= {"num_heads": 3, "rotary_embedding_dim": 8} if form == "a part" else {}
    check_node("MRotaryEmbedding", inputs, **how)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("queries, heads", [(2, 2), (4, 2), (2, 4)])
@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("steps", [1, 3, 70])
def test_linear_attention(rule: str, queries: int, heads: int, by_column: bool, steps: int):
    size, width = 4, 3
    inputs = [
        f(2, steps, queries * size),
        f(2, steps, heads * size) * 0.3,
        f(2, steps, heads * width),
    ]
    inputs.append(f(2, heads, size, width) if steps == 1 else None)
    decay = -np.abs(f(2, steps, heads * size if by_column else heads))
    beta = np.abs(f(2, steps, 1 if by_column else heads))
    inputs += [decay if "gated" in rule else None, beta if "delta" in rule else None]
    how = {"q_num_heads": queries, "kv_num_heads": heads, "update_rule": rule}
    check_node("LinearAttention", inputs, [F, F], **how)


@pytest.mark.parametrize("normalised", [0, 1])
@pytest.mark.parametrize("kind", ["relu", "gelu", "silu", "identity"])
def test_experts(kind: str, normalised: int):
    inputs = [f(6, 8), f(6, 3), f(3, 5, 8), f(3, 5), f(3, 8, 5), f(3, 8)]
    check_node("MoE", inputs, k=2, activation_type=kind, normalize_routing_weights=normalised)


@pytest.mark.parametrize(
    "how", [{}, {"swiglu_limit": 0.5, "activation_alpha": 1.5, "activation_beta": 1.0}]
)
def test_experts_with_a_gate(how: dict):
    inputs = [f(2, 3, 8), f(6, 3), f(3, 10, 8), f(3, 10), f(3, 8, 5)]
    check_node("MoE", inputs, k=1, activation_type="swiglu", swiglu_fusion=1, **how)


def test_experts_with_gates_behind_each_other_and_apart():
    """By definition: onnxruntime's CPU provider has the interleaved form alone."""
    x, w, v, last = f(4, 8), f(1, 5, 8), f(1, 5, 8), f(1, 8, 5)
    biases = [f(*each.shape[:2]) for each in (w, last, v)]

    def wanted(first: np.ndarray, second: np.ndarray, third: np.ndarray) -> list[np.ndarray]:
        gate, linear = x @ w[0].T + first, x @ v[0].T + third
        whole = gate / (1 + np.exp(-gate)) * linear @ last[0].T + second
        return [whole.astype(np.float32)]

    both, how = np.concatenate([w, v], 1), {"activation_type": "swiglu"}
    plain = wanted(*np.zeros(3, np.float32))
    inputs = [x, f(4, 1), both, None, last]
    check_node("MoE", inputs, wanted=plain, swiglu_fusion=2, **how)
    check_node("MoE", [x, f(4, 1), w, None, last, None, v], wanted=plain, **how)
    inputs = [x, f(4, 1)]
    for weights, bias in zip((w, last, v), biases, strict=True):
        inputs += [weights, bias]
    check_node("MoE", inputs, wanted=wanted(*biases), **how)


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("past", [False, True])
def test_hashes(dtype: str, past: bool):
    heads, most = 2, 3
    inputs = [ids(99, 2, 5, dtype=dtype), ids(1 << 20, 3, dtype=dtype), ids(50, 4, dtype=dtype) + 3]
    inputs += [ids(99, 2, 2, dtype=dtype), ids(9, 4, dtype=dtype)] if past else []
    how = {"max_ngram_size": most, "n_head_per_ngram": heads, "pad_id": 7}
    check_node("NGramHashMapping", inputs, [dtype] * 2, **how)


@pytest.mark.parametrize("kind", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize(("positive", "dtype"), [(1, "uint32"), (0, "int32")])
def test_hashes_of_bytes(kind: str, positive: int, dtype: str):
    bounds = np.iinfo(kind)
    numbers = rng.integers(bounds.min, bounds.max, (3, 5), kind, endpoint=True)
    check_node("MurmurHash3", [numbers], [dtype], positive=positive, seed=5 + positive)


@pytest.mark.parametrize("kind", [0, 1])
def test_four_bits_of_a_table(kind: int):
    packed, largest = rng.integers(0, 256, 6 * 32 // 2).astype(np.uint8), np.abs(f(6 * 32 // 16))
    how = {"K": 32, "N": 6, "block_size": 16, "quant_type": kind}
    inputs = [np.eye(32, dtype=np.float32), packed, largest]
    check_node("MatMulBnb4", inputs, fed=1, **how)
    # the other way round onnxruntime's CPU provider reads beyond its input
    [weights] = by_onnxruntime(*node_model("MatMulBnb4", inputs, [F], 1, **how))
    x = f(3, 6)
    check_node("MatMulBnb4", [x, packed, largest], fed=1, wanted=[x @ weights.T], transB=0, **how)


def test_weights_of_blocks_in_an_order_of_their_own():
    """Each row has the scale and the zero point of the block that g_idx names."""
    packed, scales = rng.integers(0, 256, (6, 2, 8)).astype(np.uint8), np.abs(f(6, 2))
    order, x = ids(2, 32, dtype="int32"), f(3, 32)
    how = {"K": 32, "N": 6, "block_size": 16, "bits": 4}
    numbers = np.stack([packed & 15, packed >> 4], -1).reshape(6, 32).astype(np.float32)
    wanted = [x @ ((numbers - 8) * scales[:, order]).T]
    check_node("MatMulNBits", [x, packed, scales, None, order], fed=1, wanted=wanted, **how)
    check_node("MatMulNBits", [x, packed, scales, None, order], fed=1, **how)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(3, 4), (1, 2)])
def test_boxes_of_images_in_one_size(mode: str, size: tuple[int, int]):
    boxes = np.float32([[0.1, 0.2, 0.7, 0.9], [-0.3, 0.1, 1.2, 0.6], [0.8, 0.7, 0.2, 0.1]])
    inputs = [f(2, 3, 6, 5), boxes, np.int32([1, 0, 1]), np.int32(size)]
    check_node("CropAndResize", inputs, fed=3, mode=mode, extrapolation_value=0.5)


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("segments", [False, True])
def test_embeddings_of_bytes(kind: str, segments: bool):
    tables = [table(rows).astype(kind) for rows in (6, 5, 2)]
    tables += [table(1).reshape(8).astype(kind) for _ in "gb"]
    scales = [np.float32(x) for x in (0.02, 0.03, 0.04, 0.05, 0.06)]
    zeros = [np.array(x, kind) for x in (3, 5, 7, 9, 11)]
    words, parts = ids(6, 2, 3, dtype="int32"), ids(2, 2, 3, dtype="int32")
    if not segments:
        parts = tables[2] = scales[2] = zeros[2] = None
    mask = np.int32([[1, 1, 0], [1, 0, 0]])
    inputs = [words, parts, *tables, mask, *scales, *zeros]
    check_node("QEmbedLayerNormalization", inputs, [F, "int32"])


REFUSED = [
    ("GatedAdd", [X, X, f(2, 3, 8), f(8, 1)], {}, "it has 4 inputs; 3 are translated"),
    ("GatedRelativePositionBias", [f(2, 4, 12), f(12), f(1, 3, 4, 4), f(4, 8), f(8), f(1, 3, 1, 1),
     np.zeros((1, 2), np.int32)], {"num_heads": 3}, "tokens without padding are not translated"),
    ("NGramHashMapping", [ids(9, 2, 5), ids(99, 3), ids(50, 4) + 3, None, None, np.array(5),
     ids(2, 2, 5, dtype="int32")], {"max_ngram_size": 3, "n_head_per_ngram": 2},
     "it has 7 inputs; 6 are translated"),
    ("NGramHashMapping", [ids(9, 2, 5), ids(99, 3), ids(50, 4) + 3, None, None, np.array(5)],
     {"max_ngram_size": 3, "n_head_per_ngram": 2, "pad_id": 7, "reset_on_eos": 1},
     "reset_on_eos is not"),
    ("MatMulNBits", [X, table(2, 16), f(2, 1)], {"K": 8, "N": 2, "block_size": 32, "foo": 1},
     "attribute 'foo' is not translated"),
    ("MatMulNBits", [X, table(2, 16), f(2, 1)],
     {"K": 8, "N": 2, "block_size": 32, "weight_prepacked": 1}, "packed for one device"),
    ("QLinearAdd", [table(2), np.float32(1), np.uint8(0)] * 2 + [np.float32(1), np.uint8(0)],
     {"foo": 1}, "attribute 'foo' is not translated"),
    ("QGemm", [table(2), np.float32(1), np.uint8(0), table(8), np.float32(1), np.uint8(0), None,
               np.float32(1)], {}, "one of 'y_scale' and 'y_zero_point'"),
    ("CausalConvWithState", [X, f(3, 1, 4)], {"ndim": 2}, "ndim other than 1"),
    ("MoE", [f(6, 8), f(6, 3), f(3, 5, 8), None, f(3, 8, 5)], {"use_sparse_mixer": 1},
     "use_sparse_mixer"),
    ("MurmurHash3", [table(2)], {}, "a hash of uint8"),
    ("Inverse", [f(2, 3)], {}, "square matrix"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "inputs", "attributes", "message"), REFUSED)
def test_what_is_not_translated_is_named(op: str, inputs: list, attributes: dict, message: str):
    model, _ = node_model(op, inputs, [F], 1, **attributes)
    with pytest.raises(CompilerError, match=message):
        import_onnx(model)


def test_sums_of_signed_bytes_without_a_zero_point_are_signed():
    x, y, step = np.int8([-9, 4]), np.int8([3, 100]), np.float32(0.5)
    inputs = [x, step, None, y, step, None, step]
    check_node("QLinearAdd", inputs, ["int8"], wanted=[np.int8([-6, 104])])
    check_node("QLinearSigmoid", [x, step, None, np.float32(0.1)], ["int8"],
               wanted=[np.int8([0, 9])])  # fmt: skip


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_where_of_bytes(kind: str):
    x, y = (table(3).astype(kind) for _ in "xy")
    zeros = [np.array(v, kind) for v in (3, 5, 7)]
    condition = rng.integers(0, 2, (3, 8)).astype(bool)
    inputs = [condition, x, np.float32(0.1), zeros[0], y, np.float32(0.2), zeros[1],
              np.float32(0.3), zeros[2]]  # fmt: skip
    check_node("QLinearWhere", inputs, [kind], apart=1)
