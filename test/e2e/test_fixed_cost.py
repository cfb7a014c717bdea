"""What each compilation needs, whatever its model is: made or read once in a process, by count."""

import gc
import json
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from onnx import TensorProto, helper

import rcompiler
from rcompiler import dialects
from rcompiler.codegen import emit, veu
from rcompiler.driver import provenance
from rcompiler.passes import roller_tile
from rcompiler.passes.ir import module_device
from rcompiler.pipelines import rc_cpu
from rcompiler.tools import models


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

    def asked(job):
        found["LLVM"] += 1
        return ask(job)

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
    """The device of a module, the host of a target, versions, and what the dialects are."""
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
    counting(dialects.rtask.RTask, "_emit_module")
    counting(dialects.vdevice.VDevice, "_emit_module")
    provenance._versions.cache_clear()
    dialects._definition.cache_clear()
    for kind in ("Relu", "Neg"):
        rcompiler.compile_onnx(one_operator(kind), eus=1, cache=False).close()
    assert read == {"from_plain": 1, "find_device": 2, "version": 4, "_emit_module": 2}


def test_equal_bodies_are_tiled_once(monkeypatch):
    """By several passes, and in other plans of the model; not for another device."""
    asked = []
    construct = roller_tile.Body._construct

    def noted(self, device, *others):
        asked.append((self.signature, device, *others))
        return construct(self, device, *others)

    monkeypatch.setattr(roller_tile.Body, "_construct", noted)
    proto = models.build("two_branch", rows=8, width=16)
    options = {"target": "cpu:x86-64", "cache": False}
    made = [rcompiler.compile_onnx(proto, eus=2, policy=p, **options) for p in ("rammer", "list")]
    assert asked and len(asked) == len(set(asked))
    count = len(asked)
    made.append(rcompiler.compile_onnx(proto, eus=2, **options))
    assert len(asked) == count
    assert made[0].stage("rkernel") == made[2].stage("rkernel")
    rcompiler.compile_onnx(proto, eus=2, device="zen5-2", **options)
    assert len(asked) > count


_LOADED = """
import gc, json, sys
import rcompiler
from rcompiler.compile import _compiler
from rcompiler.tools import models
looks = []
gc.callbacks.append(lambda phase, info: looks.append(phase))
_compiler()
looked, most = looks.count("start"), gc.get_threshold()[0]
rcompiler.compile_onnx(models.build("mlp", layers=(8, 4)), eus=1, cache=False)
print(json.dumps([looked, most, sorted(sys.modules)]))
"""
# What a model for a CPU does without: packages, and modules of ours.
_NOT_LOADED = (
    *("rcompiler.astra", "rcompiler.emulator", "rcompiler.profiler", "rcompiler.tuning"),
    *("rcompiler.viz", "rcompiler.pipelines.rc_gpu", "rcompiler.driver.gpu_image"),
    *("rcompiler.kernelgen.simt.program", "rcompiler.passes.vdevice_to_gpu", "onnx.reference"),
    *("torch_mlir.dialects._gpu_ops_gen", "torch_mlir.dialects._sparse_tensor_ops_gen"),
    "llvmlite",  # 37 MB, in the process that generates code alone
)


def test_what_a_model_for_a_cpu_does_without_is_not_imported():
    command = [sys.executable, "-c", _LOADED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    looked, most, loaded = json.loads(done.stdout.splitlines()[-1])
    assert not {name for name in loaded if name.startswith(_NOT_LOADED)}
    assert looked == 0 and most == gc.get_threshold()[0]
