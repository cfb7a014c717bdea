"""The kernels of the micro-benchmarks of GPUs as a gpu.module.

All take (%data, %out: !llvm.ptr<1>, %n, %size, %parts: i64) and do what they do `n` times:

    empty       nothing
    meet        all blocks meet: a signal of each and a wait for all, as in the persistent kernel
    hand_off    block 0 signals and waits, block 1 waits and signals: two hand-overs
    sums        UNROLL multiply-adds on each of ACCUMULATORS numbers of every thread
    mma_TYPE    TILES products of matrices by every warp, of f16, bf16, tf32 and s8
    read_shared LOADS vectors of 16 bytes by every thread from shared memory
    read        one of `parts` parts of `size` words of 32 bits by every block, another each time

Signals are a barrier of the block, a release fence and a relaxed addition, waits acquiring loads
and a barrier. `sums` and `mma` start at 0 and multiply ones; so their results count the steps, and
those of the reads are sums of what was there: no compiler may leave the work out, and the host
checks it. The zeros are read from memory, else a compiler would see that all sums are one.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from rcompiler.codegen.ptx import ptx
from rcompiler.kernelgen.simt.program import expanded
from rcompiler.kernelgen.simt.veu_text import SIGNAL_TEXT
from rcompiler.passes._pipeline_text import runner
from rcompiler.passes.gpu_to_nvvm import GpuToNvvm
from rcompiler.profiler.gpu_bench_sizes import (
    ACCUMULATORS,
    CLOCKS,
    COLUMNS,
    LOADS,
    ROUND,
    ROWS,
    SHARED_WORDS,
    START,
    STEPS,
    THREADS,
    TILES,
    UNROLL,
    WORKERS,
)
from rcompiler.runtime.gpu.control import LINE

_HEAD = "%data: !llvm.ptr<1>, %out: !llvm.ptr<1>, %n: i64, %size: i64, %parts: i64"


def module_text() -> str:
    """All kernels, to be lowered by gpu-to-nvvm."""
    kernels = [
        _kernel("empty", THREADS, ""),
        _kernel("meet", THREADS, _MEET),
        _kernel("hand_off", THREADS, _HAND_OFF),
        _kernel("sums", WORKERS, _sums()),
        *(_kernel(f"mma_{name}", WORKERS, _products(name)) for name in STEPS),
        _kernel("read_shared", WORKERS, _read_shared(), _ROOM),
        _kernel("read", WORKERS, _read()),
    ]
    return "\n".join(["gpu.module @rcompiler_bench {", *kernels, "}"])


def _kernel(name: str, threads: int, body: str, memory: str = "") -> str:
    body = body.replace("@@SIGNAL", SIGNAL_TEXT).replace("@@AWAIT", _AWAIT)
    return f"""
gpu.func @{name}({_HEAD}) {memory} kernel
    attributes {{known_block_size = array<i32: {threads}, 1, 1>}} {{
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %threads = arith.constant {threads} : i64
  %thread_index = gpu.thread_id x
  %block_index = gpu.block_id x
  %blocks_index = gpu.grid_dim x
  %thread = arith.index_cast %thread_index : index to i64
  %block = arith.index_cast %block_index : index to i64
  %blocks = arith.index_cast %blocks_index : index to i64
  %leader = arith.cmpi eq, %thread, %c0 : i64
  %first = arith.muli %block, %threads : i64
  %number = arith.addi %first, %thread : i64
{expanded(body)}
  gpu.return
}}"""


# -- blocks that wait for one another

_AWAIT = """
scf.if %leader {
  scf.while : () -> () {
    %seen := acquire %awaited[0]
    %short = arith.cmpi slt, %seen, %target : i64
    scf.condition(%short)
  } do {
    nvvm.nanosleep %sleep
    scf.yield
  }
}
gpu.barrier
"""

_MEET = """
%sleep = arith.constant 20 : i32
%address = & %data[0]
%awaited = & %data[0]
scf.for %k = %c0 to %n step %c1 : i64 {
  %met = arith.addi %k, %c1 : i64
  %target = arith.muli %met, %blocks : i64
@@SIGNAL
@@AWAIT
}
scf.if %leader {
  %seen := acquire %awaited[0]
  %out[%block] := %seen
}
"""

_HAND_OFF = f"""
%sleep = arith.constant 20 : i32
%line = arith.constant {LINE} : i64
%second = arith.cmpi eq, %block, %c1 : i64
%other = arith.subi %c1, %block : i64
%own_word = arith.muli %block, %line : i64
%other_word = arith.muli %other, %line : i64
%address = & %data[%own_word]
%awaited = & %data[%other_word]
scf.for %k = %c0 to %n step %c1 : i64 {{
  %target = arith.addi %k, %c1 : i64
  scf.if %second {{
@@AWAIT
  }}
@@SIGNAL
  scf.if %second {{
  }} else {{
@@AWAIT
  }}
}}
scf.if %leader {{
  %seen := acquire %awaited[0]
  %out[%block] := %seen
}}
"""


# -- arithmetic


def _sums() -> str:
    values = [[f"%a{i}_{k}" for i in range(ACCUMULATORS)] for k in range(UNROLL + 1)]
    steps = [
        f"{values[k + 1][i]} = math.fma {values[k][i]}, %x, %y : f32"
        for k in range(UNROLL)
        for i in range(ACCUMULATORS)
    ]
    return f"""
%x = llvm.load %data : !llvm.ptr<1> -> f32
%py = llvm.getelementptr %data[1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32
%y = llvm.load %py : !llvm.ptr<1> -> f32
{_loaded(ACCUMULATORS, "f32")}
%since = nvvm.read.ptx.sreg.clock64 : i64
%then = nvvm.read.ptx.sreg.globaltimer : i64
{_loop(values, steps, "f32", _starts(ACCUMULATORS))}
%until = nvvm.read.ptx.sreg.clock64 : i64
%now = nvvm.read.ptx.sreg.globaltimer : i64
{_summed(ACCUMULATORS, "f32", "arith.addf")}
%where = llvm.getelementptr %out[%number] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
llvm.store %total, %where : f32, !llvm.ptr<1>
%timer = arith.cmpi eq, %number, %c0 : i64
scf.if %timer {{
  %cycles = arith.subi %until, %since : i64
  %ns = arith.subi %now, %then : i64
  %data[{CLOCKS}] := %cycles
  %data[{CLOCKS + 1}] := %ns
}}
"""


def _products(name: str) -> str:
    """Every warp multiplies a matrix of ones by another."""
    kind = "vector<2xf16>" if name == "f16" else "i32"
    total, add = ("i32", "arith.addi") if name == "i8" else ("f32", "arith.addf")
    element = {"i8": "s8"}.get(name, name)
    types = "".join(
        f"multiplicand{side}PtxType = #nvvm.mma_type<{element}>, " for side in "AB" if name != "f16"
    )
    if name == "i8":
        types += "intOverflowBehavior = #nvvm.mma_int_overflow<wrapped>, "
    result = f"!llvm.struct<({', '.join([total] * 4)})>"
    values = [[f"%a{i}_{k}" for i in range(4 * TILES)] for k in range(2)]
    steps = []
    for tile in range(TILES):
        old = values[0][4 * tile : 4 * tile + 4]
        steps.append(
            f"%m{tile} = nvvm.mma.sync A[%w, %w, %w, %w] B[%w, %w] C[{', '.join(old)}] "
            f"{{layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, {types}"
            f"shape = #nvvm.shape<m = {ROWS}, n = {COLUMNS}, k = {STEPS[name]}>}} "
            f": ({kind}, {kind}, {total}) -> {result}"
        )
        steps += [
            f"{values[1][4 * tile + k]} = llvm.extractvalue %m{tile}[{k}] : {result}"
            for k in range(4)
        ]
    return f"""
{_loaded(4 * TILES, total)}
%w = llvm.load %data : !llvm.ptr<1> -> {kind}
{_loop(values, steps, total, _starts(4 * TILES))}
{_summed(4 * TILES, total, add)}
%where = llvm.getelementptr %out[%number] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, {total}
llvm.store %total, %where : {total}, !llvm.ptr<1>
"""


def _starts(count: int) -> list[str]:
    return [f"%begin{i}" for i in range(count)]


def _loaded(count: int, kind: str) -> str:
    """What sums of f32 or i32 begin with."""
    return _lines(
        [
            f"%pb{i} = llvm.getelementptr %data[{START + i}] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32"
            f"\n  {name} = llvm.load %pb{i} : !llvm.ptr<1> -> {kind}"
            for i, name in enumerate(_starts(count))
        ]
    )


def _loop(
    values: Sequence[Sequence[str]], steps: Sequence[str], kind: str, starts: Sequence[str]
) -> str:
    """`steps` n times: they make values[-1] of values[0], which begin as `starts`; %s#i: the last
    ones.
    """
    begin = ", ".join(f"{name} = {start}" for name, start in zip(values[0], starts, strict=True))
    kinds, count = ", ".join([kind] * len(values[0])), len(values[0])
    return f"""%s:{count} = scf.for %k = %c0 to %n step %c1 iter_args({begin})
    -> ({kinds}) : i64 {{
  {_lines(steps)}
  scf.yield {", ".join(values[-1])} : {kinds}
}}"""


def _summed(count: int, kind: str, add: str) -> str:
    """%total of %s#0, %s#1, ..."""
    names = ["%s#0", *(f"%t{i}" for i in range(1, count - 1)), "%total"]
    return _lines([f"{names[i]} = {add} {names[i - 1]}, %s#{i} : {kind}" for i in range(1, count)])


# -- memory

_VECTOR = "vector<4xi32>"
_ROOM = (
    f"workgroup(%room: memref<{SHARED_WORDS}xi32, #gpu.address_space<workgroup>> "
    "{llvm.align = 16 : i64})"
)
_STORE = f"""
%word = vector.reduction <add>, %total : {_VECTOR} into i32
%where = llvm.getelementptr %out[%number] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i32
llvm.store %word, %where : i32, !llvm.ptr<1>
"""


def _read_shared() -> str:
    """Another vector at each step; all words are the number of their vector."""
    values = [[f"%a{i}_{k}" for i in range(LOADS)] for k in range(2)]
    room = f"memref<{SHARED_WORDS}xi32, #gpu.address_space<workgroup>>"
    steps = [
        "%turn = arith.muli %k, %quad : i64",
        "%moved = arith.addi %own, %turn : i64",
    ]
    for j in range(LOADS):
        steps += [
            f"%o{j} = arith.constant {j * WORKERS * 4} : i64",
            f"%b{j} = arith.addi %moved, %o{j} : i64",
            f"%r{j} = arith.andi %b{j}, %mask : i64",
            f"%i{j} = arith.index_cast %r{j} : i64 to index",
            f"%l{j} = vector.load %room[%i{j}] {{alignment = 16 : i64}} : {room}, {_VECTOR}",
            f"{values[1][j]} = arith.addi {values[0][j]}, %l{j} : {_VECTOR}",
        ]
    return f"""
%zero = arith.constant dense<0> : {_VECTOR}
%quad = arith.constant 4 : i64
%mask = arith.constant {SHARED_WORDS - 1} : i64
%end = arith.constant {SHARED_WORDS} : i64
%step = arith.constant {WORKERS * 4} : i64
%own = arith.muli %thread, %quad : i64
scf.for %at = %own to %end step %step : i64 {{
  %vector_number = arith.divui %at, %quad : i64
  %value = arith.trunci %vector_number : i64 to i32
  %four = vector.broadcast %value : i32 to {_VECTOR}
  %place = arith.index_cast %at : i64 to index
  vector.store %four, %room[%place] {{alignment = 16 : i64}} : {room}, {_VECTOR}
}}
gpu.barrier
{_loop(values, steps, _VECTOR, ["%zero"] * LOADS)}
{_summed(LOADS, _VECTOR, "arith.addi")}
{_STORE}
"""


def _read() -> str:
    values = [[f"%a{i}_{k}" for i in range(LOADS)] for k in range(2)]
    begin = ", ".join(f"{old} = %p{i}" for i, old in enumerate(values[0]))
    kinds = ", ".join([_VECTOR] * LOADS)
    loads = [
        f"%w{j} = llvm.getelementptr %from[{j * WORKERS * 4}] "
        f": (!llvm.ptr<1>) -> !llvm.ptr<1>, i32\n  "
        f"%l{j} = llvm.load %w{j} {{alignment = 16 : i64}} : !llvm.ptr<1> -> {_VECTOR}\n  "
        f"{values[1][j]} = arith.addi {values[0][j]}, %l{j} : {_VECTOR}"
        for j in range(LOADS)
    ]
    inner = f"""%turn = arith.addi %start, %k : i64
  %part = arith.remui %turn, %parts : i64
  %before = arith.muli %part, %size : i64
  %base = llvm.getelementptr %data[%before] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i32
  %q:{LOADS} = scf.for %at = %own to %size step %round iter_args({begin}) -> ({kinds}) : i64 {{
  %from = llvm.getelementptr %base[%at] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i32
  {_lines(loads)}
  scf.yield {", ".join(values[1])} : {kinds}
  }}"""
    outer = [[f"%p{i}" for i in range(LOADS)], [f"%q#{i}" for i in range(LOADS)]]
    return f"""
%zero = arith.constant dense<0> : {_VECTOR}
%quad = arith.constant 4 : i64
%round = arith.constant {ROUND} : i64
%own = arith.muli %thread, %quad : i64
%share = arith.muli %block, %parts : i64
%start = arith.divui %share, %blocks : i64
{_loop(outer, [inner], _VECTOR, ["%zero"] * LOADS)}
{_summed(LOADS, _VECTOR, "arith.addi")}
{_STORE}
"""


def _lines(lines: Sequence[str]) -> str:
    return "\n  ".join(lines)


def bench_code(chip: str) -> bytes:
    """PTX of all kernels for "sm_90a" and the like."""
    with ir.Context() as context, ir.Location.unknown():
        context.enable_multithreading(False)  # passes in Python wait for one another
        module = ir.Module.parse(module_text())
        runner(str(GpuToNvvm(chip)), context)(module)
        return ptx(module).text
