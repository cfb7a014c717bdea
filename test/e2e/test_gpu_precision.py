"""Products by the matrix units of a GPU, on the emulated one."""

import numpy as np
import pytest
from onnx import TensorProto
from rounded_products import ALLOWED, operands, product, run
from small_networks import SMALL

import rcompiler
from rcompiler.errors import CompilerError
from rcompiler.tools.models import build

UNITS = {"tf32": "m16n8k8.row.col.f32.tf32", "f16": "m16n8k16.row.col.f32.f16"}
UNITS["bf16"] = "m16n8k16.row.col.f32.bf16"


@pytest.mark.parametrize("precision", ALLOWED)
@pytest.mark.parametrize("name", ["mlp", "resnet50", "bert_base"])
def test_networks(name, precision):
    model = build(name, **SMALL[name])
    compiled = rcompiler.compile_onnx(model, target="cuda:emulated", precision=precision)
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal(t.shape).astype(t.dtype)
        if t.dtype == "float32"
        else np.ones(t.shape, t.dtype)
        for t in compiled.inputs
    ]
    for found, wanted in zip(compiled(*arrays), run(model, arrays), strict=True):
        assert np.abs(found - wanted).max() <= ALLOWED[precision] * np.abs(wanted).max()
    text = compiled.stage("ptx")
    assert ("mma.sync" in text) == (precision != "f32")
    if precision != "f32":
        assert UNITS[precision] in text


# Sizes that are no multiple of anything an instruction, a warp or a part has.
@pytest.mark.parametrize("shape", [(1, 9, 3), (17, 8, 9), (33, 100, 41), (130, 47, 70)])
@pytest.mark.parametrize("precision", ["tf32", "f16", "bf16"])
def test_odd_sizes(shape, precision):
    compiled = rcompiler.compile_onnx(product(*shape), target="cuda:emulated", precision=precision)
    arrays = operands(*shape)
    [found], [wanted] = compiled(*arrays), run(product(*shape), arrays)
    assert np.abs(found - wanted).max() <= ALLOWED[precision] * np.abs(wanted).max()


@pytest.mark.parametrize("precision", ["f32", "tf32", "f16"])
@pytest.mark.parametrize("eus", [1, 3])
@pytest.mark.parametrize("policy", ["base", "list"])
def test_a_schedule_changes_no_bit(policy, eus, precision):
    """Other numbers of EUs have other tiles."""
    model, arrays = product(70, 50, 90), operands(70, 50, 90)
    options = {"target": "cuda:emulated", "precision": precision}
    [plain] = rcompiler.compile_onnx(model, **options)(*arrays)
    [found] = rcompiler.compile_onnx(model, policy=policy, eus=eus, **options)(*arrays)
    assert (found.view(np.uint32) == plain.view(np.uint32)).all()


def test_halves_of_the_model_go_to_the_units_as_they_are():
    model, arrays = product(40, 64, 24, TensorProto.FLOAT16), operands(40, 64, 24, np.float16)
    compiled = rcompiler.compile_onnx(model, target="cuda:emulated")
    assert UNITS["f16"] in compiled.stage("ptx")
    x, w, b = (a.astype(np.float64) for a in arrays)
    wanted = np.maximum(x @ w + b, 0)
    assert np.abs(compiled(*arrays)[0] - wanted).max() <= 2e-3 * wanted.max()


@pytest.mark.parametrize("shape", [(17, 8, 9), (17, 9, 9)])
def test_tf32_keeps_nan(shape):
    """Of the bits that GPUs make: rounded as an integer they would become -0. Rows of 8 elements
    are copied and rounded later, those of 9 go by way of registers.
    """
    compiled = rcompiler.compile_onnx(product(*shape), target="cuda:emulated", precision="tf32")
    x, *others = operands(*shape)
    x.view(np.uint32)[3, 5] = 0x7FFFFFFF
    [found] = compiled(x, *others)
    assert np.isnan(found).any(axis=1).tolist() == [row == 3 for row in range(17)]
    assert np.isnan(found[3]).all()


def test_an_unknown_precision():
    with pytest.raises(
        CompilerError, match="'tf32' is not one of target 'cpu', which has f32, f16"
    ):
        rcompiler.compile_onnx(product(2, 8, 2), precision="tf32")
    with pytest.raises(
        CompilerError, match="precision 'f8' is none of f32, tf32, f16, bf16, w8, w4"
    ):
        rcompiler.compile_onnx(product(2, 8, 2), target="cuda:emulated", precision="f8")
