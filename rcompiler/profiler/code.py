"""rKernels as functions of this process: written, compiled in worker processes, linked, loaded."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.codegen import veu
from rcompiler.codegen.cpu import ObjectCache, Target, compile_objects
from rcompiler.codegen.link import link
from rcompiler.kernelgen.kernel import CpuFeatures, KernelWriter
from rcompiler.kernelgen.lower import lower_to_llvm
from rcompiler.kernelgen.stages import workspace_bytes
from rcompiler.kernelgen.tiling import Tiling
from rcompiler.profiler.operands import Operands
from rcompiler.runtime.image import LoadedImage
from rcompiler.runtime.memory import address, arena

_REPEAT = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 4)
# Calls all tasks of a kernel so many times, on one set of operands after the other. A call from
# Python takes a microsecond, these calls take none.
_MODULE = """
llvm.func @repeat(
    %kernel: !llvm.ptr, %tables: !llvm.ptr, %workspace: !llvm.ptr,
    %sets: i64, %first: i64, %tasks: i64, %times: i64) {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  llvm.br ^head(%zero : i64)
^head(%done: i64):
  %more = llvm.icmp "slt" %done, %times : i64
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
class Code:
    """A kernel as text of one module, with the name of its function, its number of tasks and the
    bytes of workspace of each.
    """

    name: str
    tiling: Tiling
    tasks: int
    workspace: int
    text: str


def write(kernel: ir.Operation, features: CpuFeatures) -> Code:
    """The code of an rtask.kernel. Raises CompilerError where none can be generated."""
    name = ir.StringAttr(kernel.attributes["sym_name"]).value
    text, externals = KernelWriter(kernel, features).write()
    tasks = ir.IntegerAttr(kernel.attributes["tasks"]).value
    tiling = Tiling.of(kernel)
    workspace = workspace_bytes(kernel, tiling.tile)
    return Code(name, tiling, tasks, workspace, "\n".join([*externals.values(), text]))


class Loaded:
    """Kernels that can be called. They live as long as this object."""

    def __init__(
        self,
        codes: Sequence[Code],
        context: ir.Context,
        target: Target,
        *,
        cache: ObjectCache | None = None,
        jobs: int | None = None,
    ) -> None:
        """Compile; cache, jobs: as for `compile_objects`. Raises CompilerError, DeviceError."""
        modules: list[ir.Module | str] = [veu.module_text(), _MODULE]
        for code in codes:
            module = ir.Module.parse(code.text, context)
            lower_to_llvm(module)
            modules.append(module)
        self._image = LoadedImage(link(compile_objects(modules, target, cache=cache, jobs=jobs)))
        self._repeat = _REPEAT(self._image.function("repeat"))
        self._workspace = arena(max([1, *(c.workspace for c in codes)]), "workspace of a kernel")
        self._kernels = {c.name: (self._image.function(c.name), c.tasks) for c in codes}

    def run(self, name: str, sets: Sequence[Operands], times: int = 1, first: int = 0) -> None:
        """All tasks of a kernel in this thread, one after the other; and that so many times, with
        the sets of operands by turns, the one of number `first` first.
        """
        kernel, tasks = self._kernels[name]
        tables = (ctypes.c_uint64 * len(sets))(*(s.table for s in sets))
        place, workspace = ctypes.addressof(tables), address(self._workspace)
        self._repeat(kernel, place, workspace, len(sets), first, tasks, times)
