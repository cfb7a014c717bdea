"""Small models for the runtime tests: hand-written kernels, streams and artifacts."""

import threading
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from rcompiler.codegen import veu
from rcompiler.codegen.cpu import Target, compile_objects
from rcompiler.codegen.link import link
from rcompiler.runtime.artifact import Artifact, KernelEntry, Program, Tensor
from rcompiler.runtime.image import Image
from rcompiler.runtime.tables import ARENA, CONSTANTS, EXTERNAL, Stream

N = 64
# One rTask = one element. scale: out = in * weight; twice: out = in + in.
_LOOP = """llvm.func @{name}(%ops: !llvm.ptr, %first: i64, %count: i64, %stride: i64,
  %workspace: !llvm.ptr) {{
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64
  llvm.br ^l(%c0, %first : i64, i64)
^l(%i: i64, %t: i64):
  %more = llvm.icmp "slt" %i, %count : i64
  llvm.cond_br %more, ^b, ^d
^b:
{body}
  %i1 = llvm.add %i, %c1 : i64
  %t1 = llvm.add %t, %stride : i64
  llvm.br ^l(%i1, %t1 : i64, i64)
^d:
  llvm.return }}"""
_OPERAND = """
  %s{i} = llvm.getelementptr %ops[{i}] : (!llvm.ptr) -> !llvm.ptr, i64
  %p{i} = llvm.load %s{i} : !llvm.ptr -> !llvm.ptr
  %e{i} = llvm.getelementptr %p{i}[%t] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %v{i} = llvm.load %e{i} : !llvm.ptr -> f32"""
_BODIES = {
    "scale": [0, 1, 2, "%r = llvm.fmul %v0, %v1 : f32\n llvm.store %r, %e2 : f32, !llvm.ptr"],
    "twice": [0, 1, "%r = llvm.fadd %v0, %v0 : f32\n llvm.store %r, %e1 : f32, !llvm.ptr"],
    # counts to 100,000 for each of its tasks: some milliseconds for all
    "slow": [
        0,
        1,
        """llvm.store %v0, %e1 : f32, !llvm.ptr
  %end = llvm.mlir.constant(100000 : i64) : i64
  llvm.br ^s(%c0 : i64)
^s(%j: i64):
  %j1 = llvm.add %j, %c1 : i64
  %go = llvm.icmp "slt" %j1, %end : i64
  llvm.cond_br %go, ^s(%j1 : i64), ^t
^t:""",
    ],
}
KERNELS = (
    KernelEntry("scale", N, (4 * N, 4 * N, 4 * N), 1),
    KernelEntry("twice", N, (4 * N, 4 * N), 1),
    KernelEntry("slow", N, (4 * N, 4 * N), 1),
)
SCALE, TWICE, SLOW = range(3)
X = Tensor("x", (N,), "float32")
Y = Tensor("y", (N,), "float32")
WEIGHTS = np.arange(N, dtype=np.float32)


def kernel_text() -> str:
    functions = []
    for name, parts in _BODIES.items():
        body = "".join(p if isinstance(p, str) else _OPERAND.format(i=p) + "\n" for p in parts)
        functions.append(_LOOP.format(name=name, body=body))
    return "module {" + "\n".join(functions) + "}"


@cache
def image() -> Image:
    target = Target.named("x86-64")
    return link(compile_objects([veu.module_text(), kernel_text()], target, jobs=1))


def artifact(
    programs: Sequence[Program], arena_bytes: int = 4 * N, constants: np.ndarray = WEIGHTS, **more
) -> Artifact:
    facts = {
        "image": image(),
        "kernels": KERNELS,
        "programs": tuple(programs),
        "inputs": (X,),
        "outputs": (Y,),
        "arena_bytes": arena_bytes,
        "constants": constants.view(np.uint8),
        "target": "x86-64",
        "cpu_flags": Target.named("x86-64").required,
    }
    return Artifact(**{**facts, **more})


def two_steps(eus: int, sync: str = "event", name: str = "main_0") -> Program:
    """y = 2 * (x * w): each EU scales a share into the arena; then the EUs double *another* share,
    so that the result is wrong unless they really wait for each other."""
    share = -(-N // eus)
    streams = []
    for eu in range(eus):
        stream = Stream()
        first = eu * share
        stream.run(
            SCALE, first, min(share, N - first), 1, [(EXTERNAL, 0), (CONSTANTS, 0), (ARENA, 0)]
        )
        if sync == "event":
            stream.signal(0)
            stream.wait(0, eus)
        else:
            stream.barrier()
        other = (eus - 1 - eu) * share
        stream.run(TWICE, other, min(share, N - other), 1, [(ARENA, 0), (EXTERNAL + 1, 0)])
        streams.append(stream.end())
    events = ("scaled",) if sync == "event" else ()
    return Program(name, tuple(streams), events, (("mul", "add"),) * eus)


def taken_steps(shares: int, taken_by: int, name: str = "main_0") -> Program:
    """y = 2 * (x * w) as queues: `shares` that scale, then as many that double, last part first,
    and each wait for all that scale."""
    size = -(-N // shares)
    ranges = [(first, min(size, N - first)) for first in range(0, N, size)]
    scale = [(EXTERNAL, 0), (CONSTANTS, 0), (ARENA, 0)]
    double = [(ARENA, 0), (EXTERNAL + 1, 0)]
    streams = [stream_of(("run", SCALE, *r, 1, scale), ("signal", 0)) for r in ranges]
    streams += [
        stream_of(("wait", 0, len(ranges)), ("run", TWICE, *r, 1, double)) for r in ranges[::-1]
    ]
    names = [("mul",)] * len(ranges) + [("add",)] * len(ranges)
    return Program(name, tuple(streams), ("scaled",), tuple(names), taken_by)


def stream_of(*steps: tuple) -> np.ndarray:
    """Steps like ("run", 1, 0, 64, 1, [(0, 0)]) or ("wait", 0, 1)."""
    stream = Stream()
    for name, *operands in steps:
        getattr(stream, name)(*operands)
    return stream.end()


def expected(x: np.ndarray) -> np.ndarray:
    return 2 * (x * WEIGHTS)


def in_threads(number: int, work: Callable[[int], None]) -> None:
    """Run `work(0)`, `work(1)`, ... at the same time, to their ends."""
    threads = [threading.Thread(target=work, args=(i,)) for i in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
