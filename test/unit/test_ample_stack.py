"""Compiling from a thread with a small stack, as a server may give its own."""

import contextvars
import subprocess
import sys
import threading

import pytest

from rcompiler.support import ample_stack
from rcompiler.support.ample_stack import with_ample_stack

NAME = contextvars.ContextVar("NAME", default="none")


def in_thread(work, stack: int):
    """What it returns in a thread with such a stack."""
    found = []
    before = threading.stack_size(stack)
    try:
        thread = threading.Thread(target=lambda: found.append(work()))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    return found[0]


@pytest.mark.parametrize(("stack", "there"), [(256 << 10, False), (8 << 20, True)])
def test_only_a_small_stack_has_a_thread_of_its_own(stack, there):
    def work():
        me = threading.get_ident()
        return with_ample_stack(lambda: (threading.get_ident() == me, ample_stack._stack_bytes()))

    same, size = in_thread(work, stack)
    assert same == there and size >= ample_stack._AMPLE
    assert threading.stack_size() == 0


def test_errors_and_context_are_those_of_the_caller():
    def fail():
        raise KeyError(NAME.get())

    def work():
        NAME.set("mine")
        with pytest.raises(KeyError, match="mine"):
            with_ample_stack(fail)
        return True

    assert in_thread(work, 256 << 10)


COMPILES = """
import threading
import numpy as np
from onnx import parser
import rcompiler

proto = parser.parse_model('''
  <ir_version: 10, opset_import: ["": 21]>
  g (float[8,64] x, float[64,64] w) => (float[8,64] y) { a = MatMul(x, w) y = Softmax(a) }
''')

def work():
    model = rcompiler.compile_onnx(proto, eus=2, cache=False)
    print(model(np.ones((8, 64), np.float32), np.ones((64, 64), np.float32))[0][0, 0])

threading.stack_size(256 << 10)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


def test_a_thread_with_a_small_stack_compiles():
    """In a process of its own, which imports the compiler there, too: it ended by SIGSEGV."""
    ran = subprocess.run([sys.executable, "-c", COMPILES], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "0.015625\n"), ran.stderr[-2000:]
