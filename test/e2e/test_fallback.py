"""Functions of numpy that stand for operators which are refused: compiled parts around them."""

import copy
import pickle

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import rcompiler
from rcompiler import Fallback
from rcompiler.composite_model import CompositeModel
from rcompiler.errors import (
    ArtifactError,
    CompilerError,
    DeviceError,
    FallbackError,
    RangeError,
    ShapeError,
    UnsupportedOp,
)
from rcompiler.runtime import container

F, I64 = TensorProto.FLOAT, TensorProto.INT64
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("com.example", 1)]


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("RC_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))


def info(name, shape=None, element=F):
    return helper.make_tensor_value_info(name, element, shape)


def own(inputs, outputs, op="Scaled", name="", **attributes):
    """A node that no compiler knows."""
    return helper.make_node(
        op, inputs, outputs, name=name or op.lower(), domain="com.example", **attributes
    )


def model(nodes, inputs, outputs, weights=(), value_info=(), opsets=OPSETS):
    graph = helper.make_graph(
        nodes, "g", inputs, outputs,
        [numpy_helper.from_array(array, name) for name, array in weights], value_info=value_info,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def scaled(x, by=1.0):
    return x * np.float32(by)


def between(shape=(4, 3), **kinds):
    """y = relu(scaled(x @ w)) + x @ w."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        own(["h"], ["s"], by=2.0),
        helper.make_node("Relu", ["s"], ["r"]),
        helper.make_node("Add", ["r", "h"], ["y"]),
    ]
    return model(nodes, [info("x", shape)], [info("y")], [("w", W)], **kinds)


W = np.arange(15, dtype=np.float32).reshape(3, 5) - 7
Y = np.maximum(2 * (X @ W), 0) + X @ W


def test_a_node_is_a_function_between_two_parts():
    calls = []

    def fn(x, by):
        calls.append((x.shape, x.dtype, by, x.flags.writeable))
        return scaled(x, by)

    compiled = rcompiler.compile_onnx(between(), fallback={"com.example::Scaled": fn}, eus=1)
    assert isinstance(compiled, CompositeModel) and len(compiled.parts) == 2
    for y in (*compiled(X), *compiled({"x": X}), *compiled(x=X)):
        np.testing.assert_allclose(y, Y, rtol=1e-5, atol=1e-5)
    assert compiled(X)["y"].flags.writeable
    assert calls[0] == ((4, 5), np.float32, 2.0, False) and len(calls) == 5  # one on zeros
    note = compiled.report().note
    assert "node 'scaled' (com.example::Scaled) is computed by a function of Python" in note
    assert {op.name for op in compiled.report().operators} >= {"MatMul"} or compiled.report().eus
    assert "com.example::Scaled" in repr(compiled)


def test_the_name_of_the_operator_alone_will_do_and_the_full_one_comes_first():
    fallback = {"Scaled": lambda x, by: x * 0, "com.example::Scaled": scaled}
    for given in ({"Scaled": scaled}, fallback):
        [y] = rcompiler.compile_onnx(between(), fallback=given)(X)
        np.testing.assert_allclose(y, Y, rtol=1e-5, atol=1e-5)


def test_an_operator_that_onnx_does_not_know_needs_no_domain():
    nodes = [helper.make_node("Halved", ["x"], ["h"]), helper.make_node("Neg", ["h"], ["y"])]
    made = model(nodes, [info("x", (2,))], [info("y")])
    [y] = rcompiler.compile_onnx(made, fallback={"Halved": lambda x: x / 2})(np.float32([2, 4]))
    assert y.tolist() == [-1, -2]


def test_what_can_be_compiled_is_compiled():
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    made = model(nodes, [info("x", (4, 3))], [info("y")])

    def never(x):
        raise AssertionError

    compiled = rcompiler.compile_onnx(made, fallback={"Relu": never})
    assert not isinstance(compiled, CompositeModel)
    np.testing.assert_array_equal(compiled(X)[0], np.maximum(X, 0))


def test_a_form_of_a_known_operator_that_is_not_translated():
    """How often a tensor is repeated decides the shape of the result: here always twice."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Tile", ["r", "often"], ["t"], name="often"),
        helper.make_node("Neg", ["t"], ["y"]),
    ]
    often = helper.make_tensor_value_info("often", TensorProto.INT64, [2])
    made = model(nodes, [info("x", (2, 3)), often], [info("y")])
    twice = Fallback(np.tile, lambda x, often: [(4, 3)], ["float32"])
    compiled = rcompiler.compile_onnx(made, fallback={"Tile": twice})
    x = np.float32([[-1, 2, -3], [4, -5, -6]])
    np.testing.assert_array_equal(
        compiled(x, np.array([2, 1]))[0], np.tile(-np.maximum(x, 0), (2, 1))
    )
    with pytest.raises(FallbackError, match=r"'often' \(Tile\): result 0 .* float32\[2, 3\]"):
        compiled(x, np.array([1, 1]))


@pytest.mark.parametrize("shape", [(4, 3), None])
def test_results_are_as_they_are_declared_promised_or_tried(shape):
    """Three sources, none of which needs the others."""
    calls = []

    def fn(x, by):
        calls.append(x)
        return scaled(x, by)

    sources = {
        "declared": (between(value_info=[info("s", (4, 5))]), fn),
        "promised": (between(), Fallback(fn, [(4, 5)])),
        "computed": (between(), Fallback(fn, lambda x, by: [x], ["float32"])),
        "tried": (between(), fn),
    }
    for name, (made, fallback) in sources.items():
        calls.clear()
        compiled = rcompiler.compile_onnx(made, fallback={"Scaled": fallback}, cache=False, eus=1)
        assert len(calls) == (name == "tried")
        np.testing.assert_allclose(compiled(X)[0], Y, rtol=1e-5, atol=1e-5)


def test_shapes_that_are_computed_stay_constants_behind_it():
    """y = reshape(scaled(x), shape(x)[1], -1), weights and their scales on both sides."""
    nodes = [
        helper.make_node("Shape", ["x"], ["dims"]),
        helper.make_node("Gather", ["dims", "one"], ["rows"]),
        helper.make_node("Concat", ["rows", "rest"], ["target"], axis=0),
        helper.make_node("Neg", ["w"], ["v"]),
        helper.make_node("MatMul", ["x", "v"], ["h"]),
        own(["h"], ["s"], by=3.0),
        helper.make_node("Reshape", ["s", "target"], ["t"]),
        helper.make_node("MatMul", ["t", "t2"], ["m"]),
        helper.make_node("MatMul", ["x", "v"], ["y2"]),
        helper.make_node("Identity", ["m"], ["y"]),
    ]
    weights = [("one", np.int64([1])), ("rest", np.int64([-1])),
               ("w", np.ones((4, 5), np.float32)), ("t2", np.ones((5, 2), np.float32))]  # fmt: skip
    made = model(nodes, [info("x", ("n", 4))], [info("y"), info("y2")], weights)
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    compiled = rcompiler.compile_onnx(made, fallback={"Scaled": scaled}, shapes={"n": 4})
    y, y2 = compiled(x)
    h = x @ -np.ones((4, 5), np.float32)
    np.testing.assert_allclose(y, (3 * h).reshape(4, -1) @ np.ones((5, 2)), rtol=1e-5)
    np.testing.assert_allclose(y2, h, rtol=1e-5)


def test_several_functions_in_a_row_and_beside_each_other():
    nodes = [
        own(["x"], ["a"], by=2.0, name="first"),
        own(["a"], ["b"], by=3.0, name="second"),
        own(["x"], ["c"], "Split2", name="two"),
        helper.make_node("Add", ["b", "c1"], ["y"]),
    ]
    nodes[2].output[:] = ["c1", ""]
    made = model(nodes, [info("x", (4, 3))], [info("y"), info("a")])
    fallback = {"Scaled": scaled, "Split2": lambda x: (x + 1, x - 1)}
    compiled = rcompiler.compile_onnx(made, fallback=fallback)
    assert len(compiled.parts) == 1
    y, a = compiled(X)
    np.testing.assert_allclose(y, 6 * X + X + 1, rtol=1e-6)
    np.testing.assert_array_equal(a, 2 * X)


def test_operands_that_are_left_out_constants_and_attributes():
    seen = []

    def fn(*operands, **attributes):
        seen[:] = [operands, attributes]
        return operands[0]

    table = np.float32([1, 2])
    node = own(
        ["x", "", "k"], ["y"], "Much", numbers=[1, 2], factor=0.5, factors=[0.1, 0.2],
        text="abc", texts=["a", "b"], table=numpy_helper.from_array(table),
    )  # fmt: skip
    made = model([node], [info("x", (4, 3))], [info("y")], [("k", np.int64([3, 4]))])
    compiled = rcompiler.compile_onnx(made, fallback={"Much": fn})
    assert compiled.parts == ()
    [y] = compiled(X)
    (x, none, k), attributes = seen
    assert none is None and k.tolist() == [3, 4] and not x.flags.writeable
    assert attributes.pop("table").tolist() == [1, 2]
    assert attributes["numbers"] == [1, 2] and attributes["factor"] == 0.5
    assert attributes["text"] == "abc" and attributes["texts"] == ["a", "b"]
    y += 1  # is the caller's, though the function returned what it was given
    np.testing.assert_array_equal(compiled(X)[0], X)


def test_a_saved_model_asks_for_its_functions(tmp_path):
    path = tmp_path / "m.rcx"
    rcompiler.compile_onnx(between(), fallback={"Scaled": scaled}, eus=1).save(path)
    with pytest.raises(ArtifactError, match=r"fallback={'com.example::Scaled': function}"):
        rcompiler.load(path)
    with pytest.raises(FallbackError, match="no function for the operator 'com.example::Scaled'"):
        rcompiler.load(path, fallback={"Other": scaled})
    loaded = rcompiler.load(path, fallback={"com.example::Scaled": scaled}, eus=1)
    np.testing.assert_allclose(loaded(X)[0], Y, rtol=1e-5, atol=1e-5)
    again = tmp_path / "again.rcx"
    loaded.save(again)
    assert again.read_bytes() == path.read_bytes()
    assert loaded.report().note and loaded.parts[0].stage("schedule")
    with pytest.raises(CompilerError, match="2 parts"):
        loaded.stage("schedule")
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(bytes(damaged))
    with pytest.raises(ArtifactError):
        rcompiler.load(path, fallback={"Scaled": scaled})


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.update(steps=7),
        lambda header: header["steps"][0].update(part=9),
        lambda header: header["steps"][0].update(reads=[]),
        lambda header: header["steps"][0].update(reads=["nothing"]),
        lambda header: header["steps"][1].update(results=[["s", [-1], "float32"]]),
        lambda header: header["steps"][1].update(results=[["s", [9, 5], "float32"]]),
        lambda header: header["steps"][1].update(attributes={"by": {"float": "x"}}),
        lambda header: header["steps"][1].update(attributes={"by": {"array": [3, [1], "int8"]}}),
        lambda header: header["steps"].pop(),
        lambda header: header.update(constants={"k": [0, [1], "no type"]}),
        lambda header: header.pop("inputs"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(tmp_path, change):
    """Its sums are right: somebody has written it so."""
    path = tmp_path / "m.rcx"
    rcompiler.compile_onnx(between(), fallback={"Scaled": scaled}, eus=1).save(path)
    header, sections = container.read(path, mapped=False)
    header.pop("sections")
    change(header)
    container.write(path, header, sections)
    for options in ({"fallback": {"Scaled": scaled}}, {}):
        with pytest.raises(ArtifactError):
            rcompiler.load(path, **options)


def test_a_model_without_functions_loads_with_some(tmp_path):
    made = model([helper.make_node("Relu", ["x"], ["y"])], [info("x", (4, 3))], [info("y")])
    rcompiler.compile_onnx(made).save(tmp_path / "m.rcx")
    loaded = rcompiler.load(tmp_path / "m.rcx", fallback={"Scaled": scaled})
    np.testing.assert_array_equal(loaded(X)[0], np.maximum(X, 0))


def test_models_with_functions_are_bound_closed_copied_and_run_as_sessions():
    session = rcompiler.InferenceSession(
        between(("n", 3)).SerializeToString(), fallback={"Scaled": scaled}
    )
    for rows in (4, 2):
        [y] = session.run(None, {"x": X[:rows]})
        np.testing.assert_allclose(y, Y[:rows], rtol=1e-5, atol=1e-5)
    bound = session.io_binding()
    bound.bind_cpu_input("x", X)
    bound.bind_output("y")
    session.run_with_iobinding(bound)
    np.testing.assert_allclose(bound.copy_outputs_to_cpu()[0], Y, rtol=1e-5, atol=1e-5)
    with rcompiler.compile_onnx(between(), fallback={"Scaled": scaled}) as compiled:
        for other in (copy.copy(compiled), pickle.loads(pickle.dumps(compiled))):
            np.testing.assert_allclose(other(X)[0], Y, rtol=1e-5, atol=1e-5)
        binding = compiled.bind(outputs=[np.zeros((4, 5), np.float32)])
        binding.inputs[0][...] = X
        binding()
        np.testing.assert_allclose(binding.outputs[0], Y, rtol=1e-5, atol=1e-5)
        with pytest.raises(ShapeError):
            compiled.bind(inputs=[X[:2]])
    with pytest.raises(DeviceError, match="closed"):
        compiled(X)


def test_indices_of_a_function_are_looked_at():
    nodes = [own(["x"], ["i"], "Chosen"), helper.make_node("Gather", ["t", "i"], ["y"])]
    made = model(nodes, [info("x", (2,))], [info("y")], [("t", np.float32([1, 2, 3]))])
    fallback = {"Chosen": lambda x: x.astype(np.int64)}
    compiled = rcompiler.compile_onnx(made, fallback=fallback)
    assert compiled(np.float32([2, 0]))[0].tolist() == [3, 1]
    with pytest.raises(RangeError):
        compiled(np.float32([2, 3]))


def test_quantised_weights_behind_a_function_stay_bytes():
    """Constants are in the part that reads them as the model has them: dequantised there."""
    scale, zero = np.float32(0.1), np.int8(0)
    nodes = [
        own(["x"], ["s"], by=1.0),
        helper.make_node("QuantizeLinear", ["s", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node("DequantizeLinear", ["wq", "scale", "zero"], ["w"]),
        helper.make_node("MatMul", ["d", "w"], ["y"]),
    ]
    weights = [("scale", scale), ("zero", zero), ("wq", W.astype(np.int8))]
    made = model(nodes, [info("x", (4, 3))], [info("y")], weights)
    compiled = rcompiler.compile_onnx(made, fallback={"Scaled": scaled})
    [part] = compiled.parts
    assert "i8" in part.stage("linalg") and "i32" in part.stage("linalg")
    [y] = compiled(X)
    q = np.clip(np.round(X / scale), -128, 127) * scale
    np.testing.assert_allclose(y, q @ (W * scale), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda x, by: (x, x), "returned 2 results, the node has 1"),
        (lambda x, by: 1 / 0, "raised ZeroDivisionError: .* promise them instead"),
        (lambda x: x, "raised TypeError"),
        (Fallback(scaled, [(4, 5), (4, 5)]), "has 1 results; its Fallback has 2 shapes"),
        (Fallback(scaled, [(4, 5)], ["float32", "int8"]), "2 dtypes"),
    ],
)
def test_functions_that_do_not_fit_are_refused_when_the_model_is_compiled(fn, message):
    with pytest.raises(FallbackError, match=message):
        rcompiler.compile_onnx(between(), fallback={"Scaled": fn})


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda x, by: x[:2], r"result 0 .* float32\[2, 5\], but float32\[4, 5\] was promised"),
        (lambda x, by: x.astype(np.float64), r"float64\[4, 5\], but float32"),
        (lambda x, by: 1 / 0, "raised ZeroDivisionError: division by zero"),
        (lambda x, by: x.fill(0), "raised ValueError"),
    ],
)
def test_what_was_promised_is_kept(fn, message):
    compiled = rcompiler.compile_onnx(between(), fallback={"Scaled": Fallback(fn, [(4, 5)])})
    with pytest.raises(FallbackError, match=message) as caught:
        compiled(X)
    assert "node 'scaled' (com.example::Scaled)" in str(caught.value)


@pytest.mark.parametrize("fallback", [7, [scaled], {"Scaled": 7}, {7: scaled}])
def test_what_is_no_function_is_refused(fallback):
    with pytest.raises(FallbackError):
        rcompiler.compile_onnx(between(), fallback=fallback)


def test_other_nodes_are_refused_as_before():
    with pytest.raises(UnsupportedOp, match="scaled"):
        rcompiler.compile_onnx(between(), fallback={"Other": scaled})


def test_a_node_in_a_body_is_refused_with_the_remedy():
    body = [
        helper.make_graph([own(["x"], ["b"], by=2.0)], name, [], [info("b", (4, 3))])
        for name in ("then", "else")
    ]
    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=body[0], else_branch=body[1], name="if")
    ]
    made = model(nodes, [info("x", (4, 3))], [info("y")], [("c", np.array(True))])
    with pytest.raises(UnsupportedOp, match="take it out of the body"):
        rcompiler.compile_onnx(made, fallback={"Scaled": scaled})


def test_a_function_of_the_model_is_one_call():
    function = helper.make_function(
        "com.example", "Both", ["a"], ["b"],
        [own(["a"], ["t"], by=2.0), helper.make_node("Neg", ["t"], ["b"])], OPSETS,
    )  # fmt: skip
    made = model(
        [helper.make_node("Both", ["x"], ["y"], domain="com.example", name="both")],
        [info("x", (4, 3))], [info("y")],
    )  # fmt: skip
    made.functions.append(function)
    [y] = rcompiler.compile_onnx(made, fallback={"Both": lambda a: -2 * a})(X)
    np.testing.assert_array_equal(y, -2 * X)


def test_the_same_as_onnxruntime_around_a_known_operator():
    """Whose results are promised: zeros have no inverse."""
    node = helper.make_node("Inverse", ["h"], ["i"], domain="com.microsoft", name="inverse")
    nodes = [
        helper.make_node("Add", ["x", "e"], ["h"]),
        node,
        helper.make_node("MatMul", ["i", "x"], ["y"]),
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    eye = 4 * np.eye(3, dtype=np.float32)
    made = model(nodes, [info("x", (3, 3))], [info("y", (3, 3))], [("e", eye)], opsets=opsets)
    made.ir_version = 8
    inverse = Fallback(np.linalg.inv, lambda shape: [shape])
    compiled = rcompiler.compile_onnx(made, fallback={"com.microsoft::Inverse": inverse})
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    [expected] = session.run(None, {"x": X[:3]})
    np.testing.assert_allclose(compiled(X[:3])[0], expected, rtol=1e-4, atol=1e-5)
    onnx.checker.check_model(made)
