"""Which models have results that depend on random numbers."""

import pytest
from onnx import TensorProto, helper

from rcompiler import onnx_backend
from rcompiler.errors import UnsupportedOp
from rcompiler.frontend.randomness import DRAWS, find_draw

node = helper.make_node
F = TensorProto.FLOAT


def model(nodes, functions=(), domains=()):
    """x: float32[2, 3] to y."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", F, [2, 3])],
        [helper.make_tensor_value_info("y", F, None)],
    )
    imports = [helper.make_opsetid("", 21), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, functions=list(functions), opset_imports=imports)


def noise():
    return node("RandomNormal", [], ["r"], name="noise", shape=[2, 3])


def branch(nodes, output):
    return helper.make_graph(nodes, "b", [], [helper.make_tensor_value_info(output, F, None)])


def function(nodes, output="out"):
    return helper.make_function("me", "F", ["a"], [output], nodes, [helper.make_opsetid("", 21)])


DICE = node("Bernoulli", ["a"], ["out"], name="dice")
CALL = node("F", ["x"], ["y"], name="call", domain="me")


@pytest.mark.parametrize("op", sorted(DRAWS))
def test_every_operator_that_draws(op):
    inputs = [] if op in ("RandomNormal", "RandomUniform") else ["x"]
    assert find_draw(model([node(op, inputs, ["y"], name="n")])).node == "n"


@pytest.mark.parametrize(
    "made, where",
    [
        (model([noise(), node("Add", ["x", "r"], ["y"])]), "noise"),
        (model([node("RandomNormal", [], ["y"], shape=[2])]), "RandomNormal_0"),
        (
            model(
                [
                    node("Constant", [], ["c"], value_int=1),
                    node("If", ["c"], ["y"], name="if",
                         then_branch=branch([noise()], "r"), else_branch=branch([noise()], "r")),
                ]
            ),
            "if/noise",
        ),
        (model([CALL], [function([DICE])], ["me"]), "call/dice"),
        # captured by a branch
        (
            model(
                [
                    noise(),
                    node("Constant", [], ["c"], value_int=1),
                    node("If", ["c"], ["y"],
                         then_branch=branch([node("Relu", ["r"], ["t"])], "t"),
                         else_branch=branch([node("Relu", ["x"], ["e"])], "e")),
                ]
            ),
            "noise",
        ),
    ],
)  # fmt: skip
def test_draws_that_reach_an_output(made, where):
    gap = find_draw(made)
    assert gap.node == where and "compile_onnx" in gap.remedy


@pytest.mark.parametrize(
    "made",
    [
        model([node("Relu", ["x"], ["y"])]),
        model([noise(), node("Relu", ["x"], ["y"])]),  # not read
        model([noise(), node("Shape", ["r"], ["s"]), node("Reshape", ["x", "s"], ["y"])]),
        model([node("Dropout", ["x"], ["y"])]),
        model([node("Bernoulli", ["x"], ["y"], domain="me")], domains=["me"]),  # of another domain
        # a function that calls itself: refused elsewhere, but the search has to end
        model([CALL], [function([node("F", ["a"], ["out"], domain="me")])], ["me"]),
    ],
)
def test_draws_that_do_not(made):
    assert find_draw(made) is None


def test_the_conformance_interface_refuses_what_cannot_be_compared():
    made = model([noise(), node("Add", ["x", "r"], ["y"])])
    with pytest.raises(UnsupportedOp, match="node 'noise' .RandomNormal.*nothing can be compared"):
        onnx_backend.prepare(made)
    assert not onnx_backend.is_compatible(made)
    quiet = model([node("Dropout", ["x"], ["y"])])
    assert onnx_backend.is_compatible(quiet)
