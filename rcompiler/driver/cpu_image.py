"""The code of a model for a CPU: that of rKernels one by one, as they are constructed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch_mlir import ir

from rcompiler.codegen import veu
from rcompiler.codegen.cpu import ObjectCache, Objects, Target
from rcompiler.driver.kernel_code import KernelCodes, gathered
from rcompiler.passes import Element
from rcompiler.passes.ir.module_device import attribute_of
from rcompiler.passes.ir.operators import kernels_by_name
from rcompiler.passes.vdevice_to_cpu import VdeviceToCpu

_INTERPRETER = "veu"  # no rKernel has this name


class CpuGeneration:
    """Code of the rKernels of a model: text by two processes, objects by others."""

    def __init__(
        self,
        module: ir.Module,
        target: Target,
        cache: ObjectCache | None,
        tile: Sequence[Element] = (),
    ) -> None:
        """module: says which device the kernels are for. tile: the passes that make the bodies of
        rKernels those of one rTask, where they are not yet.
        """
        objects = self._objects = Objects(target, cache=cache)
        device, stages = attribute_of(module.operation), [("llvm", VdeviceToCpu())]
        self._codes = KernelCodes(
            device, stages, lambda name, code: objects.add(name, code.llvm_ir), tile=tile
        )
        self._tiles = bool(tile)

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Inside of the context code is made, also before it is asked for."""
        with self._objects as objects:
            objects.add(_INTERPRETER, veu.module_ir())
            with self._codes.begun():
                yield

    def expect(self, kernel: ir.Operation) -> None:
        """An rtask.kernel that is likely to be scheduled: its code may be made from now on."""
        self._codes.expect(kernel)

    def write(self, module: ir.Module) -> str:
        """Make the code of all kernels of a schedule, and make their bodies those of one rTask; the
        text of the stage `llvm`.

        Raises CompilerError where no code can be made of a kernel.
        """
        kernels = kernels_by_name(module.operation)
        for kernel in kernels.values():
            self._codes.expect(kernel)
        codes = self._codes.finish(kernels)
        if self._tiles:
            self._codes.put(kernels)
        return "\n".join(["module {", *gathered(codes, "llvm").values(), "}\n"])

    def objects(self, module: ir.Module) -> list[bytes]:
        """What the code of a schedule that was written is linked from. Raises CompilerError if LLVM
        rejects a part.
        """
        return self._objects.all([_INTERPRETER, *kernels_by_name(module.operation)])
