"""A process that compiles again and again does not grow."""

import subprocess
import sys

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
