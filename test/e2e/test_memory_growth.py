"""A process that compiles again and again does not grow, and weights are not copied more than they
need be."""

import subprocess
import sys

import pytest

# Compiles the same model, with nothing known of it, and prints how many bytes of the heap more are
# in use after the second half of the compilations than after the first.
_PROGRAM = """
import ctypes, gc, sys
import numpy as np
from onnx import helper, numpy_helper
import rcompiler
from rcompiler.support.lru_cache import clear_all

class Mallinfo(ctypes.Structure):
    _fields_ = [(f"n{k}", ctypes.c_size_t) for k in range(10)]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Mallinfo

weight = numpy_helper.from_array(np.ones((16, 16), np.float32), "w")
float_tensor = [helper.make_tensor_value_info(name, 1, [8, 16]) for name in "xy"]
nodes = [("MatMul", "xw", "a"), ("Relu", "a", "b"), ("Softmax", "b", "c"), ("Add", "cx", "y")]
graph = helper.make_graph(
    [helper.make_node(op, list(read), [made]) for op, read, made in nodes],
    "g", float_tensor[:1], float_tensor[1:], [weight],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

def compile_some(count):
    for _ in range(count):
        clear_all()
        rcompiler.compile_onnx(model, eus=1, cache=False, device="default")
    gc.collect()
    return libc.mallinfo2().n7

first = compile_some(int(sys.argv[1]))
print(compile_some(int(sys.argv[1])) - first)
"""
COMPILATIONS = 20
MOST_BYTES = 2_000  # of each compilation; the texts of its kernels alone are 20 times as many


def test_compilations_leave_nothing_behind():
    command = [sys.executable, "-c", _PROGRAM, str(COMPILATIONS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < COMPILATIONS * MOST_BYTES


_CYCLES = """
import gc
from collections import Counter
from onnx import parser
import rcompiler

model = parser.parse_model(
    '<ir_version: 10, opset_import: ["": 21]> g (float[8,16] x) => (float[8,16] y) '
    '{ a = Exp(x) b = Softmax(a) c = Add(b, x) y = Tanh(c) }'
)
for _ in range(2):
    rcompiler.compile_onnx(model, eus=1, cache=False, device="default").close()
gc.collect()
gc.disable()
rcompiler.compile_onnx(model, eus=1, cache=False, device="default").close()
gc.set_debug(gc.DEBUG_SAVEALL)
gc.collect()
kinds = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.garbage)
print(*(kind for kind in kinds if kind.startswith(("rcompiler.", "torch_mlir.", "ctypes.CDLL"))))
"""


def test_a_compilation_is_gone_when_it_ends():
    """Nothing of it is in a cycle: IR and weights would stay until the collector looks for them,
    which it does after so many objects, whatever the memory behind them.
    """
    done = subprocess.run(
        [sys.executable, "-c", _CYCLES], capture_output=True, text=True, timeout=600
    )
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


# Compiles a small model, then one of 25 layers of 4 MiB, and prints how many times the bytes of its
# weights the second needed more memory: at most, and when it was there.
_PEAK = """
import sys
from pathlib import Path
import numpy as np, onnx
from onnx import helper, numpy_helper
import rcompiler

def network(layers):
    w = [np.full((1024, 1024), 1 / (3 + k), np.float32) for k in range(layers)]
    nodes = [helper.make_node("MatMul", [f"x{k}", f"w{k}"], [f"x{k + 1}"]) for k in range(layers)]
    ends = [helper.make_tensor_value_info(f"x{k}", 1, [4, 1024]) for k in (0, layers)]
    weights = [numpy_helper.from_array(array, f"w{k}") for k, array in enumerate(w)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

def memory():
    lines = Path("/proc/self/status").read_text().splitlines()
    told = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Vm")}
    return [int(told[name]) << 10 for name in ("VmHWM", "VmRSS")]

path, external = sys.argv[1], sys.argv[2] == "external"
if sys.argv[3] == "write":
    onnx.save(network(25), path, save_as_external_data=external, location="w.bin")
else:
    small = network(1).SerializeToString()
    rcompiler.compile_onnx(small, cache=False, device="default", eus=1)
    before = memory()[1]
    model = rcompiler.compile_onnx(path, cache=False, device="default", eus=1)
    print(*((after - before) / (25 << 22) for after in memory()))
"""


@pytest.mark.parametrize("where", ["inside", "external"])
def test_weights_are_in_memory_twice_at_most_and_then_once(where, tmp_path):
    """As arrays of the model and in the order of the code; then in the latter alone."""
    for step in ("write", "compile"):
        command = [sys.executable, "-c", _PEAK, str(tmp_path / "m.onnx"), where, step]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
    peak, after = map(float, done.stdout.split())
    assert peak < 2.3
    assert after < 1.2
