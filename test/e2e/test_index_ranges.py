"""Indices that callers give: what leads out of a tensor is refused, at no cost for kernels."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import rcompiler
from rcompiler.errors import RangeError, ShapeError

TABLE = np.arange(20, dtype=np.float32).reshape(5, 4)


def model(nodes, ids, **weights):
    """ids -> y."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ids)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def gather(op="Gather", **attributes):
    return helper.make_node(op, ["table", "ids"], ["y"], name="look", **attributes)


CASES = {
    "Gather": ([gather()], (2, 3), 5),
    "of columns": ([gather(axis=1)], (3,), 4),
    "GatherElements": ([gather("GatherElements")], (2, 4), 5),
    "GatherND": ([gather("GatherND")], (2, 1), 5),
    "ScatterElements": (
        [
            helper.make_node("Cast", ["ids"], ["u"], to=TensorProto.FLOAT),
            helper.make_node("ScatterElements", ["table", "ids", "u"], ["y"], name="look"),
        ],
        (2, 4),
        5,
    ),
    "of a reshape": (
        [
            helper.make_node("Reshape", ["ids", "six"], ["flat"]),
            helper.make_node("Gather", ["table", "flat"], ["y"], name="look"),
        ],
        (2, 3),
        5,
    ),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    nodes, shape, extent = CASES[request.param]
    proto = model(nodes, shape, table=TABLE, six=np.array([6]))
    return rcompiler.compile_onnx(proto, eus=1), shape, extent


@pytest.mark.parametrize("how", ["call", "binding", "file"])
def test_indices_outside_are_refused_by_node(case, how, tmp_path):
    compiled, shape, extent = case
    if how == "file":
        compiled.save(tmp_path / "m.rcx")
        compiled = rcompiler.load(tmp_path / "m.rcx")
    binding = compiled.bind()

    def run(ids):
        if how != "binding":
            return compiled(ids)
        binding.inputs[0][...] = ids
        binding()
        return None

    ids = np.arange(np.prod(shape)).reshape(shape) % extent
    run(ids)
    run(ids - extent)  # counted from the end
    for wrong in (extent, -extent - 1, 1 << 40, -(1 << 40)):
        bad = ids.copy()
        bad.flat[-1] = wrong
        with pytest.raises(RangeError, match=f"input 'ids' has the index {wrong}; .* 'look' reads"):
            run(bad)
    run(ids)


def of_lengths(op, steps, nodes=(), lens="ids", **weights):
    """A node named `look` over four sequences of so many steps, whose lengths are ids, or made of
    them by other nodes."""
    rng, gates = np.random.default_rng(0), {"LSTM": 4, "GRU": 3, "RNN": 1}.get(op, 0)
    kind = TensorProto.INT64 if op == "ReverseSequence" else TensorProto.INT32
    sizes = {"x": (steps, 4, 3), "w": (1, gates * 2, 3), "r": (1, gates * 2, 2)}
    weights |= {n: rng.standard_normal(s).astype(np.float32) for n, s in sizes.items()}
    operands, attributes = ["x", lens], {"time_axis": 0, "batch_axis": 1}
    if gates:
        operands, attributes = ["x", "w", "r", "", lens], {"hidden_size": 2}
    look = helper.make_node(op, operands, ["y"], name="look", **attributes)
    proto = model([*nodes, look], (4,), **weights)
    proto.graph.input[0].type.tensor_type.elem_type = kind
    return proto, helper.tensor_dtype_to_np_dtype(kind), weights


OF_LENGTHS = ["ReverseSequence", "LSTM", "GRU", "RNN"]


@pytest.mark.parametrize("steps", [3, 20])
@pytest.mark.parametrize("op", OF_LENGTHS)
def test_lengths_that_sequences_do_not_have_are_refused(op, steps):
    proto, kind, weights = of_lengths(op, steps)
    compiled = rcompiler.compile_onnx(proto, eus=1, cache=False)
    (y,) = compiled(np.array([0, 1, steps, steps - 1], kind))
    if op == "ReverseSequence":
        np.testing.assert_array_equal(y[:, 2], weights["x"][::-1, 2])
    else:
        assert not y[:, :, 0].any() and y[:, :, 2].any((1, 2)).all()
    for wrong in (steps + 1, -1, np.iinfo(kind).max, np.iinfo(kind).min):
        said = f"'ids' has the index {wrong}; {op} 'look' reads from 0 to {steps}$"
        with pytest.raises(RangeError, match=said):
            compiled(np.array([0, 1, wrong, 1], kind))


@pytest.mark.parametrize("op", OF_LENGTHS)
def test_constant_lengths_that_sequences_do_not_have_are_refused_while_compiling(op):
    for wrong in (4, -1):
        proto, kind, _ = of_lengths(op, 3, lens="lens")
        lens = numpy_helper.from_array(np.array([3, 3, wrong, 3], kind), "lens")
        proto.graph.initializer.append(lens)
        with pytest.raises(ShapeError, match=f"'look'.* index {wrong} is outside of 0 to 3"):
            rcompiler.compile_onnx(proto, eus=1, cache=False)


@pytest.mark.parametrize("op", OF_LENGTHS)
def test_computed_lengths_that_sequences_do_not_have_are_refused(op):
    less = helper.make_node("Sub", ["ids", "one"], ["lens"])
    proto, kind, _ = of_lengths(op, 3, [less], "lens")
    proto.graph.initializer.append(numpy_helper.from_array(np.array(1, kind), "one"))
    compiled = rcompiler.compile_onnx(proto, eus=1, cache=False)
    compiled(np.array([1, 2, 3, 4], kind))
    for wrong in (4, -1, 1 << 30):
        said = f"{op} 'look' was given the index {wrong}, .* reads from 0 to 3$"
        with pytest.raises(RangeError, match=said):
            compiled(np.array([1, 2, wrong + 1, 4], kind))


def test_of_several_nodes_the_narrowest_counts():
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["a"], name="wide"),
        helper.make_node("Gather", ["short", "ids"], ["b"], name="narrow"),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    compiled = rcompiler.compile_onnx(model(nodes, (2,), table=TABLE, short=TABLE[:3]), eus=1)
    (y,) = compiled(np.array([2, -3]))
    np.testing.assert_array_equal(y, TABLE[[2, 2]] + TABLE[[2, 0]])
    with pytest.raises(RangeError, match="'narrow' reads from -3 to 2"):
        compiled(np.array([2, 3]))


def test_computed_indices_are_not_those_of_the_caller():
    """They may be any number: the model makes it one that is inside."""
    nodes = [
        helper.make_node("Mod", ["ids", "five"], ["at"]),
        helper.make_node("Gather", ["table", "at"], ["y"]),
    ]
    compiled = rcompiler.compile_onnx(model(nodes, (2,), table=TABLE, five=np.array(5)), eus=1)
    np.testing.assert_array_equal(compiled(np.array([1000, 7]))[0], TABLE[[0, 2]])


def test_no_indices_are_fine():
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["none"]),
        helper.make_node("Cast", ["ids"], ["sum"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["sum"], ["zero"], keepdims=0),
        helper.make_node("Concat", ["none", "table"], ["all"], axis=0),
        helper.make_node("Add", ["all", "zero"], ["y"]),
    ]
    compiled = rcompiler.compile_onnx(model(nodes, (0,), table=TABLE), eus=1)
    np.testing.assert_array_equal(compiled(np.empty(0, np.int64))[0], TABLE)
