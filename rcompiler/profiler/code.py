"""rKernels as functions of this process: written, compiled in worker processes, linked, loaded."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir

from rcompiler.codegen import veu
from rcompiler.codegen.cpu import ObjectCache, Target, compile_objects
from rcompiler.codegen.link import link
from rcompiler.kernelgen.cpu import CpuFeatures, CpuTarget
from rcompiler.kernelgen.kernel import KernelWriter
from rcompiler.kernelgen.lower import lower_to_llvm
from rcompiler.kernelgen.stages import workspace_bytes
from rcompiler.kernelgen.tiling import Tiling
from rcompiler.passes._pipeline_text import runner
from rcompiler.pipelines.rc_tile_kernels import RcTileKernels
from rcompiler.profiler.operands import Operands
from rcompiler.runtime.cpu_needs import require_flags
from rcompiler.runtime.image import LoadedImage
from rcompiler.runtime.memory import address, arena

_REPEAT = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 4, ctypes.c_void_p)
_STOP, _DONE = 0, 1  # words of a control block
_CONTROL = 64  # bytes of it
_EVER = 1 << 62  # times
# Calls all tasks of a kernel so many times, on one set of operands after the other. A call from
# Python takes a microsecond, these calls take none. The first word of the control block ends it
# early, the second one says how many times are done.
_MODULE = """
llvm.func @repeat(
    %kernel: !llvm.ptr, %tables: !llvm.ptr, %workspace: !llvm.ptr,
    %sets: i64, %first: i64, %tasks: i64, %times: i64, %control: !llvm.ptr) {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  llvm.br ^head(%zero : i64)
^head(%done: i64):
  %pdone = llvm.getelementptr %control[1] : (!llvm.ptr) -> !llvm.ptr, i64
  llvm.store %done, %pdone atomic monotonic {alignment = 8 : i64} : i64, !llvm.ptr
  %stop = llvm.load %control atomic monotonic {alignment = 8 : i64} : !llvm.ptr -> i64
  %goes = llvm.icmp "eq" %stop, %zero : i64
  %less = llvm.icmp "slt" %done, %times : i64
  %more = llvm.and %goes, %less : i1
  llvm.cond_br %more, ^body, ^end
^body:
  %turn = llvm.add %first, %done : i64
  %set = llvm.urem %turn, %sets : i64
  %place = llvm.getelementptr %tables[%set] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.ptr
  %table = llvm.load %place : !llvm.ptr -> !llvm.ptr
  llvm.call %kernel(%table, %zero, %tasks, %one, %workspace)
    : !llvm.ptr, (!llvm.ptr, i64, i64, i64, !llvm.ptr) -> ()
  %next = llvm.add %done, %one : i64
  llvm.br ^head(%next : i64)
^end:
  llvm.return
}
"""


@dataclass(frozen=True)
class KernelSource:
    """A kernel as text of one module, with the name of its function, its number of tasks and the
    bytes of workspace of each.
    """

    name: str
    tiling: Tiling
    tasks: int
    workspace: int
    text: str


def write(kernel: ir.Operation, features: CpuFeatures) -> KernelSource:
    """The code of an rtask.kernel as its body is. Raises CompilerError where none can be
    generated.
    """
    name = ir.StringAttr(kernel.attributes["sym_name"]).value
    text, externals = KernelWriter(kernel, CpuTarget(features)).write()
    tasks = ir.IntegerAttr(kernel.attributes["tasks"]).value
    tiling = Tiling.of(kernel)
    workspace = workspace_bytes(kernel, tiling.tile)
    return KernelSource(name, tiling, tasks, workspace, "\n".join([*externals.values(), text]))


def write_tiled(kernel: ir.Operation, features: CpuFeatures) -> KernelSource:
    """The code that a compilation makes of an rtask.kernel: of the body of one rTask. Raises as
    `write`.
    """
    alone = ir.Module.create(ir.Location.unknown(kernel.context))
    with ir.InsertionPoint(alone.body):
        copy = kernel.clone()
    runner([RcTileKernels()], kernel.context, verify=False)(alone)
    return write(copy, features)


class Loaded:
    """Kernels that can be called. They live as long as this object."""

    def __init__(
        self,
        codes: Sequence[KernelSource],
        context: ir.Context,
        target: Target,
        *,
        cache: ObjectCache | None = None,
        jobs: int | None = None,
    ) -> None:
        """Compile; cache, jobs: as for `compile_objects`. Raises CompilerError, DeviceError, and
        ArtifactError for code that this CPU cannot run.
        """
        require_flags(target.name, target.required)
        modules: list[ir.Module | str] = [veu.module_text(), _MODULE]
        for code in codes:
            module = ir.Module.parse(code.text, context)
            lower_to_llvm(module)
            modules.append(module)
        self._image = LoadedImage(link(compile_objects(modules, target, cache=cache, jobs=jobs)))
        self.repeat = _REPEAT(self._image.function("repeat"))
        self.workspace = max([1, *(c.workspace for c in codes)])
        self.kernels = {c.name: (self._image.function(c.name), c.tasks) for c in codes}


class KernelRunner:
    """What one EU runs kernels with: sets of operands by turns, and a workspace."""

    def __init__(self, loaded: Loaded, sets: Sequence[Operands]) -> None:
        """Raises DeviceError for too little memory."""
        self._loaded, self._sets, self._turn = loaded, sets, 0
        self._tables = (ctypes.c_uint64 * len(sets))(*(s.table for s in sets))
        self._workspace = arena(loaded.workspace, "workspace of a kernel")
        self._control = arena(_CONTROL, "control of a kernel").view(np.int64)

    def run(self, name: str, times: int = 1) -> None:
        """All tasks of a kernel in this thread, one after the other; and that so many times, unless
        another thread stops it.
        """
        kernel, tasks = self._loaded.kernels[name]
        self._loaded.repeat(
            *(kernel, ctypes.addressof(self._tables), address(self._workspace)),
            *(len(self._sets), self._turn, tasks, times, address(self._control)),
        )
        self._turn = (self._turn + self.done) % len(self._sets)

    def run_until_stopped(self, name: str) -> None:
        """Run a kernel over and over."""
        self.run(name, _EVER)

    @property
    def done(self) -> int:
        """How many times it ran since the last `run` began, or since `allow`."""
        return int(self._control[_DONE])

    def allow(self) -> None:
        """The next `run` goes on until it is done or stopped."""
        self._control[:] = 0

    def stop(self) -> None:
        """End the `run` of another thread after what it does now."""
        self._control[_STOP] = 1
