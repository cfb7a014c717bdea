"""Dimensions that are written as multiples of others, as exporters with constraints do."""

from dataclasses import replace

import numpy as np
import onnx.parser
import pytest

import rcompiler
from rcompiler.errors import ArtifactError, RangeError, ShapeError
from rcompiler.runtime import family as families

HEAD = '<ir_version: 8, opset_import: ["": 17]>'

pytestmark = pytest.mark.usefixtures("shared_cache")


def pooling(*dims):
    """Windows of two by two of an image."""
    model = onnx.parser.parse_model(
        f"{HEAD} g (float[b, 3, H, W] x) => (float[b, 3, P, Q] y) "
        "{ y = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(x) }"
    )
    for dim, name in zip(model.graph.input[0].type.tensor_type.shape.dim[2:], dims, strict=True):
        dim.dim_param = name
    return model


def check(run, high, wide):
    x = np.random.default_rng(high).standard_normal((1, 3, high, wide)).astype(np.float32)
    (y,) = run(x)
    windows = x[:, :, : high // 2 * 2, : wide // 2 * 2].reshape(1, 3, high // 2, 2, wide // 2, 2)
    np.testing.assert_array_equal(y, windows.max((3, 5)))


@pytest.fixture(scope="module")
def ranges():
    return rcompiler.compile_onnx(
        pooling("32*h", "2*w + 1"),
        shapes={"b": 1, "h": range(1, 5), "w": range(1, 9)},
        buckets={"h": (2, 4), "w": (8,)},
        eus=1,
    )


def test_a_program_for_a_range_of_multiples(ranges, tmp_path):
    """The calls of each are told by the axis, in steps; so are those of a file."""
    ranges.save(tmp_path / "m.rcx")
    for model in (ranges, rcompiler.load(tmp_path / "m.rcx")):
        for high, wide in ((32, 3), (64, 17), (96, 5), (128, 9), (64, 5)):
            check(model, high, wide)
        assert str(model.inputs[0].sizes[2]) == "32*h"
        with pytest.raises(ShapeError, match=r"33 elements.*'32\*h' of them"):
            check(model, 33, 3)
        with pytest.raises(ShapeError, match=r"4 elements.*'2\*w \+ 1' of them"):
            check(model, 32, 4)
        with pytest.raises(ShapeError, match=r"h=5.*compiled for h: 1 to 4"):
            check(model, 160, 3)


def test_one_program_says_what_it_takes():
    shapes = {"b": 1, "h": range(1, 5), "w": 2}
    model = rcompiler.compile_onnx(
        pooling("32*h", "2*w + 1"), shapes=shapes, buckets={"h": (4,)}, eus=1
    )
    for high in (32, 128, 96, 32):
        check(model, high, 5)
    for high in (33, 31, 160):
        with pytest.raises(ShapeError, match=r"'32\*h' is from 32 to 128 in steps of 32"):
            check(model, high, 5)


def test_a_multiple_beside_the_size_itself():
    text = (
        f"{HEAD} g (float[T] x, float[n] y) => (float[n] z) <int64[2] s = {{-1, 2}}, int64[1] a "
        "= {1}> { r = Reshape(x, s) t = ReduceSum<keepdims=0>(r, a) z = Add(t, y) }"
    )
    model = onnx.parser.parse_model(text)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "2*n"
    with rcompiler.compile_onnx(model, shapes={"n": range(2, 9)}, eus=1) as made:
        for n in (2, 5, 8):
            x, y = np.arange(2 * n, dtype=np.float32), np.ones(n, np.float32)
            np.testing.assert_array_equal(made(x, y)[0], x.reshape(-1, 2).sum(1) + 1)
        with pytest.raises(ShapeError, match=r"'n' is 5 .* and 4"):
            made(np.zeros(10, np.float32), np.ones(4, np.float32))


def test_a_size_that_is_a_quotient_of_another():
    text = f"""{HEAD} g (float[1, 1, h] x, float[1, 1, H] y) => (float[1, 1, H] z) {{
        p = MaxPool<kernel_shape=[2], strides=[2]>(x)
        z = Add(p, y)
    }}"""
    model = onnx.parser.parse_model(text)
    model.graph.input[1].type.tensor_type.shape.dim[2].dim_param = "h//2"
    for shapes, sizes in (({"h": 9}, (9,)), ({"h": range(4, 20)}, (4, 7, 12, 19))):
        with rcompiler.compile_onnx(model, shapes=shapes, eus=1) as made:
            for h in sizes:
                x = np.random.default_rng(h).standard_normal((1, 1, h)).astype(np.float32)
                y = np.ones((1, 1, h // 2), np.float32)
                want = x[..., : h // 2 * 2].reshape(1, 1, -1, 2).max(-1) + y
                np.testing.assert_array_equal(made(x, y)[0], want)
            with pytest.raises((ShapeError, RangeError), match=r"does not|wants|meets 8"):
                made(x, np.ones((1, 1, h // 2 - 1), np.float32))
    with pytest.raises(ShapeError, match="divides by 0"):
        model.graph.input[1].type.tensor_type.shape.dim[2].dim_param = "h//0"
        rcompiler.compile_onnx(model, shapes={"h": 9})


def test_axes_of_a_file_are_checked(ranges):
    family = ranges.family
    for axes in ((None, None, (0, 0, 0), (1, 2, 1)), (None, None, (2, 32, 0), (1, 2, 1))):
        with pytest.raises(ArtifactError):
            families.from_bytes(replace(family, axes=(axes,)).to_bytes())


def test_sessions_step_by_multiples(compiled):
    """One program for all of them, whose bound is in elements; what is no multiple is answered."""
    with rcompiler.InferenceSession(pooling("32*h", "2*w + 1").SerializeToString(), eus=1) as made:
        for high, wide in ((32, 3), (96, 9), (64, 5), (128, 7), (32, 9), (96, 3)):
            check(lambda x: made.run(None, {"x": x}), high, wide)
        assert len(compiled) == 3 and made.notes == ()
        [build, *_] = made._by_shape.ranges.model.builds
        assert build.sizes == {"b": (1, 1), "h": (1, 4), "w": (1, 16)}
        check(lambda x: made.run(None, {"x": x}), 33, 3)
        [note] = made.notes
        assert "33 elements along axis 2 of 'x'" in note and "32*h" in note
        check(lambda x: made.run(None, {"x": x}), 64, 11)
        assert len(compiled) == 4


def test_a_number_that_is_the_sum_of_multiples(compiled):
    """Of what a decoder has: the total is the size behind one that is twice another."""
    text = f"""{HEAD} g (float[T, 2] x, float[n, 2] y, int64 total) => (float[m, 2] z)
        <int64[1] one = {{2}}, int64[1] zero = {{0}}> {{
          t = Unsqueeze(total, zero)
          shape = Concat<axis = 0>(t, one)
          j = Concat<axis = 0>(x, y)
          z = Reshape(j, shape)
        }}"""
    model = onnx.parser.parse_model(text)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "2*p + 1"
    model.graph.input[2].type.tensor_type.shape.SetInParent()
    with rcompiler.InferenceSession(model.SerializeToString(), eus=1) as made:
        for p, n in ((1, 3), (2, 3), (3, 3), (4, 3), (5, 3), (6, 3)):
            x, y = np.ones((2 * p + 1, 2), np.float32), np.zeros((n, 2), np.float32)
            (z,) = made.run(None, {"x": x, "y": y, "total": np.int64(2 * p + 1 + n)})
            np.testing.assert_array_equal(z, np.concatenate([x, y]))
