"""Programs of a model for one of its sizes each, whose weights lie in one block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rcompiler.device.model import Device
from rcompiler.driver.compilation import Compilation
from rcompiler.driver.steps import CompilationSteps, Progress
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
        self, shapes: Mapping[str, Any], pool: WeightPool, progress: Progress | None = None
    ) -> Artifact:
        """The program for some shapes, with its weights in the pool.

        Args:
            shapes: a binding of a `SizeSets`.
            pool: of the programs before it.
            progress: as of compile_onnx.

        Raises:
            CompilerError: as compile_onnx.
        """
        run = Compilation(self.options, self.base, CompilationSteps(progress), pool=pool)
        [made] = run.from_onnx(self.model, shapes, self.values, self.device, [self.options])
        return made
