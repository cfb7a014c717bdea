"""Attention, whose scores and weights never leave the execution unit that computes them."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from task_body import lowered

import rcompiler
from rcompiler.errors import InvalidModel

HEADS, WIDTH = 4, 32


def attention(tokens: int, *, mask: bool = False) -> onnx.ModelProto:
    """mask: [tokens, tokens], added to the scores of all heads."""
    shape = [1, HEADS, tokens, WIDTH]
    values = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, shape) for n in "qkvo"]
    added = helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, [tokens, tokens])
    scale = numpy_helper.from_array(np.float32(WIDTH**-0.5).reshape(()), "c")
    nodes = [
        helper.make_node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "t"], ["s"]),
        helper.make_node("Mul", ["s", "c"], ["m"]),
        *([helper.make_node("Add", ["m", "a"], ["b"])] if mask else []),
        helper.make_node("Softmax", ["b" if mask else "m"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["o"]),
    ]
    inputs = [*values[:3], *([added] if mask else [])]
    graph = helper.make_graph(nodes, "attention", inputs, values[3:], [scale])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def expected(q, k, v, mask=0.0):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(2, 3) * WIDTH**-0.5 + mask
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ v


def tensors(tokens: int):
    rng = np.random.default_rng(tokens)
    return [rng.standard_normal((1, HEADS, tokens, WIDTH), dtype=np.float32) for _ in "qkv"]


@pytest.mark.parametrize("tokens", [1, 7, 50, 97, 256])
def test_attention(tokens, tmp_path):
    arrays = tensors(tokens)
    model = rcompiler.compile_onnx(attention(tokens), cache=tmp_path)
    np.testing.assert_allclose(model(*arrays)[0], expected(*arrays), rtol=2e-4, atol=2e-5)


def on_chip(model, **options):
    """Compile where rows of this size are kept on chip: by figures that are not this machine's."""
    return rcompiler.compile_onnx(model, target="cpu:x86-64", device="zen5-2", **options)


def test_tiles_stay_on_chip_and_no_bit_depends_on_it(tmp_path):
    arrays = tensors(256)
    model = on_chip(attention(256), eus=2, cache=tmp_path)
    assert "rtask.stage" in model.stage("rtask")
    assert max(kernel.workspace for kernel in model.artifact.kernels) > 0
    [result] = model(*arrays)
    for eus, policy in ((1, "base"), (3, "wave"), (8, "rammer")):
        other = on_chip(attention(256), eus=eus, policy=policy, cache=tmp_path)
        assert np.array_equal(other(*arrays)[0], result)
    model.save(tmp_path / "m.rcx")
    assert np.array_equal(rcompiler.load(tmp_path / "m.rcx")(*arrays)[0], result)


def test_the_sums_are_divided_and_not_the_weights(tmp_path):
    text = on_chip(attention(256), cache=tmp_path).stage("rtask")
    weights, division = text.index("math.exp"), text.index("arith.divf")
    assert "arith.mulf" in text[weights:division]  # the product of weights and values
    assert text.count("arith.divf") == 1
    # scores, maxima, weights and their sums are kept
    assert text.count('"rtask.stage"') == 4


@pytest.mark.parametrize("tokens", [50, 256])
def test_masked_attention(tokens, tmp_path):
    """Causal: a row has -inf wherever it must not look, and its weights there are 0."""
    arrays, mask = tensors(tokens), np.triu(np.full((tokens, tokens), -np.inf, np.float32), 1)
    model = rcompiler.compile_onnx(attention(tokens, mask=True), cache=tmp_path)
    [found] = model(*arrays, mask)
    np.testing.assert_allclose(found, expected(*arrays, mask), rtol=2e-4, atol=2e-5)
    # the first token sees itself alone
    np.testing.assert_allclose(found[:, :, 0], arrays[2][:, :, 0], rtol=1e-6)


def test_infinities_and_nan_stay_in_the_rows_that_they_are_in(tmp_path):
    tokens = 256
    q, k, v = tensors(tokens)
    mask = np.zeros((tokens, tokens), np.float32)
    mask[3] = -np.inf  # nothing to look at
    mask[5, 7] = np.nan
    mask[9, 11] = np.inf
    q[0, 1, 13] *= 1e4  # one weight is 1, the others underflow
    model = rcompiler.compile_onnx(attention(tokens, mask=True), cache=tmp_path)
    [found] = model(q, k, v, mask)
    with np.errstate(invalid="ignore"):
        reference = expected(q, k, v, mask)
    assert np.isnan(reference[:, :, [3, 5, 9]]).all()
    np.testing.assert_allclose(found, reference, rtol=2e-4, atol=2e-5)


def test_large_values_do_not_overflow(tmp_path):
    """The sum of a row's weights is at most its length, so there is room for values to 1e36."""
    q, k, v = tensors(256)
    model = rcompiler.compile_onnx(attention(256), cache=tmp_path)
    [found] = model(q, k, v * np.float32(1e35))
    np.testing.assert_allclose(found / 1e35, expected(q, k, v), rtol=2e-4, atol=2e-5)


def test_the_published_search_leaves_stages_to_the_model_and_says_so(tmp_path):
    arrays = tensors(256)
    model, published = (
        on_chip(attention(256), roller_policy=policy, cache=tmp_path)
        for policy in ("roller", "osdi22")
    )
    assert any(
        "it has stages; decided by policy" in op.reason for op in published.report().operators
    )
    assert np.array_equal(published(*arrays)[0], model(*arrays)[0])


def test_a_stage_that_is_cut_otherwise_by_hand_is_refused(tmp_path):
    model = on_chip(attention(256), cache=tmp_path)
    text = model.stage("rkernel")
    assert "axes = array<i64: 0, 1, 2, -1>" in text
    wrong = text.replace("axes = array<i64: 0, 1, 2, -1>", "axes = array<i64: 0, 2, 1, -1>", 1)
    for tiling, match in (
        ("", "'axes' is .* for this stage, by the body"),
        (",rc-tile-kernels", r"takes 1 elements from \d+ on in dim 1 of a tensor of 4"),
    ):
        schedule = lowered(wrong, f"rammer-schedule{{eus=1}}{tiling}")
        with pytest.raises(InvalidModel, match=match):
            rcompiler.compile_schedule(schedule, model.constants(), cache=tmp_path)
