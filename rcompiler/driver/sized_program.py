"""Programs of a model for one of its sizes each, whose weights lie in one block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rcompiler.device.model import Device
from rcompiler.driver.compilation import Compilation
from rcompiler.driver.steps import CompilationSteps, Progress
from rcompiler.frontend.packed.packing import Packing
from rcompiler.options import CompileOptions
from rcompiler.passes.constants.weight_pool import WeightPool
from rcompiler.runtime.artifact import Artifact


@dataclass(frozen=True)
class SizedPrograms:
    """What all programs of a model have in common.

    Attributes:
        model, values: as of compile_onnx.
        options: of the compilation.
        base: the device of the target.
        device: whose figures decide; None for what is measured here.
    """

    model: Any
    values: Mapping[str, Any] | None
    options: CompileOptions
    base: Device
    device: Device | None

    def program(
        self, sizes: Mapping[str, Any] | Packing, pool: WeightPool, progress: Progress | None = None
    ) -> Artifact:
        """The program for some sizes, with its weights in the pool.

        Args:
            sizes: a binding of a `SizeSets` or of a `Packings`.
            pool: of the programs before it.
            progress: as of compile_onnx.

        Raises:
            CompilerError: as compile_onnx.
        """
        run = Compilation(self.options, self.base, CompilationSteps(progress), pool=pool)
        packing = sizes if isinstance(sizes, Packing) else None
        shapes = None if isinstance(sizes, Packing) else sizes
        given = self.model, shapes, self.values, self.device, [self.options]
        [made] = run.from_onnx(*given, packing=packing)
        return made
