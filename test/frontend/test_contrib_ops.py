"""Operators of onnxruntime's domain, each attribute and optional input of them: as onnxruntime
computes them, or by their definition where its CPU provider does not."""

import math

import numpy as np
import onnx
import pytest
from onnx import helper
from oracles.contrib_node import by_onnxruntime, check_node, node_model

import rcompiler
from rcompiler.errors import CompilerError, InvalidModel, ShapeError, UnsupportedOp
from rcompiler.frontend import contrib, import_onnx, registry, untranslated

onnxruntime = pytest.importorskip("onnxruntime")
rng = np.random.default_rng(0)


def f(*shape: int, dtype: str = "float32") -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def i32(*numbers: object) -> np.ndarray:
    return np.array(numbers, np.int32)


X, G, B = f(2, 3, 8), f(8), f(8)
KERNEL = f(8, 2, 3, 3)
CONV = [f(1, 4, 6, 6), KERNEL, B, f(1, 8, 6, 6)]
PADDED = {"group": 2, "pads": [1, 1, 1, 1]}
IDS, SEGMENTS = i32([1, 5, 0], [2, 2, 3]), i32([0, 1, 1], [1, 0, 0])
TABLES = [f(6, 8), f(5, 8), f(2, 8)]
EMBEDDED = [IDS, SEGMENTS, *TABLES, G, B]
BYTES = rng.integers(0, 256, (5, 32)).astype(np.uint8)
SCALES = np.abs(f(5, 2)) + 0.1

# operator, inputs, attributes
CASES = [
    ("Gelu", [X], {}),
    ("QuickGelu", [X], {}),
    ("QuickGelu", [X], {"alpha": 0.5}),
    ("FastGelu", [X], {}),
    ("FastGelu", [X, B], {}),
    ("BiasGelu", [X, B], {}),
    ("FusedMatMul", [f(2, 4, 3, 5), f(2, 4, 5, 6)], {"alpha": 0.5}),
    ("FusedMatMul", [f(2, 5, 3), f(2, 6, 5)], {"transA": 1, "transB": 1}),
    ("FusedMatMul", [f(3, 2, 4, 5), f(2, 4, 5, 6)], {"transBatchA": 1}),
    (
        "FusedMatMul",
        [f(5, 2, 4, 3), f(5, 2, 4, 6)],
        {"transBatchA": 1, "transA": 1, "transBatchB": 1},
    ),
    ("FusedMatMul", [f(5), f(5, 4)], {"alpha": 0.3}),
    ("TransposeMatMul", [f(5, 3), f(5, 6)], {"transA": 1, "alpha": 2.0}),
    ("FusedGemm", [f(3, 5), f(5, 4), f(4)], {"activation": "Relu", "alpha": 0.5, "beta": 0.25}),
    ("FusedGemm", [f(3, 5), f(5, 4)], {"activation": "LeakyRelu", "activation_alpha": 0.2}),
    ("FusedGemm", [f(5, 3), f(4, 5)], {"activation": "Tanh", "transA": 1, "transB": 1}),
    ("FusedGemm", [f(3, 5), f(5, 4)], {"activation": "Elu", "activation_alpha": 0.7}),
    (
        "FusedGemm",
        [f(3, 5), f(5, 4)],
        {"activation": "HardSigmoid", "activation_alpha": 0.3, "activation_beta": 0.4},
    ),
    ("FusedConv", CONV, {"activation": "Relu", **PADDED}),
    ("FusedConv", CONV[:2], {"activation": "Tanh", "strides": [2, 2], **PADDED}),
    (
        "FusedConv",
        CONV[:3],
        {"activation": "LeakyRelu", "activation_params": [0.2], "group": 2, "auto_pad": "VALID"},
    ),
    (
        "FusedConv",
        CONV[:3],
        {"activation": "Clip", "activation_params": [-0.5, 0.5], "dilations": [2, 2], **PADDED},
    ),
    (
        "FusedConv",
        CONV[:3],
        {"activation": "HardSigmoid", "activation_params": [0.2, 0.4], **PADDED},
    ),
    ("SkipLayerNormalization", [X, X[:1], G, B, f(8)], {}),
    ("SkipLayerNormalization", [X, X[0], G], {"epsilon": 0.1}),
    ("SkipLayerNormalization", [X[0], X[1], G, B], {}),
    ("SkipSimplifiedLayerNormalization", [X, X[::-1].copy(), G, B], {"epsilon": 0.1}),
    ("SimplifiedLayerNormalization", [X, G], {"domain": "", "epsilon": 0.1}),
    ("SimplifiedLayerNormalization", [X, f(3, 8)], {"domain": "", "axis": -2}),
    ("EmbedLayerNormalization", EMBEDDED[:7], {"epsilon": 0.1}),
    ("EmbedLayerNormalization", [IDS, None, *TABLES[:2], None, G, B], {}),
    ("EmbedLayerNormalization", [*EMBEDDED, None, i32([4, 0, 1])], {}),
    ("CDist", [f(4, 6), f(5, 6)], {"metric": "euclidean"}),
    ("CDist", [f(4, 6), f(5, 6)], {"metric": "sqeuclidean"}),
    ("GridSample", [f(1, 2, 4, 4), f(1, 3, 3, 2)], {"mode": "bicubic", "align_corners": 1}),
    ("GridSample", [f(1, 2, 4, 4), f(1, 3, 3, 2)], {"padding_mode": "reflection"}),
    ("GatherND", [X, i32([0, 1], [1, 2])], {}),
    ("QuantizeLinear", [X, np.float32(0.1), np.uint16(100)], {"dtype": "uint16"}),
    ("QuantizeLinear", [X, np.float32(0.1)], {"dtype": "uint8"}),
    ("QuantizeLinear", [X, SCALES[:3, 0], i32(1, 2, 3).astype(np.int8)], {"dtype": "int8"}),
    ("DequantizeLinear", [BYTES[:, :8], SCALES[:, 0]], {"axis": 0}),
    ("DequantizeLinear", [BYTES.astype(np.uint16), np.float32(0.1), np.uint16(9)], {}),
]
# with constants behind the first input
FIXED = [
    ("ConvTransposeWithDynamicPads", [f(1, 4, 5, 5), KERNEL[:4], np.ones(4, np.int64)], {}),
    ("Trilu", [f(3, 4), np.int64(1)], {"upper": 0}),
    ("ExpandDims", [X, np.int32(1)], {}),
    ("Pad", [X, np.array([0, 1, 2, 0, 1, -1]), np.float32([3])], {}),
    ("Pad", [X, np.array([[0, 1, 2, 0, 1, 1]])], {"mode": "edge"}),
    (
        "GatherBlockQuantized",
        [i32([1, 4]), BYTES, SCALES],
        {"block_size": 16, "bits": 8, "order": [1, 0, 2]},
    ),
    (
        "GatherBlockQuantized",
        [i32(1, 4), BYTES[:, :16], SCALES, BYTES[:, :1]],
        {"block_size": 16, "order": [1, 0, 2, 3]},
    ),
    (
        "GatherBlockQuantized",
        [i32(1, 4), BYTES[:, :16], SCALES],
        {"block_size": 16, "order": [1, 0, 2]},
    ),
]


@pytest.mark.parametrize(("op", "inputs", "attributes"), CASES)
def test_as_onnxruntime(op: str, inputs: list, attributes: dict):
    attributes = dict(attributes)
    dtype = attributes.pop("dtype", inputs[0].dtype.name)
    outputs = {"EmbedLayerNormalization": ["float32", "int32"], "DequantizeLinear": ["float32"]}
    check_node(op, inputs, outputs.get(op, [dtype]), **attributes)


@pytest.mark.parametrize(("op", "inputs", "attributes"), FIXED)
def test_with_constants(op: str, inputs: list, attributes: dict):
    """order: of the inputs, where the one that is fed is not the first."""
    attributes = dict(attributes)
    order = attributes.pop("order", range(len(inputs)))
    given = [inputs[k] for k in order]
    check_node(op, given, fed=[k for k in range(len(given)) if order[k] == 0], **attributes)


def test_further_results():
    sums = ["float32", "", "", "float32"]
    check_node("SkipLayerNormalization", [X, X, G, B, f(8)], sums)
    check_node("SkipSimplifiedLayerNormalization", [X, X, G, B], sums)
    mask = i32([1, 1, 0], [1, 0, 0])
    results = ["float32", "int32", "float32"]
    check_node("EmbedLayerNormalization", [*EMBEDDED, mask], results, mask_index_type=1)
    root = 1 / np.sqrt((X * X).mean(-1, keepdims=True) + 0.1)
    wanted = [X * root * G, root]
    both = ["float32"] * 2
    check_node("SimplifiedLayerNormalization", [X, G], both, wanted=wanted, domain="", epsilon=0.1)
    values = np.float32([2, 1, 1, 3, 2])
    check_node("Unique", [values], ["float32", "int64", "int64"], fed=0)
    check_node("Range", [np.float32(1), np.float32(5)], fed=0)
    check_node("Range", [*i32(1, 9, 2)], ["int32"], fed=0)
    pooled = {"kernel_shape": [2, 2], "strides": [2, 2]}
    check_node("NhwcMaxPool", [BYTES.reshape(1, 5, 8, 4)], ["uint8"], **pooled)


def gelu(x: np.ndarray) -> np.ndarray:
    return (x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))).astype(np.float32)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def grouped(x: np.ndarray, groups: int) -> np.ndarray:
    """Channels that come last, normalised in groups."""
    apart = x.reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
    mean, deviation = (getattr(apart, name)(axis=(1, 3), keepdims=True) for name in ("mean", "var"))
    return ((apart - mean) / np.sqrt(deviation + 1e-5)).reshape(x.shape)


def test_operators_that_only_gpus_have():
    """By their definitions."""
    whole = X + G
    check_node("BiasSplitGelu", [X, G], wanted=[whole[..., :4] * gelu(whole[..., 4:])])
    check_node("BiasAdd", [X, G, X], wanted=[X + G + X])
    mask = np.ones(X.shape, bool)
    check_node("BiasDropout", [X, G, X], ["float32", "bool"], wanted=[X + G + X, mask])
    ratio = [X, G, X, np.float32(0.5)]
    check_node("BiasDropout", ratio, ["float32", "bool"], wanted=[X + G + X, mask])
    bias = f(2, 1, 8)
    how = {"axis": 2, "is_inner_broadcast": 0}
    check_node("BiasSoftmax", [X, bias], wanted=[softmax(X + bias)], **how)
    flat = softmax((X + bias).reshape(2, -1)).reshape(X.shape)
    check_node("BiasSoftmax", [X, bias], wanted=[flat], **(how | {"axis": 1}))
    gate, up = np.minimum(X[..., :4], 0.5), np.clip(X[..., 4:], -0.5, 0.5) + 1
    limits = {"limit": 0.5, "activation_beta": 1.0}
    check_node("SwiGLU", [X], wanted=[silu(gate) * up], **limits)
    a, w = f(3, 5), f(5, 4)
    how = {"activation": "LeakyRelu", "activation_alpha": 0.1, "alpha": 0.5}
    product = (a @ w) * 0.5
    wanted = [np.where(product > 0, product, product * 0.1)]
    check_node("FusedMatMulActivation", [a, w], wanted=wanted, **how)
    given = [TABLES[0], np.array([[1, 2]]), np.array(1), np.bool_(True)]
    for count in (2, 4):  # what is said of gradients changes nothing
        check_node("TorchEmbedding", given[:count], wanted=[TABLES[0][[[1, 2]]]])
    parts = np.fft.rfft(X)
    check_node("Rfft", [X], wanted=[np.stack([parts.real, parts.imag], -1).astype(np.float32)])
    wanted = [(BYTES.astype(np.int32) - 3) * (BYTES.astype(np.int32) - 9)]
    check_node("MulInteger", [BYTES, np.uint8(3), BYTES, np.uint8(9)], ["int32"], wanted=wanted)
    wanted = [BYTES.sum(1, keepdims=True).astype(np.int32)]
    check_node("ReduceSumInteger", [BYTES], ["int32"], wanted=wanted, axes=[1], keepdims=1)


def test_channels_that_come_last():
    x = f(2, 4, 4, 8)
    how = {"groups": 2, "activation": 1}
    wanted = silu(grouped(x, 2) * G + B).astype(np.float32)
    check_node("GroupNorm", [x, G, B], wanted=[wanted], **how)
    total = x + X[:, :1, None] + B
    normal = (grouped(total, 2) * G + B).astype(np.float32)
    check_node(
        "SkipGroupNorm", [x, G, B, X[:, 0], B], ["float32"] * 2, wanted=[normal, total],
        groups=2, activation=0,
    )  # fmt: skip
    x, z = (_channels_last(CONV[i]) for i in (0, 3))
    fused = {**PADDED, "activation": "Relu"}
    check_node(
        "NhwcFusedConv", [x, KERNEL, B, z], wanted=[_last_of("FusedConv", CONV, fused)], **fused
    )
    check_node(
        "NhwcConv", [x, KERNEL, B], wanted=[_last_of("FusedConv", CONV[:3], PADDED)], **PADDED
    )


def _channels_last(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1))


def _last_of(op: str, inputs: list, attributes: dict) -> np.ndarray:
    """What onnxruntime computes of channels that come second."""
    [result] = by_onnxruntime(*node_model(op, inputs, ["float32"], 99, **attributes))
    return _channels_last(result)


REFUSED = [
    ("Gelu", [i32(1, 2)], {}, "'X' is int32; a float is expected"),
    ("BiasGelu", [X, B.astype(np.float64)], {}, "'B' is float64; float32 is expected"),
    ("BiasGelu", [X], {}, r"input 1 \('B'\) is missing"),
    ("BiasGelu", [X, f(7)], {}, r"'B' has shape \[7\]; \[8\] is expected"),
    ("BiasGelu", [X, B, B], {}, "3 inputs; 2 are translated"),
    ("QuickGelu", [X], {"beta": 1.0}, "attribute 'beta' is not translated"),
    ("QuickGelu", [X], {"alpha": 1}, "attribute 'alpha' is 1; float is expected"),
    ("BiasSoftmax", [X, X], {}, "attribute 'is_inner_broadcast' is missing"),
    ("BiasDropout", [X, B, None, None, np.True_], {}, "training_mode"),
    ("FusedGemm", [f(2, 2), f(2, 2)], {"activation": "Nope"}, "activation 'Nope'"),
    ("CDist", [f(2, 2), f(2, 2)], {"metric": "cosine"}, "metric 'cosine'"),
    ("ExpandDims", [X, np.int32(1)], {}, "'axis' must be known while compiling"),
    ("GroupNorm", [f(1, 4, 4, 8), G, B], {"groups": 3, "activation": 0}, "3 groups"),
    ("SkipLayerNormalization", [X, f(2, 8), G], {}, "'skip' of shape"),
    ("EmbedLayerNormalization", [IDS, None, *TABLES, G, B], {}, "segments"),
    ("GatherBlockQuantized", [BYTES, i32(1), SCALES], {"gather_axis": 1}, "this axis"),
    ("Rfft", [X], {"normalized": 1}, "normalized=0"),
]


@pytest.mark.parametrize(("op", "inputs", "attributes", "message"), REFUSED)
def test_refusals_name_the_node_and_the_reason(op, inputs, attributes, message):
    model, _ = node_model(op, inputs, ["float32"], 99, **attributes)
    with pytest.raises((UnsupportedOp, ShapeError), match=message) as caught:
        import_onnx(model)
    assert isinstance(caught.value, CompilerError) and caught.value.gap is not None
    assert caught.value.gap.op == f"com.microsoft.{op}"


def test_each_operator_of_onnxruntimes_cpu_provider_is_translated_or_refused_with_a_reason():
    """Also those that its domain has for a trial only: none is left out by chance."""
    kernels = onnxruntime.capi.onnxruntime_pybind11_state.get_all_opkernel_def()
    there = {
        kernel.op_name
        for kernel in kernels
        if kernel.domain == contrib.DOMAIN and kernel.provider == "CPUExecutionProvider"
    }
    lowered = {op for op, domain in registry.names() if domain == contrib.DOMAIN}
    known = {*contrib.OPERATORS, contrib.LSTM} | lowered
    assert len(there) > 80
    assert there - known == there & untranslated.ONNXRUNTIME.keys()
    assert not known & untranslated.ONNXRUNTIME.keys()


def test_an_operator_that_is_not_translated_says_what_to_do():
    model, _ = node_model("Tokenizer", [X], ["float32"], 1)
    with pytest.raises(UnsupportedOp, match="It makes tokens of text: do that outside"):
        import_onnx(model)
    model, _ = node_model("Conv", [X], ["float32"], 1, domain="com.microsoft.nchwc")
    model.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    with pytest.raises(UnsupportedOp, match="saved this model for one machine.*ENABLE_EXTENDED"):
        import_onnx(model)


def test_a_model_that_onnxruntime_saved_for_one_machine_says_what_to_do(tmp_path):
    """And that works: the same model, saved with less of its optimisations."""
    model, fed = node_model("Conv", [f(1, 16, 8, 8), f(32, 16, 3, 3)], ["float32"], 1, domain="")
    levels = onnxruntime.GraphOptimizationLevel
    for level in (levels.ORT_ENABLE_ALL, levels.ORT_ENABLE_EXTENDED):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = level
        options.optimized_model_filepath = str(tmp_path / f"{level.name}.onnx")
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    saved = onnx.load(tmp_path / "ORT_ENABLE_ALL.onnx")
    if any(node.domain == "com.microsoft.nchwc" for node in saved.graph.node):
        with pytest.raises(UnsupportedOp, match="saved this model for one machine.*EXTENDED"):
            import_onnx(saved)
    (found,) = rcompiler.compile_onnx(tmp_path / "ORT_ENABLE_EXTENDED.onnx", eus=1)(**fed)
    np.testing.assert_allclose(found, by_onnxruntime(model, fed)[0], 1e-4, 1e-4)


def test_a_file_in_onnxruntimes_own_format_says_what_to_do(tmp_path):
    """And that works."""
    model, fed = node_model("Gelu", [X], ["float32"], 1)
    own, back = tmp_path / "model.ort", tmp_path / "model.onnx"
    for given, file, kind in ((model.SerializeToString(), own, "ORT"), (str(own), back, "ONNX")):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(file)
        options.add_session_config_entry("session.save_model_format", kind)
        onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    with pytest.raises(InvalidModel, match=r"own format \(.ort\).*optimized_model_filepath"):
        import_onnx(own)
    import_onnx(back)


def test_each_operator_says_what_it_translates():
    assert all(operator.summary.endswith(".") for operator in contrib.OPERATORS.values())
