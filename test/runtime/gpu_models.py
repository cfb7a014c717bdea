"""The hand-written models of `small_models` for the emulated GPU."""

from collections.abc import Callable, Sequence
from functools import cache, partial

import small_models as sm
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.codegen.ptx import ptx
from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.kernelgen.simt.program import ENTRY, program_text
from rcompiler.kernelgen.simt.target import SIGNATURE
from rcompiler.passes._pipeline_text import runner
from rcompiler.runtime.artifact import Artifact, Program
from rcompiler.runtime.gpu.executable import GpuExecutable
from rcompiler.runtime.gpu.image import GpuImage

THREADS = 32
_OPERAND = """
  %s{i} = llvm.getelementptr %words[{base}] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
  %b{i} = llvm.load %s{i} : !llvm.ptr<1> -> i64
  %o{i} = llvm.getelementptr %words[{offset}] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
  %y{i} = llvm.load %o{i} : !llvm.ptr<1> -> i64
  %m{i} = llvm.getelementptr %bases[%b{i}] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
  %a{i} = llvm.load %m{i} : !llvm.ptr<1> -> !llvm.ptr<1>
  %p{i} = llvm.getelementptr %a{i}[%y{i}] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8
  %e{i} = llvm.getelementptr %p{i}[%task] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
  %v{i} = llvm.load %e{i} : !llvm.ptr<1> -> f32"""
_FUNCTION = """func.func private @{name}({signature}) attributes {{no_inline}} {{
  %x = gpu.thread_id x
  %thread = arith.index_cast %x : index to i64
  %threads = arith.constant {threads} : i64
  scf.for %i = %thread to %count step %threads : i64 {{
  %far = arith.muli %i, %stride : i64
  %task = arith.addi %far, %first : i64
{body}
  llvm.store %r, %e{last} : f32, !llvm.ptr<1>
  }}
  return
}}"""
_RESULTS = {
    "scale": (2, "%r = arith.mulf %v0, %v1 : f32"),
    "twice": (1, "%r = arith.addf %v0, %v0 : f32"),
    "slow": (1, "%r = arith.addf %v0, %v0 : f32"),
}


def _function(name: str) -> str:
    inputs, result = _RESULTS[name]
    operands = [_OPERAND.format(i=i, base=2 * i, offset=2 * i + 1) for i in range(inputs + 1)]
    *reads, write = operands
    write = write[: write.rindex("\n")]  # nobody reads what is to be written
    return _FUNCTION.format(
        name=name,
        signature=SIGNATURE,
        threads=THREADS,
        body="".join(reads) + write + "\n  " + result,
        last=inputs,
    )


@cache
def image(chip: str = "sm_80") -> GpuImage:
    """The code of `small_models.KERNELS`."""
    names = [kernel.name for kernel in sm.KERNELS]
    text = program_text(names, [_function(name) for name in names], threads=THREADS, shared=0)
    context = dialects.load(ir.Context())
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        runner(f"gpu-to-nvvm{{chip={chip}}}", context)(module)
        return GpuImage(ptx(module).text, b"", chip, ENTRY, THREADS, 0)


def artifact(programs: Sequence[Program], **more) -> Artifact:
    facts = {"image": image(), "target": "cuda:emulated", "cpu_flags": ()}
    return sm.artifact(programs, **{**facts, **more})


def driver(eus: int = 4, **more) -> Callable[[], EmulatedDriver]:
    """Opens a device of `eus` SMs, with one block each at least."""
    return partial(EmulatedDriver, capability=(8, 0), multiprocessors=eus, **more)


def executable(programs: Sequence[Program], seed: int | None = None, **more) -> GpuExecutable:
    """On an emulated device; seed: of a hostile order, None: all blocks together."""
    hostile = {} if seed is None else {"interleave": True, "seed": seed}
    return GpuExecutable(artifact(programs), driver(**hostile), **more)
