"""Results whose number the model finds: their true shapes, and what reads them, beside onnxruntime.

Graphs are compiled, or imported with poison in all that is not there and run in S1.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from poisoned import poison
from sized import sized_answers

import rcompiler
from rcompiler.errors import CompilerError, RangeError, ShapeError, UnsupportedOp
from rcompiler.frontend import import_onnx

F = np.float32


def node(op, inputs, outputs, **attributes):
    outputs = outputs.split()
    return helper.make_node(op, inputs.split(), outputs, name=f"make_{outputs[0]}", **attributes)


def model(nodes, feeds, outputs, weights=None, opset=18):
    """A model of inputs like these arrays."""
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in feeds.items()
        ],
        [helper.make_tensor_value_info(y, TensorProto.UNDEFINED, None) for y in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def by_onnxruntime(proto):
    ort = pytest.importorskip("onnxruntime")
    plain = type(proto)()
    plain.CopyFrom(proto)
    for output in plain.graph.output:
        output.ClearField("type")
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(plain.SerializeToString(), options)
    return lambda feeds: session.run(None, feeds)


def compiled(proto, **options):
    made = rcompiler.compile_onnx(proto, eus=2, cache=False, **options)
    return lambda feeds: made(*feeds.values())


def in_poison(proto):
    with poison():
        imported = import_onnx(proto)

    def run(feeds):
        answers, wrong = sized_answers(imported, feeds, {})
        assert not any(map(int, wrong))
        return answers

    return run


def assert_same(run, proto, draws, tolerance=1e-5):
    reference = by_onnxruntime(proto)
    for feeds in draws:
        for found, wanted in zip(run(feeds), reference(feeds), strict=True):
            assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(found, wanted, tolerance, tolerance)


RNG = np.random.default_rng(7)
SHARES = (0, 0.2, 0.5, 0.8, 1)  # of what is kept


def few_numbers(share, shape=(4, 6)):
    """Some zeros, and numbers of which many are equal."""
    return ((RNG.random(shape) < share) * RNG.integers(-2, 3, shape)).astype(F)


def counting_nodes():
    """One of each operator that counts."""
    draws = [
        {
            "x": few_numbers(share),
            "keep": RNG.random(5) < share,
            "k": np.int64([k]),
            "boxes": (RNG.random((2, 9, 4)) * 3).astype(F),
            "scores": RNG.random((2, 2, 9)).round(1).astype(F),
        }
        for share, k in zip(SHARES, (0, 4, 1, 2, 3), strict=True)
    ]
    nodes = [
        node("NonZero", "x", "where"),
        node("Compress", "x keep", "flat"),
        node("Compress", "x keep", "columns", axis=1),
        node("Unique", "x", "u first which counts"),
        node("Unique", "x", "rows row_first row_which row_counts", axis=0, sorted=0),
        node("TopK", "x k", "best best_at", axis=0),
        node("TopK", "x k", "least least_at", axis=1, largest=0),
        node("NonMaxSuppression", "boxes scores k half", "selected", center_point_box=1),
        node("NonMaxSuppression", "boxes scores most half some", "above"),
    ]
    weights = {"half": F([0.5]), "some": F([0.45]), "most": np.int64([3])}
    outputs = [name for each in nodes for name in each.output]
    return model(nodes, draws[0], outputs, weights), draws


def test_operators_that_count():
    proto, draws = counting_nodes()
    assert_same(compiled(proto), proto, draws)


def reading_nodes():
    """What reads results that are counted: the rows of x that are kept, and where they are."""
    draws = [
        {"x": RNG.standard_normal((6, 4)).astype(F), "keep": RNG.random(6) < share}
        for share in SHARES
    ]
    nodes = [
        node("Compress", "x keep", "c", axis=0),
        node("NonZero", "keep", "at"),
        node("Transpose", "at", "rows"),
        node("Squeeze", "at first", "flat"),
        node("Gather", "x flat", "gathered"),
        node("GatherND", "x rows", "gathered_nd"),
        node("GatherElements", "x rows", "gathered_elements"),
        node("ScatterND", "zeros rows c", "scattered_nd"),
        node("Mod", "rows two", "parity"),
        node("ScatterND", "zeros parity c", "added_nd", reduction="add"),
        node("Slice", "c first second second", "column"),
        node("ScatterElements", "zeros rows column", "scattered"),
        node("ScatterElements", "zeros parity column", "added", reduction="add"),
        node("ReduceSum", "c", "sum", keepdims=0),
        node("Neg", "c", "negative"),
        node("Not", "keep", "drop"),
        node("Compress", "x drop", "rest", axis=0),
        node("Concat", "c negative x rest", "joined", axis=0),
        node("OneHot", "flat six switch", "hot"),
        node("Unique", "c", "distinct _1 which", sorted=0),
        node("Relu", "c", "positive"),
        node("NonZero", "positive", "where"),
        node("Shape", "c", "shape"),
        node("Slice", "shape first second", "n"),
        node("Min", "n two", "k"),
        node("TopK", "c k", "least least_at", axis=0, largest=0),
        node("TopK", "c n", "ordered ordered_at", axis=0),
        node("Squeeze", "n", "count"),
        node("Range", "zero count one", "numbers"),
        node("Squeeze", "k", "few"),
        node("Range", "zero few one", "few_numbers"),
        node("Slice", "c first k", "head"),
        node("Slice", "c minus two first second", "reversed"),
        node("Slice", "c second n", "tail"),
        node("ConstantOfShape", "shape", "nothing"),
        node("Add", "c nothing", "same"),
        node("Greater", "c nothing", "above"),
        node("Where", "above c nothing", "chosen"),
        node("Expand", "numbers_of_one shape", "spread"),
        node("Abs", "c", "low"),
        node("Slice", "low first two second", "corner"),
        node("Slice", "low two four second", "size"),
        node("Add", "corner size", "corner_2"),
        node("Concat", "corner corner_2", "regions", axis=1),
        node("Compress", "image_of keep", "image", axis=0),
        node("RoiAlign", "images regions image", "aligned", output_height=2, output_width=2,
             sampling_ratio=2),
    ]  # fmt: skip
    weights = {
        "first": np.int64([0]), "second": np.int64([1]), "two": np.int64([2]),
        "four": np.int64([4]), "six": np.int64([6]), "switch": F([0, 1]),
        "zero": np.int64(0), "one": np.int64(1), "minus": np.int64([-1]),
        "zeros": np.zeros((6, 4), F),
        "numbers_of_one": F([[3, 4, 5, 6]]), "image_of": np.int64([0, 1, 0, 1, 0, 1]),
        "images": RNG.random((2, 3, 5, 5)).astype(F),
    }  # fmt: skip
    outputs = [name for each in nodes for name in each.output if name != "_1"]
    return model(nodes, draws[0], outputs, weights), draws


def test_nothing_depends_on_what_is_not_there():
    proto, draws = reading_nodes()
    assert_same(in_poison(proto), proto, draws)


def one_stage(batches, classes, n):
    """As SSD: boxes are decoded, the best of each class selected; [batch, class, score, box]."""
    centres, sizes = RNG.random((n, 2)), RNG.random((n, 2)) / 3 + 0.05
    nodes = [
        node("Slice", "loc n0 n2 n2", "moves"),
        node("Slice", "loc n2 n4 n2", "growth"),
        node("Mul", "moves variance", "moves_1"),
        node("Mul", "moves_1 sizes", "moves_2"),
        node("Add", "moves_2 centres", "middle"),
        node("Exp", "growth", "growth_1"),
        node("Mul", "growth_1 halves", "half"),
        node("Sub", "middle half", "low"),
        node("Add", "middle half", "high"),
        node("Concat", "low high", "boxes", axis=2),
        node("Softmax", "logits", "scores", axis=1),
        node("NonMaxSuppression", "boxes scores most overlap least", "selected"),
        node("Gather", "selected batch_and_box", "at", axis=1),
        node("GatherND", "boxes at", "found"),
        node("GatherND", "scores selected", "score"),
        node("Unsqueeze", "score n1", "score_1"),
        node("Cast", "selected", "numbers", to=TensorProto.FLOAT),
        node("Slice", "numbers n0 n2 n1", "labels"),
        node("Concat", "labels score_1 found", "detections", axis=1),
        node("Shape", "detections", "shape"),
    ]
    weights = {f"n{i}": np.int64([i]) for i in (0, 1, 2, 4)}
    weights |= {
        "centres": centres.astype(F), "sizes": sizes.astype(F), "halves": (sizes / 2).astype(F),
        "variance": F(0.1), "most": np.int64([3]), "overlap": F([0.45]), "least": F([0.6]),
        "batch_and_box": np.int64([0, 2]),
    }  # fmt: skip
    draws = [
        {
            "loc": RNG.standard_normal((batches, n, 4)).astype(F),
            "logits": (RNG.standard_normal((batches, classes, n)) * sharp).astype(F),
        }
        for sharp in (0, 1, 2, 4)
    ]
    return model(nodes, draws[0], ["detections", "shape"], weights), draws


def two_stages(n, before, after):
    """As Faster R-CNN: the best proposals are selected, and a head looks at each of them."""
    corners = RNG.random((n, 2)) * 20
    nodes = [
        node("Sigmoid", "logits", "scores"),
        node("Greater", "scores least", "keep"),
        node("Compress", "scores keep", "scores_1", axis=0),
        node("Add", "anchors deltas", "boxes"),
        node("Compress", "boxes keep", "boxes_1", axis=0),
        node("Shape", "scores_1", "n"),
        node("Min", "n before", "k"),
        node("TopK", "scores_1 k", "best best_at", axis=0),
        node("Gather", "boxes_1 best_at", "boxes_2", axis=0),
        node("Unsqueeze", "boxes_2 first", "batch_of_boxes"),
        node("Unsqueeze", "best both", "batch_of_scores"),
        node("NonMaxSuppression", "batch_of_boxes batch_of_scores after overlap", "selected"),
        node("Gather", "selected box", "at", axis=1),
        node("Gather", "boxes_2 at", "proposals", axis=0),
        node("Shape", "at", "count"),
        node("ConstantOfShape", "count", "image", value=numpy_helper.from_array(np.int64([0]))),
        node("RoiAlign", "features proposals image", "regions", output_height=2, output_width=2,
             sampling_ratio=2, spatial_scale=0.25),
        node("Reshape", "regions rows", "row"),
        node("MatMul", "row weights", "classes"),
        node("Softmax", "classes", "probabilities", axis=1),
        node("ArgMax", "probabilities", "labels", axis=1, keepdims=0),
    ]  # fmt: skip
    weights = {
        "anchors": np.concatenate([corners, corners + RNG.random((n, 2)) * 12 + 2], 1).astype(F),
        "least": F(0.3), "before": np.int64([before]), "after": np.int64([after]),
        "overlap": F([0.5]), "first": np.int64([0]), "both": np.int64([0, 1]), "box": np.int64(2),
        "rows": np.int64([-1, 12]), "weights": RNG.standard_normal((12, 5)).astype(F),
    }  # fmt: skip
    draws = [
        {
            "logits": (RNG.standard_normal(n) * wide - shift).astype(F),
            "deltas": RNG.standard_normal((n, 4)).astype(F),
            "features": RNG.standard_normal((1, 3, 9, 9)).astype(F),
        }
        for wide, shift in ((0, 0), (0, 5), (1, 1), (2, 1), (1, 2), (1, 3))
    ]
    return model(nodes, draws[0], ["proposals", "probabilities", "labels"], weights), draws


def test_a_detector_of_one_stage():
    proto, draws = one_stage(2, 2, 30)
    assert_same(in_poison(proto), proto, draws)


def test_a_detector_of_two_stages():
    proto, draws = two_stages(40, 16, 6)
    assert_same(compiled(proto), proto, draws, 1e-4)


FOUND = model([node("NonZero", "x", "where"), node("Shape", "where", "shape")],
              {"x": np.zeros((3, 4), F)}, ["where", "shape"])  # fmt: skip


@pytest.mark.parametrize("target", ["cpu", "cuda:emulated"])
def test_a_bound_makes_room_and_what_exceeds_it_is_named(target):
    made = rcompiler.compile_onnx(FOUND, target=target, eus=2, cache=False, bounds={"where": 3})
    assert made.outputs[0].shape == (2, 3)
    x = np.zeros((3, 4), F)
    for count in range(4):
        x.reshape(-1)[7 : 7 + count] = -1
        where, shape = made(x)
        np.testing.assert_array_equal(where, np.nonzero(x))
        np.testing.assert_array_equal(shape, where.shape)
    x[:2] = 2
    with pytest.raises(RangeError, match=r"NonZero 'make_where' found 10 .* the 3 .* 'where'"):
        made(x)


def test_bounds_that_are_none():
    for bounds, error in (
        ({"x": 3}, ShapeError), ({"where": -1}, CompilerError), ({"where": 1.5}, CompilerError),
        ({"where": True}, CompilerError), (["where"], CompilerError), ({3: 3}, CompilerError),
    ):  # fmt: skip
        with pytest.raises(error, match="bounds"):
            rcompiler.compile_onnx(FOUND, cache=False, bounds=bounds)


def test_more_is_asked_for_than_there_is():
    x = np.arange(4, dtype=F)
    feeds = {"x": x, "keep": np.ones(6, bool), "k": np.int64([1])}
    nodes = [
        node("Compress", "x keep", "c", axis=0),
        node("TopK", "c k", "best _"),
        node("TopK", "x k", "own __"),
    ]
    run = compiled(model(nodes, feeds, ["c", "best", "own"]))

    def asked(keep, k):
        kept = np.zeros(6, bool)
        kept[: len(keep)] = keep
        return run({"x": x, "keep": kept, "k": np.int64([k])})

    assert [each.tolist() for each in asked([1, 0, 1], 2)] == [[0, 2], [2, 0], [3, 2]]
    with pytest.raises(RangeError, match="'make_best' is asked for 3 elements"):
        asked([1, 0, 1], 3)
    with pytest.raises(RangeError, match="'k' has the index -1; TopK 'make_own' reads from 0 to 4"):
        asked([1, 0, 1], -1)
    with pytest.raises(RangeError, match="'make_c' was given the index 5"):
        asked([0, 0, 0, 0, 0, 1], 0)


def test_slices_with_computed_ends_are_those_of_python():
    feeds = {
        "x": np.arange(30, dtype=F).reshape(5, 6),
        "at": np.int64([0, 0]),
        "to": np.int64([0, 0]),
    }
    nodes = [node("Slice", "x at to axes steps", "y"), node("Slice", "x at to", "z")]
    run = compiled(model(nodes, feeds, ["y", "z"], {"axes": [1, 0], "steps": [-2, 3]}))
    rng = np.random.default_rng(3)
    for _ in range(30):
        (i, j), (k, m) = feeds["at"], feeds["to"] = rng.integers(-9, 10, (2, 2))
        y, z = run(feeds)
        np.testing.assert_array_equal(y, feeds["x"][j:m:3, i:k:-2])
        np.testing.assert_array_equal(z, feeds["x"][i:k, j:m])


def test_a_range_has_the_bound_that_is_given():
    nodes = [node("Range", "start limit delta", "y")]
    feeds = {"start": F(0), "limit": F(3), "delta": F(1)}
    proto = model(nodes, feeds, ["y"])
    with pytest.raises(UnsupportedOp, match=r"bounds=\{'y': \.\.\.\}"):
        import_onnx(proto)
    run = compiled(proto, bounds={"y": 8})
    for numbers in ((0, 3, 1), (1, -1, -0.25), (2, 2, 1), (0, 1, -1), (0.5, 3.9, 0.5)):
        (y,) = run(dict(zip(feeds, map(F, numbers), strict=True)))
        np.testing.assert_array_equal(y, np.arange(*numbers, dtype=F))
    for numbers, reason in (((0, 9, 1), "found 9 elements"), ((0, 1, 0), "a delta of zero")):
        with pytest.raises(RangeError, match=f"Range 'make_y' .*{reason}"):
            run(dict(zip(feeds, map(F, numbers), strict=True)))


BOXES = {"x": np.zeros((1, 5, 4), F), "s": np.zeros((1, 2, 5), F), "m": np.int64([1])}
MASK = {"x": np.zeros((4, 2), F), "a": np.zeros(4, bool), "b": np.zeros(4, bool)}
REFUSED = {
    "batches": ([node("NonMaxSuppression", "x s m", "y")], {**BOXES, "s": np.zeros((2, 2, 5), F)},
                ShapeError, "boxes are"),
    "corners": ([node("NonMaxSuppression", "x s m", "y")], {**BOXES, "x": np.zeros((1, 5, 3), F)},
                ShapeError, "boxes are"),
    "numbers": ([node("NonMaxSuppression", "x s m", "y")], {**BOXES, "m": np.int64([1, 2])},
                ShapeError, "input 2 is not one int64"),
    "condition": ([node("Compress", "x a", "y", axis=0)], {**MASK, "a": np.zeros((4, 1), bool)},
                  ShapeError, "one dimension"),
    "k": ([node("TopK", "x k", "y z", axis=0)], {**MASK, "k": np.int64([1, 1])},
          ShapeError, "k is one int64"),
    "two counts": ([node("Compress", "x a", "u", axis=0), node("NonZero", "b", "n"),
                    node("Transpose", "n", "t"), node("ScatterND", "x t u", "y")], MASK,
                   UnsupportedOp, "'make_y' .*n positions are given u updates"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    nodes, feeds, error, reason = REFUSED[name]
    with pytest.raises(error, match=reason):
        import_onnx(model(nodes, feeds, ["y"]))
