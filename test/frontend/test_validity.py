"""What onnx.checker refuses and other runtimes read: right here, too; what is wrong is refused."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper, parser

import rcompiler
from rcompiler.errors import InvalidModel
from rcompiler.frontend import import_onnx

_SHAPE = [2, 4, 3]
_NODE = helper.make_node
_Y = helper.make_tensor_value_info("y", TensorProto.FLOAT, _SHAPE)
_UNTYPED = helper.make_empty_tensor_value_info("y")


def model(
    node: NodeProto,
    weights: Sequence[Any] = (),
    output: ValueInfoProto = _Y,
    opsets: Sequence[tuple[str, int]] = (("", 17),),
    ir: int = 8,
    name: str = "g",
) -> ModelProto:
    """One node from x to y; weights: arrays, which are "w0", "w1" and so on."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, _SHAPE)]
    tensors = [numpy_helper.from_array(np.float32(w), f"w{k}") for k, w in enumerate(weights)]
    graph = helper.make_graph([node], "g", inputs, [output], tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid(*each) for each in opsets])
    made.ir_version, made.graph.name = ir, name
    return made


def named_twice() -> ModelProto:
    made = model(_NODE("Mul", ["x", "w0"], ["y"]), [[1, 2, 3], [4, 5, 6]])
    made.graph.initializer[1].name = "w0"
    return made


_GROUPS = _NODE("GroupNormalization", ["x", "w0", "w1"], ["y"], num_groups=2)
_RELU = _NODE("Relu", ["x"], ["y"])
LENIENT = {
    "an output without a type": model(_RELU, output=_UNTYPED),
    "a graph without a name": model(_RELU, name=""),
    "a weight that is no input": model(
        _NODE("Mul", ["x", "w0"], ["y"]), [[1, 2, 3]], opsets=[("", 8)], ir=3
    ),
    "two weights of one name": named_twice(),
    "a domain that is not imported": model(
        _NODE("Gelu", ["x"], ["y"], domain="com.microsoft"),
    ),
    "the domain ai.onnx": model(_NODE("Relu", ["x"], ["y"], domain="ai.onnx")),
    "ai.onnx is imported": model(_RELU, opsets=[("ai.onnx", 17)]),
    "a scale for each group": model(_GROUPS, [[1, 2], [0, 3]], opsets=[("", 18)]),
    "thresholds before opset 10": model(
        _NODE("ThresholdedRelu", ["x"], ["y"], alpha=0.5), opsets=[("", 9)], ir=4
    ),
}


@pytest.mark.parametrize("case", LENIENT)
def test_what_other_runtimes_read_is_read(case: str):
    data = LENIENT[case].SerializeToString()
    x = np.random.default_rng(0).standard_normal(_SHAPE).astype(np.float32)
    [wanted] = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(
        None, {"x": x}
    )
    [found] = rcompiler.InferenceSession(data).run(None, {"x": x})
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-5)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (model(_NODE("Relu", ["x", "x"], ["y"])), "Relu"),
        (model(_NODE("Relu", ["z"], ["y"])), "z"),
        (model(_NODE("GroupNormalization", ["x", "x", "x"], ["y"])), "GroupNormalization"),
        (model(_NODE("NoSuchOperator", ["x"], ["y"])), "NoSuchOperator"),
    ],
    ids=["an input too many", "what nobody makes", "an attribute is missing", "no operator"],
)
def test_what_is_wrong_is_refused(wrong: ModelProto, says: str):
    with pytest.raises(rcompiler.CompilerError, match=says) as refused:
        rcompiler.compile_onnx(wrong)
    assert isinstance(refused.value, InvalidModel) or "not translated" in str(refused.value)


@pytest.mark.parametrize("where", ["zimport", "znode", "zname", "zlocal", "zbody"])
def test_names_that_are_no_text_are_refused_before_they_are_read(where):
    """Of imports, nodes, inputs and functions, each of which some reader of a message stops at."""
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21, "zimport": 1, "zlocal": 1]> '
        "g (float[4] zname) => (float[4] y) { a = znode.Own(zname) y = zlocal.f(a) }"
        '<domain: "zlocal", opset_import: ["": 21]> f (zbody) => (b) { b = Relu(zbody) }'
    )
    data = model.SerializeToString().replace(where.encode(), b"\xc7" * len(where))
    with pytest.raises(InvalidModel, match="is not UTF-8 text"):
        import_onnx(data)
