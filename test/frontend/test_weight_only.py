"""Products with weights of a few bits, which stay in words: as ONNX defines them."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rcompiler
from rcompiler.frontend.few_bits import BlockWeights, in_blocks, in_panels, unpacked

rng = np.random.default_rng(0)
TYPES = {
    "int4": (TensorProto.INT4, -8, 8),
    "uint4": (TensorProto.UINT4, 0, 16),
    "int8": (TensorProto.INT8, -128, 128),
    "uint8": (TensorProto.UINT8, 0, 256),
}


def integers(kind: str, shape: tuple[int, ...], name: str):
    """Random numbers of a type, as an initializer."""
    number, low, high = TYPES[kind]
    values = rng.integers(low, high, shape)
    return helper.make_tensor(name, number, shape, values.reshape(-1))


def dequantised(
    rows: int,
    weights: tuple[int, int],
    kind: str = "int4",
    axis: int = 0,
    block: int = 32,
    zeros: bool = True,
    op: str = "MatMul",
    **attributes: object,
):
    """x @ DequantizeLinear(constant): axis None: one scale; block 0: one for each step of axis."""
    shape: tuple[int, ...] = ()
    if axis is not None:
        shape = tuple(
            -(-n // block) if block and d == axis else n
            for d, n in enumerate(weights)
            if block or d == axis
        )
    scales = rng.uniform(0.01, 0.1, shape).astype(np.float32)
    constants = [integers(kind, weights, "q"), numpy_helper.from_array(scales, "s")]
    if zeros:
        constants.append(integers(kind, shape, "z"))
    names = [c.name for c in constants]
    own = {} if axis is None else {"axis": axis} | ({"block_size": block} if block else {})
    depth = weights[1] if attributes.get("transB") else weights[0]
    nodes = [
        helper.make_node("DequantizeLinear", names, ["w"], **own),
        helper.make_node(op, ["x", "w"], ["y"], name="product", **attributes),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, depth])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        constants,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return made, rng.standard_normal((rows, depth)).astype(np.float32)


def check(made, x: np.ndarray, fusion: bool = True, target: str = "cpu") -> str:
    """The model computes what the reference does; its S1."""
    want = ReferenceEvaluator(made).run(None, {"x": x})[0]
    compiled = rcompiler.compile_onnx(made, eus=1, fusion=fusion, target=target)
    np.testing.assert_allclose(compiled(x)[0], want, rtol=1e-5, atol=2e-5 * np.abs(want).max())
    return compiled.stage("linalg")


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("zeros", [False, True])
def test_a_scale_for_each_block(kind: str, zeros: bool):
    text = check(*dequantised(1, (96, 40), kind, zeros=zeros))
    assert "math.fma" in text
    assert "96x40xf32" not in text  # no weights of 32 bits


@pytest.mark.parametrize("block", [16, 64, 128])
def test_blocks_of_several_sizes(block: int):
    assert "math.fma" in check(*dequantised(2, (128, 24), block=block))


@pytest.mark.parametrize("axis", [None, 1])
def test_a_scale_for_each_column_or_for_all(axis: int | None):
    assert "math.fma" in check(*dequantised(1, (50, 24), "int8", axis, block=0))


def test_columns_that_lie_in_rows():
    made, x = dequantised(1, (24, 64), "uint4", axis=1, op="Gemm", transB=1, alpha=0.5)
    assert "math.fma" in check(made, x)


@pytest.mark.parametrize(
    ("axis", "block", "weights"),
    [(0, 0, (32, 24)), (1, 8, (32, 24)), (0, 12, (24, 8))],
    ids=["a scale for each row", "blocks of columns", "blocks that are no whole words"],
)
def test_what_is_multiplied_as_floats(axis: int, block: int, weights: tuple[int, int]):
    assert "math.fma" not in check(*dequantised(1, weights, axis=axis, block=block))


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("weights", [(64, 24), (2112, 40)], ids=["short", "in parts"])
@pytest.mark.parametrize("fusion", [True, False])
def test_many_rows_share_weights_that_are_unpacked(weights: tuple, zeros: bool, fusion: bool):
    made, x = dequantised(17, weights, zeros=zeros)
    text = check(made, x, fusion=fusion)
    assert "arith.shrui" in text and "math.fma" not in text


def test_many_rows_with_a_scale_for_each_column():
    made, x = dequantised(20, (1100, 24), "int8", 1, block=0)
    assert "2x138x4x24xf32" in check(made, x)  # two parts of 552, of whole words


@pytest.mark.parametrize("rows", [1, 17])
def test_cores_without_fused_multiply_adds(rows: int):
    check(*dequantised(rows, (96, 40)), target="cpu:x86-64")


def test_words_are_asked_for_ahead():
    made, _ = dequantised(1, (256, 2048))
    assert "llvm.intr.prefetch" in rcompiler.compile_onnx(made, eus=1).stage("llvm")


@pytest.mark.parametrize("rows", [1, 17])
def test_files_keep_weights_narrow(rows: int, tmp_path):
    made, _ = dequantised(rows, (512, 512), zeros=False)
    path = tmp_path / "model.rcx"
    rcompiler.compile_onnx(made, eus=1).save(path)
    words, scales = 512 * 512 // 2, 512 * 512 // 32 * 4
    assert path.stat().st_size < words + scales + 100_000


def test_words_have_the_first_number_in_the_lowest_bits():
    numbers = np.array([[[1, 2, 3, 4, 5, 6, 7, 8]]], np.uint8)
    weights = BlockWeights(4, 8, numbers, np.ones((1, 1), np.float32), 8.0)
    words = weights.words()
    assert words.shape == (1, 1, 1, 16)
    assert words[0, 0, 0, 0] == 0x87654321 and not words[0, 0, 0, 1:].any()
    assert weights.masks()[:2] == [0xF, 0xF0]
    assert weights.shares()[[0, 1, 6, 7]].tolist() == [1, 1 / 16, 2.0**-24, 1]
    assert weights.dense()[:, 0].tolist() == [-7, -6, -5, -4, -3, -2, -1, 0]


def test_panels_have_sixteen_columns_side_by_side():
    rows = np.arange(34).reshape(17, 2)
    panels = in_panels(rows)
    assert panels.shape == (2, 2, 16)
    assert panels[0, 1].tolist() == [2 * n + 1 for n in range(16)]
    assert panels[1, 0].tolist() == [32, *[0] * 15]


def test_the_last_block_is_filled_with_zeros():
    assert in_blocks(np.array([[1, 2, 3]]), 2).tolist() == [[[1, 2], [3, 0]]]


def test_the_lowest_bits_come_first():
    assert unpacked(np.array([[0x21, 0x43]], np.uint8), 4).tolist() == [[1, 2, 3, 4]]
    assert unpacked(np.array([[0b11100100]], np.uint8), 2).tolist() == [[0, 1, 2, 3]]
