"""Programs for fewer features than the machine has: right, and without an instruction of a higher
level.

All built-in models in full size: pytest -m slow test/e2e/test_feature_levels.py
"""

import shutil
from collections import Counter

import ml_dtypes
import numpy as np
import pytest
from levels import LOWER
from machine_code import instructions, needed_level
from onnx import TensorProto, helper, numpy_helper
from turns import turn_of

import rcompiler
from rcompiler.codegen import veu
from rcompiler.codegen.cpu import Target, compile_object
from rcompiler.codegen.link import link
from rcompiler.codegen.microbench import module_text
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools import models
from rcompiler.tools._reference import compare, reference

LEVELS = ["x86-64", "v3", "v4"]
# One of each family, small.
SMALL = {
    "mlp": {},
    "lstm2": {"sequence": 4},
    "resnet50": {"image": 64, "blocks": (1, 1, 1, 1)},
    "resnext29": {"blocks": (1, 1, 1)},
    "mobilenet_v2": {"image": 64, "stages": ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 1, 2))},
    "squeezenet1_1": {"image": 64},
    "unet": {"image": 32},
    "bert_base": {"layers": 1, "hidden": 192, "heads": 3, "sequence": 17, "vocabulary": 100},
    "gpt2_small": {"layers": 1, "hidden": 192, "heads": 3, "sequence": 17, "vocabulary": 100},
    "tiny_llama": {"layers": 1},
    "vit_b16": {"layers": 1, "image": 64, "hidden": 192, "heads": 3},
}


def check_results(name, target, **options):
    """Compile, run, compare with the reference."""
    source = models.build(name, **options)
    model = rcompiler.compile_onnx(source, target=target, cache=False)
    feeds = random_inputs(model.inputs)
    _, expected = reference(source, feeds)
    for tensor, actual, want in zip(model.outputs, model(**feeds), expected, strict=True):
        found = compare(actual, want)
        assert found.right, f"{tensor.name}: {found}"
    return model


def check_code(code, level, folder):
    """All of the code is for `level`, and vectors of its width are used."""
    found = list(instructions(code, folder))
    count = Counter(needed_level(content) for content, _ in found)
    above = LEVELS[LEVELS.index(level) + 1 :]
    wrong = [text for content, text in found if needed_level(content) in above]
    assert not wrong, wrong[:5]
    assert count[level] > 100
    return count


needs_objdump = pytest.mark.skipif(not shutil.which("objdump"), reason="no objdump here")


# Each other one is of another level first, so that half of the pairs have all names and levels.
PAIRS = [
    (name, target)
    for number, name in enumerate(SMALL)
    for target in (LOWER if number % 2 else reversed(LOWER))
    if name != "mlp"
]


@pytest.mark.parametrize(
    ("name", "target"), [*(("mlp", target) for target in LOWER), *turn_of(PAIRS, 2)]
)
def test_models(name, target, tmp_path):
    model = check_results(name, target, **SMALL[name])
    assert not any("avx512" in flag for flag in model.artifact.cpu_flags)
    if shutil.which("objdump"):
        image = model.artifact.image
        check_code(image.content[: image.text], target.partition(":")[2], tmp_path)


def narrow_types():
    """A product of bytes, one of bf16, and a sum of f16; with the weights."""
    random = np.random.default_rng(0)
    integers = random.integers(-128, 128, (64, 48), np.int8)
    floats = random.standard_normal((64, 48)).astype(ml_dtypes.bfloat16)
    weights = [
        numpy_helper.from_array(integers, "wi"),
        helper.make_tensor("wb", TensorProto.BFLOAT16, (64, 48), floats.tobytes(), raw=True),
    ]
    nodes = [
        helper.make_node("MatMulInteger", ["a", "wi"], ["bytes"]),
        helper.make_node("Cast", ["x"], ["xb"], to=TensorProto.BFLOAT16),
        helper.make_node("MatMul", ["xb", "wb"], ["yb"]),
        helper.make_node("Cast", ["yb"], ["bf16"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["x"], ["xh"], to=TensorProto.FLOAT16),
        helper.make_node("Add", ["xh", "xh"], ["yh"]),
        helper.make_node("Cast", ["yh"], ["f16"], to=TensorProto.FLOAT),
    ]
    values = [
        *(("a", TensorProto.UINT8, (8, 64)), ("x", TensorProto.FLOAT, (8, 64))),
        *(("bytes", TensorProto.INT32, (8, 48)), ("bf16", TensorProto.FLOAT, (8, 48))),
        ("f16", TensorProto.FLOAT, (8, 64)),
    ]
    infos = [helper.make_tensor_value_info(*value) for value in values]
    graph = helper.make_graph(nodes, "g", infos[:2], infos[2:], weights)
    opset = helper.make_opsetid("", 22)
    return helper.make_model(graph, opset_imports=[opset], ir_version=10), integers, floats


@needs_objdump
@pytest.mark.parametrize("target", LOWER)
def test_narrow_types(target, tmp_path):
    """Of what they are fastest with, these levels have nothing."""
    source, integers, floats = narrow_types()
    model = rcompiler.compile_onnx(source, target=target, cache=False)
    random = np.random.default_rng(1)
    a = random.integers(0, 256, (8, 64), np.uint8)
    x = random.standard_normal((8, 64), np.float32)
    as_bytes, bf16, f16 = model(a=a, x=x)
    assert np.array_equal(as_bytes, a.astype(np.int32) @ integers.astype(np.int32))
    rounded = x.astype(ml_dtypes.bfloat16).astype(np.float64)
    np.testing.assert_allclose(bf16, rounded @ floats.astype(np.float64), rtol=0.01, atol=0.01)
    assert np.array_equal(f16, (x.astype(np.float16) * 2).astype(np.float32))
    image = model.artifact.image
    check_code(image.content[: image.text], target.partition(":")[2], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("target", LOWER)
@pytest.mark.parametrize("name", models.names())
def test_models_in_full_size(name, target):
    check_results(name, target)


@needs_objdump
@pytest.mark.parametrize("level", LEVELS)
def test_runtime_and_micro_benchmarks(level, tmp_path):
    """What is in every image, and vectors of each width: the highest level too, so that the check
    is seen to tell them apart.
    """
    target = Target.named(level if level == "x86-64" else f"x86-64-{level}")
    vector_bytes = {"x86-64": 16, "v3": 32, "v4": 64}[level]
    texts = [veu.module_text(), module_text(vector_bytes, fused=level != "x86-64")]
    image = link([compile_object(text, target) for text in texts])
    count = check_code(image.content[: image.text], level, tmp_path)
    assert all(count[lower] for lower in LEVELS[: LEVELS.index(level)])


@pytest.mark.parametrize(
    ("code", "level"),
    [
        ("0f 58 c1", "x86-64"),  # addps
        ("f3 44 0f 10 0f", "x86-64"),  # movss
        ("f3 48 0f bc c1", "x86-64"),  # rep bsf
        ("66 0f 38 40 c1", "v3"),  # pmulld (SSE4.1)
        ("f3 48 0f b8 c1", "v3"),  # popcnt
        ("f3 0f 16 c1", "v3"),  # movshdup (SSE3)
        ("c5 f4 58 c1", "v3"),  # vaddps ymm
        ("c4 e2 6d b8 cb", "v3"),  # vfmadd231ps ymm
        ("c4 e2 6d 50 cb", "v4"),  # vpdpbusd ymm (AVX-VNNI)
        ("62 f2 6d 48 b8 cb", "v4"),  # vfmadd231ps zmm
        ("62 f1 7c 08 28 c1", "v4"),  # vmovaps xmm (AVX-512VL)
    ],
)
def test_levels_of_instructions(code, level):
    assert needed_level(bytes.fromhex(code)) == level
