"""Convolutions by every root: right, the same bits for every schedule, and explained."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rcompiler
from rcompiler.errors import CompilerError
from rcompiler.options import Roots
from rcompiler.tools import rc_compile

WINOGRAD = ("winograd2", "winograd4")


def block(n=1, size=14, channels=24, groups=1):
    """A residual block of odd sizes: 1x1, 3x3, 3x3 with a residual, all with bias and ReLU."""
    rng = np.random.default_rng(11)
    weights, nodes = [], []

    def conv(x, ci, co, kernel, name):
        w = rng.standard_normal((co, ci // groups, kernel, kernel)) / np.sqrt(ci * kernel**2 / 2)
        for suffix, array in (("w", w), ("b", rng.standard_normal(co) * 0.1)):
            weights.append(numpy_helper.from_array(array.astype(np.float32), name + suffix))
        pads = [kernel // 2] * 4
        inputs = [x, f"{name}w", f"{name}b"]
        nodes.append(helper.make_node("Conv", inputs, [name], name, pads=pads, group=groups))
        return name

    def relu(x):
        nodes.append(helper.make_node("Relu", [x], [f"{x}r"]))
        return f"{x}r"

    first = relu(conv("x", 16, channels, 1, "reduce"))
    second = relu(conv(first, channels, channels, 3, "left"))
    third = conv(second, channels, channels, 3, "right")
    nodes.append(helper.make_node("Add", [third, first], ["sum"]))
    last = relu("sum")
    info = [("x", (n, 16, size, size + 3)), (last, (n, channels, size, size + 3))]
    x, y = (helper.make_tensor_value_info(a, TensorProto.FLOAT, s) for a, s in info)
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def run(proto, **options):
    model = rcompiler.compile_onnx(proto, cache=False, **options)
    x = np.random.default_rng(3).standard_normal(model.inputs[0].shape).astype(np.float32)
    outputs = model(x)
    model.close()
    return x, outputs[0], model


@pytest.mark.parametrize("root", WINOGRAD)
@pytest.mark.parametrize(
    "sizes", [{}, {"n": 2, "size": 7}, {"channels": 32, "groups": 2, "size": 9}], ids=str
)
def test_right(root, sizes):
    proto = block(**sizes)
    x, found, model = run(proto, roots=root)
    assert any("as demanded" in o.root for o in model.report().operators)
    [expected] = ReferenceEvaluator(proto).run(None, {"x": x})
    rms = np.sqrt(np.mean(expected.astype(np.float64) ** 2))
    assert abs(found - expected).max() <= 2e-5 * rms


def test_every_schedule_gives_the_same_bits():
    proto = block(size=13, channels=40)
    plans = [("rammer", 1), ("rammer", 3), ("base", 2), ("wave", 8)]
    for root in WINOGRAD:
        found = {
            run(proto, roots=root, policy=policy, eus=eus)[1].tobytes() for policy, eus in plans
        }
        assert len(found) == 1


@pytest.mark.parametrize("target", ["cpu:v3", "cpu:x86-64"])
def test_smaller_vectors(target):
    proto = block(size=8)
    x, found, _ = run(proto, roots="winograd4", target=target)
    [expected] = ReferenceEvaluator(proto).run(None, {"x": x})
    assert abs(found - expected).max() <= 2e-5 * np.sqrt(np.mean(expected**2))


def test_the_transforms_are_one_operator_each_with_the_epilogue():
    _, _, model = run(block(), roots="winograd4")
    kinds = [o.kind for o in model.report().operators]
    assert kinds.count("transform") == 4  # in front of and behind each of two convolutions
    assert "elementwise" not in kinds  # bias, ReLU and residual are behind the last transforms


def test_the_report_says_why():
    _, _, model = run(block(size=28, channels=128))
    [left, right] = [o for o in model.report().operators if " of: direct " in o.root]
    assert left.root.startswith("winograd4 of: direct ")
    assert left.kind == right.kind == "contraction"


def test_an_unknown_root_is_refused():
    names = "auto, direct, winograd2, winograd4"
    with pytest.raises(CompilerError, match=f"roots='fft': give one of {names}"):
        rcompiler.compile_onnx(block(), roots="fft")
    assert Roots.__args__ == tuple(names.split(", "))


def test_on_the_command_line(tmp_path, capsys):
    path = tmp_path / "block.onnx"
    path.write_bytes(block(size=6).SerializeToString())
    arguments = [str(path), "-o", str(tmp_path / "b.rcx"), "--roots=winograd2", "--report"]
    assert rc_compile.main(arguments) == 0
    assert "winograd2, as demanded" in capsys.readouterr().out
