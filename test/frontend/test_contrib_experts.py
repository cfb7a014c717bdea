"""Mixtures of experts with weights of a few bits: as onnxruntime has them, and by definition."""

import numpy as np
import pytest
from oracles.contrib_node import check_node, node_model

import rcompiler
from rcompiler.errors import CompilerError
from rcompiler.frontend import import_onnx
from rcompiler.frontend.few_bits import bit_fields

pytest.importorskip("onnxruntime")
rng = np.random.default_rng(0)
EXPERTS, COLUMNS, INNER, TOKENS = 3, 32, 64, 5


def f(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def table(*shape: int) -> np.ndarray:
    return rng.integers(0, 256, shape).astype(np.uint8)


def layer(columns: int, depth: int, bits: int, block: int, zeros: bool) -> list:
    """Weights, scales, bias and zero points."""
    per_row = [depth // block] if block else []
    shape = (EXPERTS, columns, *per_row)
    run = shape[:-1] + (-(-shape[-1] * bits // 8),)
    weights = table(EXPERTS, columns, -(-depth * bits // 8))
    return [
        weights,
        np.abs(f(*shape)) * 0.1,
        f(EXPERTS, columns),
        table(*run) if zeros else None,
    ]


def node(bits: int, block: int, zeros: bool, *, fused: bool = False, shares: bool = False) -> list:
    first = layer(INNER * (2 if fused else 1), COLUMNS, bits, block, zeros)
    second = layer(COLUMNS, INNER, bits, block, zeros)
    inputs = [f(TOKENS, COLUMNS), f(TOKENS, EXPERTS), *first[:3], *second[:3], None, None, None]
    return [*inputs, first[3], second[3], None, np.abs(f(TOKENS, EXPERTS)) if shares else None]


def how(bits: int, block: int, **more: object) -> dict:
    sizes = {"block_size": block} if block else {}
    return {"k": 2, "expert_weight_bits": bits, "activation_type": "silu", **sizes, **more}


FED = [0, 1, 14]


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("bits", "block"), [(2, 0), (4, 0), (8, 0), (4, 32), (4, 16)])
def test_experts_of_a_few_bits(bits: int, block: int, zeros: bool):
    check_node("QMoE", node(bits, block, zeros), fed=FED, **how(bits, block))


@pytest.mark.parametrize("kind", ["relu", "gelu", "identity"])
def test_activations(kind: str):
    check_node("QMoE", node(4, 0, False), fed=FED, **how(4, 0, activation_type=kind))


@pytest.mark.parametrize("normalised", [0, 1])
@pytest.mark.parametrize("shares", [False, True])
def test_routing(shares: bool, normalised: int):
    """Also by weights beside the logits that choose the experts."""
    inputs = node(4, 32, True, fused=True, shares=shares)
    form = {"activation_type": "swiglu", "swiglu_fusion": 1, "swiglu_limit": 2.0}
    more = {"activation_alpha": 1.5, "activation_beta": 1.0}
    given = how(4, 32, normalize_routing_weights=normalised, **form, **more)
    check_node("QMoE", inputs, fed=FED, **given)


def by_definition(inputs: list, bits: tuple[int, int], block: int) -> np.ndarray:
    """In f64, of silu and two experts a token."""
    x, logits = (each.astype(np.float64) for each in inputs[:2])
    dense = []
    for (weights, scales, _), zeros, each in (
        (inputs[2:5], inputs[11], bits[0]),
        (inputs[5:8], inputs[12], bits[1]),
    ):
        numbers = bit_fields(weights, each).astype(np.float64).reshape(*scales.shape, block)
        zero = 1 << each - 1 if zeros is None else bit_fields(zeros, each)[..., : scales.shape[2]]
        middle = np.broadcast_to(np.asarray(zero, np.float64), scales.shape)
        real = (numbers - middle[..., None]) * scales[..., None]
        dense.append(real.reshape(EXPERTS, scales.shape[1], -1))
    y = np.zeros((TOKENS, COLUMNS))
    for token in range(TOKENS):
        chosen = np.argsort(-logits[token])[:2]
        shares = np.exp(logits[token, chosen])
        for expert, share in zip(chosen, shares / shares.sum(), strict=True):
            h = dense[0][expert] @ x[token] + inputs[4][expert]
            h = h / (1 + np.exp(-h))
            y[token] += share * (dense[1][expert] @ h + inputs[7][expert])
    return y.astype(np.float32)


@pytest.mark.parametrize("bits", [(2, 2), (8, 8), (3, 3), (4, 8), (8, 2)])
def test_blocks_by_definition(bits: tuple[int, int]):
    """onnxruntime rounds activations to bytes where blocks have 2 or 8 bits, and has no 3 bits with
    this activation; layers may have other bits than each other."""
    first, second = (
        layer(INNER, COLUMNS, bits[0], 32, True),
        layer(COLUMNS, INNER, bits[1], 32, True),
    )
    inputs = [f(TOKENS, COLUMNS), f(TOKENS, EXPERTS), *first[:3], *second[:3], None, None, None]
    inputs += [first[3], second[3]]
    given = how(8, 32, fc1_expert_weight_bits=bits[0], fc2_expert_weight_bits=bits[1])
    check_node("QMoE", inputs, fed=2, wanted=[by_definition(inputs, bits, 32)], **given)


def test_halves():
    inputs = node(4, 32, False)
    for place in (0, 1, 4, 7):
        inputs[place] = inputs[place].astype(np.float16)
    check_node("QMoE", inputs, ["float16"], fed=2, **how(4, 32))


def test_a_third_product_of_its_own():
    """By the fused form, whose rows are both in turns."""
    inputs = node(4, 0, False, fused=True)
    form = {"activation_type": "swiglu", "swiglu_fusion": 1}
    apart = list(inputs)
    for place in (2, 3, 4):
        apart[place], apart[place + 6] = inputs[place][:, 0::2], inputs[place][:, 1::2]
    model, fed = node_model("QMoE", inputs, ["float32"], 2, **how(4, 0, **form))
    wanted = rcompiler.compile_onnx(model, eus=1)(**fed)
    form["swiglu_fusion"] = 0
    check_node("QMoE", apart, fed=2, wanted=wanted, **how(4, 0, **form))


REFUSED = [
    ({"quant_type": "fp8"}, "quant_type 'fp8' is not translated"),
    ({"weights_prepacked": 1}, "packed for one device"),
    ({"expert_weight_bits": 5}, "weights of 5 bits"),
    ({"block_size": 24}, "blocks of 24"),
]


@pytest.mark.parametrize(("attributes", "message"), REFUSED)
def test_what_is_not_translated_is_named(attributes: dict, message: str):
    given = how(4, 0) | attributes
    model, _ = node_model("QMoE", node(4, 0, False), ["float32"], FED, **given)
    with pytest.raises(CompilerError, match=message):
        import_onnx(model)


def test_weights_stay_narrow():
    """None of them is a constant of floats."""
    model, _ = node_model("QMoE", node(4, 32, False), ["float32"], 2, **how(4, 32))
    text = import_onnx(model).module_text
    assert (
        f"tensor<{INNER // 16}x1x4x16xi32>" in text
    )  # four bits in words, 16 columns side by side
    assert f"{COLUMNS}x{INNER}xf32" not in text and f"{INNER}x{COLUMNS}xf32" not in text


def test_weights_that_only_a_call_knows_are_refused():
    model, _ = node_model("QMoE", node(4, 0, False), ["float32"], [0, 1, 2], **how(4, 0))
    with pytest.raises(CompilerError, match="they are taken apart"):
        import_onnx(model)


ROUTES = [
    {"n_group": 4, "topk_group": 2, "top_k": 3},
    {"n_group": 2, "topk_group": 1, "top_k": 2, "group_topk": 9},
    {"top_k": 3, "router_sentinel": -50.0},
]


@pytest.mark.parametrize("route", ROUTES)
def test_groups_of_experts(route: dict):
    check_node("MoEGroupRouter", [f(2, 5, 8), f(8)], **route)


def test_scores_of_all_experts():
    results = ["", "float32", "float32"]
    check_node("MoEGroupRouter", [f(5, 8), f(8)], results, top_k=3)
    check_node("MoEGroupRouter", [f(5, 256), f(8), f(8, 256) * 0.1], results, top_k=3)
