"""The text builder: views, constants, sharing, locations."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from torch_mlir import ir

from rcompiler.frontend.builder import Builder, broadcast_shapes
from rcompiler.frontend.core import splat
from rcompiler.frontend.scalar import literal
from rcompiler.support.shapes import reassociation


def verified(builder, results):
    text = builder.module(results)
    with ir.Context():
        assert ir.Module.parse(text).operation.verify()
    return text


@pytest.mark.parametrize(
    ("source", "target", "groups"),
    [
        ((2, 3, 4), (6, 4), [([0, 1], [0]), ([2], [1])]),
        ((4, 6), (2, 2, 6), [([0], [0, 1]), ([1], [2])]),
        ((1, 4), (4,), [([0, 1], [0])]),
        ((4, 1, 1), (4,), [([0, 1, 2], [0])]),
        ((6, 4), (4, 6), [([0, 1], [0, 1])]),
    ],
)
def test_reassociation_groups_have_equal_products(source, target, groups):
    found = reassociation(source, target)
    assert sorted(sum((a for a, _ in found), [])) == list(range(len(source)))
    assert sorted(sum((b for _, b in found), [])) == list(range(len(target)))
    for a, b in found:
        assert np.prod([source[i] for i in a]) == np.prod([target[j] for j in b])
    assert found == groups


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (2, 3, 4), (24,), (4, 1, 6), (1, 24, 1)])
def test_any_reshape_verifies(shape):
    b = Builder()
    size = int(np.prod(shape))
    x = b.argument("x", shape, "float32")
    others = [(1,) * 3, (1, 1, 1, 1)] if size == 1 else [(6, 4), (4, 6), (2, 2, 2, 3), (1, 24)]
    text = verified(b, [(str(t), b.reshape(x, t)) for t in others])
    assert "linalg" not in text


def test_equal_ops_are_one_and_unused_ops_are_dropped():
    b = Builder()
    x = b.argument("x", (2, 3), "float32")
    first = b.elementwise(lambda s, a: a + 1.0, x)
    assert b.elementwise(lambda s, a: a + 1.0, x).name == first.name
    b.elementwise(lambda s, a: s.exp(a), x)
    text = verified(b, [("y", first)])
    assert text.count("linalg.generic") == 1
    assert "math.exp" not in text


def test_constants_lie_beside_the_module_only_when_used():
    b = Builder()
    x = b.argument("x", (100,), "float32")
    w = np.arange(100, dtype=np.float32)
    b.elementwise(lambda s, a, c: a + c, x, b.constant(w + 1))
    used = b.elementwise(lambda s, a, c: a * c, x, b.constant(w))
    text = verified(b, [("y", used)])
    (key,) = b.constants
    assert f"dense_resource<{key}>" in text
    assert key.startswith("w_") and len(key) == 18
    np.testing.assert_array_equal(b.constants[key], w)


def test_equal_constants_have_one_key_and_types_matter():
    b = Builder()
    keys = [b.ref(b.constant(np.arange(80, dtype=t))) for t in ("int32", "int32", "uint32")]
    assert keys[0] == keys[1] != keys[2]
    assert len(b.constants) == 2


def test_constants_with_equal_checksums_stay_apart(monkeypatch):
    monkeypatch.setattr("rcompiler.frontend.core.zlib.crc32", lambda data: 0xFFFFFFFF)
    b = Builder()
    keys = [b.ref(b.constant(np.arange(80) + k)) for k in (0, 1, 0)]
    assert keys[0] == keys[2] != keys[1]
    assert [array[0] for array in b.constants.values()] == [0, 1]


@pytest.mark.parametrize("value", [0.1, -0.0, 1e-45, 3.4e38, float("inf"), float("nan")])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_literals_are_exact(value, dtype):
    from rcompiler.frontend.dtypes import mlir_type, numpy_dtype

    with np.errstate(over="ignore"):  # 3.4e38 is infinite in float16
        number = np.array(value).astype(numpy_dtype(dtype))
    with ir.Context():
        text = f"{literal(number[()], dtype)} : {mlir_type(dtype)}"
        attribute = ir.FloatAttr(ir.Attribute.parse(text))
        np.testing.assert_equal(attribute.value, float(number))


def test_splat_is_bitwise():
    assert splat(np.array([0.0, -0.0], np.float32)) is None
    assert splat(np.full(5, np.nan, np.float32)) is not None
    assert splat(np.broadcast_to(np.float32(3), (10, 10))) == 3
    assert splat(np.zeros(0, np.float32)) is None
    assert splat(np.array([[1, 2], [3, 1]], np.float32)) is None  # the ends are equal
    assert splat(np.full((2, 3), 7, np.float32).T[:, 1:]) == 7


def test_locations_name_the_node_whatever_it_is_called():
    b = Builder()
    x = b.argument('in"put', (2,), "float32")
    b.at('a "quoted"\n\\ name é', "Relu")
    y = b.elementwise(lambda s, a: s.maximum(a, 0), x)
    text = b.module([("y", y)])
    with ir.Context():
        module = ir.Module.parse(text)
        shown = module.operation.get_asm(enable_debug_info=True)
    assert "quoted" in shown


def test_layout_of_constants_is_folded():
    b = Builder()
    array = np.arange(24, dtype=np.int64).reshape(2, 3, 4)
    value = b.constant(array)
    np.testing.assert_array_equal(b.transpose(value, [2, 0, 1]).const, array.transpose(2, 0, 1))
    np.testing.assert_array_equal(
        b.slice(value, [1, 2, 0], [2, 2, 2], [-1, -1, 2]).const, array[::-1, :0:-1, ::2]
    )
    np.testing.assert_array_equal(b.concat([value, value], 1).const, np.concatenate([array] * 2, 1))


def test_broadcast_shapes():
    assert broadcast_shapes((2, 1), (3,), ()) == (2, 3)
    assert broadcast_shapes((2,), (3,)) is None
    assert broadcast_shapes((0, 1), (1, 4)) == (0, 4)
    assert broadcast_shapes((0,), (3,)) is None
    assert broadcast_shapes() == ()


def test_broadcast_shapes_of_more_dims_than_numpy_takes():
    """numpy's function takes 32 dims, tensors have up to 64: a byte of a model makes one of 33."""
    ones = (1,) * 62
    assert broadcast_shapes((*ones, 2, 1), (3,)) == (*ones, 2, 3)
    assert broadcast_shapes((*ones, 2, 1), (3, 1)) is None


@given(st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=3))
def test_shapes_are_broadcast_as_numpy_does(shapes):
    try:
        expected = np.broadcast_shapes(*map(tuple, shapes))
    except ValueError:
        expected = None
    assert broadcast_shapes(*shapes) == expected
