"""What each compilation needs, whatever its model is: made or read once in a process, by count."""

from collections import Counter

import numpy as np
import pytest
from onnx import TensorProto, helper

import rcompiler
from rcompiler.codegen import emit, veu
from rcompiler.driver import provenance
from rcompiler.passes.ir import module_device
from rcompiler.pipelines import rc_cpu


def one_operator(kind: str):
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 8]) for n in ("x", "y"))
    graph = helper.make_graph([helper.make_node(kind, ["x"], ["y"])], "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


@pytest.fixture
def counted(monkeypatch):
    """How often the interpreter is translated, and LLVM is asked for an object."""
    found: Counter[str] = Counter()
    translate, ask = veu.llvm_ir, emit._ask

    def translated(text):
        found["translated"] += 1
        return translate(text)

    def asked(worker, job):
        found["LLVM"] += 1
        return ask(worker, job)

    monkeypatch.setattr(veu, "llvm_ir", translated)
    monkeypatch.setattr(emit, "_ask", asked)
    veu.module_ir.cache_clear()
    return found


def test_the_interpreter_is_translated_and_compiled_once(counted):
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    for kind, expected in (("Relu", np.maximum(x, 0)), ("Neg", -x), ("Abs", abs(x))):
        with rcompiler.compile_onnx(one_operator(kind), eus=1, cache=False) as model:
            assert np.array_equal(model(x)[0], expected)
    assert counted["translated"] == 1
    assert counted["LLVM"] == 4  # the interpreter, and a kernel for each
    with rcompiler.compile_onnx(one_operator("Neg"), eus=1, cache=False) as model:
        assert np.array_equal(model(x)[0], -x)
    assert counted["LLVM"] == 4
    rcompiler.compile_onnx(one_operator("Neg"), eus=1, target="cpu:x86-64", cache=False)
    assert (counted["translated"], counted["LLVM"]) == (1, 6)  # objects for another CPU


def test_what_does_not_change_is_not_read_again(monkeypatch):
    """The device of a module, the host of a target, and versions."""
    read = Counter[str]()

    def counting(module, name):
        function = getattr(module, name)

        def counted(*arguments, **options):
            read[name] += 1
            return function(*arguments, **options)

        monkeypatch.setattr(module, name, counted)

    counting(module_device, "from_plain")
    counting(rc_cpu, "find_device")
    counting(provenance, "version")
    provenance._versions.cache_clear()
    for kind in ("Relu", "Neg"):
        rcompiler.compile_onnx(one_operator(kind), eus=1, cache=False).close()
    assert read == {"from_plain": 1, "find_device": 2, "version": 4}
