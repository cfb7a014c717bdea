"""Sizes that models compute by floats, as exporters write scaled images and lengths of frames."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import rcompiler
from rcompiler.errors import UnsupportedOp

node = helper.make_node
pytestmark = pytest.mark.usefixtures("shared_cache")

FLOOR = [("Div", 2), "Floor"]
CEIL = [("Div", 2), "Ceil"]


def scaled(chain, tail, dtype=TensorProto.FLOAT):
    """Both sizes of an image by a chain of floats, and what is done with them."""
    weights = {"first": np.int64([0]), "second": np.int64([2])}
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Slice", ["shape", "first", "second"], ["lead"]),
        node("Gather", ["shape", "at"], ["sizes"]),
        node("Cast", ["sizes"], ["v0"], to=dtype),
    ]
    weights["at"] = np.int64([2, 3])
    for number, step in enumerate(chain):
        into, out = f"v{number}", f"v{number + 1}"
        if isinstance(step, str):
            nodes.append(node(step, [into], [out]))
            continue
        op, value = step
        weights[f"c{number}"] = np.asarray(value, helper.tensor_dtype_to_np_dtype(dtype))
        nodes.append(node(op, [into, f"c{number}"], [out]))
    nodes += [
        node("Cast", [f"v{len(chain)}"], ["made"], to=TensorProto.INT64),
        node("Concat", ["lead", "made"], ["target"], axis=0),
        *tail,
    ]
    return helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 2, "h", "w"])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(value, name) for name, value in weights.items()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )


RESIZE = node("Resize", ["x", "", "", "target"], ["y"], mode="linear")
JOINED = [
    node("Resize", ["x", "", "", "target"], ["r"], mode="linear"),
    node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
    node("Concat", ["r", "p"], ["y"], axis=1),
]
ADDED = [
    JOINED[0],
    node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    node("Add", ["r", "p"], ["y"]),
]
FILLED = [node("ConstantOfShape", ["target"], ["y"])]
SIZES = ((12, 12), (13, 17), (33, 64), (79, 78), (50, 21))


def judged(model, run, sizes=SIZES):
    onnxruntime = pytest.importorskip("onnxruntime")
    oracle = onnxruntime.InferenceSession(model.SerializeToString())
    for h, w in sizes:
        x = np.random.default_rng(h).standard_normal((1, 2, h, w)).astype(np.float32)
        [want], [got] = oracle.run(None, {"x": x}), run(x)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, 1e-4, 1e-4)


@pytest.mark.parametrize(
    ("chain", "tail"),
    [
        (FLOOR, JOINED),
        ([("Mul", 0.5), "Floor"], JOINED),
        ([("Mul", 0.5)], JOINED),  # cut off by the cast
        (CEIL, ADDED),
        ([("Div", 2), ("Add", 0.5), "Floor"], ADDED),
        ([("Div", 3), "Round"], [RESIZE]),
        ([("Div", 2), "Round"], [RESIZE]),  # halves to even numbers: counted by a run
        ([("Mul", 0.3), "Floor"], FILLED),  # f32 has no 0.3: counted
        ([("Sub", 10), ("Div", 5), ("Add", 1), "Floor"], FILLED),
        ([("Div", 4), "Ceil", ("Mul", 4)], [RESIZE]),
    ],
)
def test_one_program_for_a_range(chain, tail):
    model = scaled(chain, tail)
    ends = range(12, 80)
    shapes = {"b": 1, "h": ends, "w": ends}
    with rcompiler.compile_onnx(
        model, shapes=shapes, buckets={"h": (79,), "w": (79,)}, eus=1
    ) as made:
        judged(model, made)


@pytest.mark.parametrize("dtype", [TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_other_floats(dtype):
    model = scaled(FLOOR, JOINED, dtype)
    shapes = {"b": 1, "h": range(12, 80), "w": 21}
    with rcompiler.compile_onnx(model, shapes=shapes, buckets={"h": (79,)}, eus=1) as made:
        judged(model, made, [(h, 21) for h in (12, 13, 79)])


def test_a_size_that_may_be_negative_is_refused_by_name():
    model = scaled([("Div", 2), ("Sub", 20), "Floor"], [RESIZE])
    with pytest.raises(UnsupportedOp, match="'sizes'.*depends on the size of w"):
        shapes = {"b": 1, "h": 50, "w": range(12, 60)}
        rcompiler.compile_onnx(model, shapes=shapes, buckets={"w": (59,)})


def test_a_session_has_one_program_for_a_range(compiled):
    model = scaled([("Mul", 0.5), "Floor"], JOINED)
    with rcompiler.InferenceSession(model.SerializeToString(), eus=1) as made:
        sizes = [(12, 12), (31, 17), (20, 25), (13, 30), (32, 19), (27, 28)]
        judged(model, lambda x: made.run(None, {"x": x}), sizes)
        assert len(compiled) == 4  # one is refused: of one row there is no window
        assert made.notes == ()


def interpolated(scales):
    """A table of positions that is scaled to the patches of an image, by scales that are computed:
    as many patches as there are, over those of the table."""
    weights = {
        "w": np.random.default_rng(0).standard_normal((4, 2, 8, 8)).astype(np.float32),
        "table": np.random.default_rng(1).standard_normal((1, 4, 4, 4)).astype(np.float32),
        "at": np.int64([2, 3]),
        "patch": np.float32(8),
        "grid": np.float32(scales),
        "ones": np.float32([1, 1]),
    }
    nodes = [
        node("Conv", ["x", "w"], ["c"], strides=[8, 8]),
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "at"], ["edges"]),
        node("Cast", ["edges"], ["floats"], to=TensorProto.FLOAT),
        node("Div", ["floats", "patch"], ["patches"]),
        node("Floor", ["patches"], ["whole"]),
        node("Div", ["whole", "grid"], ["factors"]),
        node("Concat", ["ones", "factors"], ["scales"], axis=0),
        node("Resize", ["table", "", "scales"], ["r"], mode="linear"),
        node("Add", ["c", "r"], ["y"]),
    ]
    return helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 2, "h", "w"])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(value, name) for name, value in weights.items()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )


def test_scales_that_are_quotients_of_sizes():
    model = interpolated(4)
    shapes = {"b": 1, "h": range(16, 80), "w": range(16, 80)}
    with rcompiler.compile_onnx(
        model, shapes=shapes, buckets={"h": (79,), "w": (79,)}, eus=1
    ) as made:
        judged(model, made, ((16, 16), (33, 64), (79, 78), (50, 21)))


def test_scales_that_make_no_whole_sizes_are_refused_by_name():
    """Of a third it is not known how its product with 4 is rounded."""
    with pytest.raises(UnsupportedOp, match="'scales'.*depends on the size of h"):
        shapes = {"b": 1, "h": range(16, 80), "w": 16}
        rcompiler.compile_onnx(interpolated(3), shapes=shapes, buckets={"h": (79,)})
