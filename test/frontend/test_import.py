"""Importing whole models: folding, control flow, errors, gaps."""

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from naive_linalg import Runner

from rcompiler.errors import InvalidModel, ShapeError, UnsupportedOp
from rcompiler.frontend import check, import_onnx

F = TensorProto.FLOAT


@pytest.fixture(scope="module")
def runner():
    made = Runner()
    yield made
    made.close()


def model(nodes, inputs, outputs, initializers=None, opset=21, extra=()):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, F, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, F, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in (initializers or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in extra)]
    return helper.make_model(graph, opset_imports=imports)


node = helper.make_node


def test_shape_computations_vanish():
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Unsqueeze", ["n", "zero1"], ["n1"]),
        node("Concat", ["n1", "rest"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["y"]),
    ]
    consts = {"zero": np.array(0), "zero1": np.array([0]), "rest": np.array([-1])}
    got = import_onnx(model(nodes, {"x": [2, 3, 4]}, ["y"], consts))
    assert got.outputs[0].shape == (2, 12)
    assert "linalg" not in got.module_text and not got.constants


def test_batch_norm_is_folded_into_the_convolution(runner):
    rng = np.random.default_rng(0)
    w = rng.standard_normal((4, 3, 3, 3)).astype("f")
    vectors = {n: rng.random(4).astype("f") + 0.5 for n in "gbmv"}
    nodes = [node("Conv", ["x", "w"], ["c"]), node("BatchNormalization", ["c", *"gbmv"], ["y"])]
    m = model(nodes, {"x": [1, 3, 6, 6]}, ["y"], {"w": w, **vectors})
    got = import_onnx(m)
    assert got.module_text.count("linalg.generic") == 2  # the convolution and its bias
    x = rng.standard_normal((1, 3, 6, 6)).astype("f")
    want = onnx.reference.ReferenceEvaluator(m).run(None, {"x": x})[0]
    (have,) = runner.run(got.module_text, got.constants, [x])
    np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


def test_batch_norm_is_not_folded_when_the_convolution_is_used_twice():
    vectors = {n: np.ones(4, "f") for n in "gbmv"}
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("BatchNormalization", ["c", *"gbmv"], ["y"]),
        node("Relu", ["c"], ["z"]),
    ]
    w = {"w": np.random.rand(4, 3, 3, 3).astype("f")}
    got = import_onnx(model(nodes, {"x": [1, 3, 6, 6]}, ["y", "z"], {**w, **vectors}))
    assert got.module_text.count("arith.mulf") == 2


def test_loops_are_unrolled_and_conditions_followed():
    body = helper.make_graph(
        [node("Add", ["s", "x"], ["t"]), node("Identity", ["c"], ["d"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s", F, [2]),
        ],
        [
            helper.make_tensor_value_info("d", TensorProto.BOOL, []),
            helper.make_tensor_value_info("t", F, [2]),
        ],
    )
    nodes = [node("Loop", ["n", "", "x"], ["y"], body=body)]
    got = import_onnx(model(nodes, {"x": [2]}, ["y"], {"n": np.array(5)}))
    assert got.module_text.count("arith.addf") == 5


def test_models_are_read_from_path_bytes_and_proto(tmp_path):
    m = model([node("Relu", ["x"], ["y"])], {"x": [3]}, ["y"])
    onnx.save(m, tmp_path / "m.onnx")
    path = tmp_path / "m.onnx"
    sources = (m, m.SerializeToString(), path, str(path))
    texts = {import_onnx(source).module_text for source in sources}
    assert len(texts) == 1


def test_external_data(tmp_path):
    w = np.random.rand(100).astype("f")
    m = model([node("Add", ["x", "w"], ["y"])], {"x": [100]}, ["y"], {"w": w})
    onnx.save(
        m, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    (array,) = import_onnx(tmp_path / "m.onnx").constants.values()
    np.testing.assert_array_equal(array, w)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(InvalidModel, match="external data"):
        import_onnx(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: b"not a model", InvalidModel, "model"),
        (lambda: b"", InvalidModel, "graph"),
        (lambda: "/nowhere/x.onnx", InvalidModel, "No such file"),
        (lambda: 3, InvalidModel, "int"),
        (lambda: model([node("Relu", ["q"], ["y"])], {"x": [1]}, ["y"]), InvalidModel, "q"),
        (
            lambda: model(
                [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])], {"x": [1]}, ["b"]
            ),
            InvalidModel,
            "cycle",
        ),
        (lambda: model([node("Nope", ["x"], ["y"])], {"x": [1]}, ["y"]), InvalidModel, "Nope"),
        (
            lambda: model(
                [node("Nope", ["x"], ["y"], domain="me")], {"x": [1]}, ["y"], extra=["me"]
            ),
            UnsupportedOp,
            "me.Nope",
        ),
        (lambda: model([node("Relu", ["x"], ["y"])], {"x": ["n", 2]}, ["y"]), ShapeError, "'n'"),
        (
            lambda: model([node("Relu", ["x"], ["y"])], {"x": [1 << 20, 1 << 20]}, ["y"]),
            ShapeError,
            "GiB",
        ),
        (
            lambda: model([node("Add", ["x", "z"], ["y"])], {"x": [2], "z": [3]}, ["y"]),
            ShapeError,
            "broadcast",
        ),
        (
            lambda: model([node("Softmax", ["x"], ["y"], axis=7)], {"x": [2]}, ["y"]),
            ShapeError,
            "axis 7",
        ),
        (
            lambda: model(
                [node("Expand", ["x", "s"], ["y"])],
                {"x": [1]},
                ["y"],
                {"s": np.array([1 << 40, 1 << 20])},
            ),
            ShapeError,
            "GiB",
        ),
        (
            lambda: model([node("Relu", ["x"], ["y"])], {"x": [1]}, ["y"], opset=999),
            InvalidModel,
            "newer",
        ),
    ],
)
def test_bad_models_are_refused_with_reasons(make, error, words):
    with pytest.raises(error, match=words):
        import_onnx(make())


def test_dynamic_dimensions_are_given_by_input_or_by_symbol():
    m = model([node("Relu", ["x"], ["y"])], {"x": ["n", 2]}, ["y"])
    assert import_onnx(m, {"x": (3, 2)}).outputs[0].shape == (3, 2)
    assert import_onnx(m, {"n": 4}).outputs[0].shape == (4, 2)
    for wrong in ({"x": (3, 5)}, {"x": (3,)}, {"x": (-1, 2)}, {"nope": (1,)}):
        with pytest.raises(ShapeError):
            import_onnx(m, wrong)


def test_run_time_shapes_are_refused_until_their_value_is_given():
    nodes = [node("Cast", ["s"], ["t"], to=TensorProto.INT64), node("Reshape", ["x", "t"], ["y"])]
    m = model(nodes, {"x": [6], "s": [2]}, ["y"])
    with pytest.raises(UnsupportedOp, match="values") as caught:
        import_onnx(m)
    assert caught.value.gap.needs == ("s",)
    got = import_onnx(m, values={"s": np.array([2, 3], "f")})
    assert got.outputs[0].shape == (2, 3)
    assert [spec.name for spec in got.inputs] == ["x"]


def test_check_lists_every_gap():
    nodes = [
        node("Nope", ["x"], ["a"], domain="me"),
        node("Relu", ["a"], ["b"]),
        node("Nope2", ["b"], ["c"], domain="me"),
        node("Bernoulli", ["x"], ["d"], name="dice"),
        node("Add", ["x", "d"], ["y"]),
    ]
    gaps = check(model(nodes, {"x": [2]}, ["c", "y"], extra=["me"]))
    assert {g.op for g in gaps} >= {"me.Nope", "me.Nope2"}
    assert all(g.reason and g.remedy and g.node for g in gaps)
    assert check(model([node("Relu", ["x"], ["y"])], {"x": [2]}, ["y"])) == []


def test_nodes_may_stand_in_any_order_and_the_model_is_not_changed():
    nodes = [node("Relu", ["a"], ["y"]), node("Neg", ["x"], ["a"])]
    made = model(nodes, {"x": [2]}, ["y"])
    before = made.SerializeToString(deterministic=True)
    straight = import_onnx(model(nodes[::-1], {"x": [2]}, ["y"])).module_text
    assert import_onnx(made).module_text == straight
    assert made.SerializeToString(deterministic=True) == before


def test_recursive_functions_are_refused():
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("me", 1)]
    f = helper.make_function(
        "me", "F", ["x"], ["y"], [node("F", ["x"], ["y"], domain="me")], imports
    )
    m = model([node("F", ["x"], ["y"], domain="me")], {"x": [1]}, ["y"], extra=["me"])
    m.functions.append(f)
    with pytest.raises(InvalidModel):
        import_onnx(m)


def test_model_functions_are_expanded():
    imports = [helper.make_opsetid("", 21)]
    f = helper.make_function("me", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])], imports)
    m = model([node("Twice", ["x"], ["y"], domain="me")], {"x": [2]}, ["y"], extra=["me"])
    m.functions.append(f)
    assert "arith.addf" in import_onnx(m).module_text


def test_text_is_deterministic():
    m = model([node("Softmax", ["x"], ["y"])], {"x": [2, 5]}, ["y"])
    assert import_onnx(m).module_text == import_onnx(m).module_text
