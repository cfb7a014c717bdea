"""What is not chosen at run time is not computed: rKernels that look at a condition first."""

import ctypes
import re

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rcompiler
from rcompiler.runtime.image import LoadedImage
from rcompiler.runtime.memory import address, aligned_empty

F, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
N = 64
_Kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3, ctypes.c_void_p)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def tensor(name, kind=F, shape=(N, N)):
    return helper.make_tensor_value_info(name, kind, shape)


def graph(nodes, inputs, outputs, weights=()):
    random = np.random.default_rng(0)
    arrays = [random.standard_normal((N, N)).astype(np.float32) / 8 for _ in weights]
    kept = [numpy_helper.from_array(a, n) for n, a in zip(weights, arrays, strict=True)]
    return helper.make_graph(nodes, "g", inputs, outputs, kept)


def model(*of):
    return helper.make_model(graph(*of), opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def choice(condition="c", read="x", made="y", name="choice"):
    """Two products, or one and the exponents of it."""
    then = [node("MatMul", f"{read} v", "a"), node("Relu", "a", "b"), node("MatMul", "b w", "t")]
    other = [node("MatMul", f"{read} w", "d"), node("Exp", "d", "e")]
    return node(
        "If", condition, made, name=name,
        then_branch=graph(then, [], [tensor("t")]), else_branch=graph(other, [], [tensor("e")]),
    )  # fmt: skip


def branches():
    inputs = [tensor("c", BOOL, []), tensor("x")]
    return model([choice()], inputs, [tensor("y")], ("v", "w"))


def repeated():
    """A product, then a branch of its own by the number of the iteration; ends by its maximum."""
    nodes = [
        node("Less", "i half", "low"),
        node("Mul", "s scale", "less"),
        choice("low", "less", "t", "inner"),
        node("ReduceMax", "t", "top", keepdims=0),
        node("Less", "top limit", "go"),
    ]
    step = [tensor("i", INT, []), tensor("on", BOOL, []), tensor("s")]
    body = helper.make_graph(nodes, "body", step, [tensor("go", BOOL, []), tensor("t")])
    inputs = [tensor("M", INT, []), tensor("c", BOOL, []), tensor("x"), tensor("limit", F, [])]
    inputs += [tensor("half", INT, []), tensor("scale", F, [])]
    loop = node("Loop", "M c x", "y", name="again", body=body)
    return model([loop], inputs, [tensor("y")], ("v", "w"))


def guards(made):
    """The conditions that each rKernel of a model looks at."""
    return re.findall(r"guards = array<i64: ([\d, ]*)>", made.stage("vdevice"))


X = np.random.default_rng(1).standard_normal((N, N)).astype(np.float32) / 4


def agree(made, proto, feeds):
    reference = ReferenceEvaluator(proto)
    for feed in feeds:
        (got,), (wanted,) = made(feed), reference.run(None, feed)
        np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(("target", "eus"), [("cpu", 2), ("cpu:x86-64", 1)])
def test_only_the_branch_that_is_taken_is_computed(target, eus):
    proto = branches()
    made = rcompiler.compile_onnx(proto, target=target, eus=eus, cache=False, device="epyc-9555")
    assert sorted(guards(made)) == ["0, 0", "0, 1", "0, 1"]
    agree(made, proto, [{"c": np.array(flag), "x": X} for flag in (True, False, True)])
    again = rcompiler.compile_schedule(made.stage("schedule"), made.constants(), target=target)
    (first,), (second,) = made(np.array(False), X), again(np.array(False), X)
    assert first.tobytes() == second.tobytes()


def test_a_kernel_does_nothing_where_its_guard_does_not_hold():
    artifact = rcompiler.compile_onnx(branches(), eus=1, cache=False).artifact
    code, seen = LoadedImage(artifact.image), 0
    text = artifact.stages["vdevice"]
    for kernel in artifact.kernels:
        found = re.search(rf'guards = array<i64: 0, (\d)>[^\n]*sym_name = "{kernel.name}"', text)
        if not found:
            continue
        operands = [aligned_empty((size,), np.dtype(np.uint8)) for size in kernel.operand_bytes]
        table = (ctypes.c_uint64 * len(operands))(*map(address, operands))
        workspace = aligned_empty((max(1, kernel.workspace),), np.dtype(np.uint8))
        for given in (0, 1):
            for operand in operands:
                operand[:] = 0
            operands[0][:], operands[-1][:] = given, 0xA5
            run = _Kernel(code.function(kernel.name))
            run(ctypes.addressof(table), 0, kernel.tasks, 1, address(workspace))
            untouched = bool((operands[-1] == 0xA5).all())
            assert untouched == (given != int(found[1]))
        seen += 1
    assert seen == 3


def test_a_loop_computes_no_more_iterations_than_run():
    proto = repeated()
    made = rcompiler.compile_onnx(proto, eus=2, cache=False, bounds={"again": 4})
    # those of the branches look at whether the iteration runs, too
    assert {len(each.split(",")) for each in guards(made)} >= {2, 4}
    feeds = [
        {"M": np.array(m), "c": np.array(bool(c)), "x": X, "limit": np.float32(limit),
         "half": np.array(2), "scale": np.float32(0.5)}
        for m, c, limit in [(0, 1, 99), (1, 1, 99), (4, 1, 99), (3, 0, 99), (4, 1, 1)]
    ]  # fmt: skip
    agree(made, proto, feeds)


def test_little_work_is_not_guarded_nor_what_is_used_always():
    nodes = [
        node("MatMul", "x v", "p"),
        node("Relu", "p", "r"),
        node("Neg", "r", "n"),
        node("Where", "c n x", "y"),
    ]
    inputs, both = [tensor("c", BOOL, []), tensor("x")], [tensor("y"), tensor("r")]
    made = rcompiler.compile_onnx(model(nodes, inputs, both, ("v",)), eus=1, cache=False)
    assert guards(made) == []
    chosen = rcompiler.compile_onnx(model(nodes, inputs, both[:1], ("v",)), eus=1, cache=False)
    assert guards(chosen) == ["0, 1"]


def test_gpus_compute_both_branches():
    proto = branches()
    made = rcompiler.compile_onnx(proto, target="cuda:emulated", eus=2, cache=False)
    assert guards(made) == []
