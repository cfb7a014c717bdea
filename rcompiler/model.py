"""What compile_onnx returns: a model that runs, explains itself and can be saved."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rcompiler.errors import CompilerError
from rcompiler.report import Report
from rcompiler.runtime.artifact import Artifact, Tensor
from rcompiler.runtime.executable import Executable


class CompiledModel:
    """numpy in, list of numpy out; calls from several threads run one after the other."""

    def __init__(self, artifact: Artifact, report: Report, stages: Mapping[str, str]) -> None:
        self.artifact = artifact
        self._report = report
        self._stages = stages
        self._executable = Executable(artifact)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Name, shape and dtype of every input, in call order."""
        return self._executable.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Name, shape and dtype of every output."""
        return self._executable.outputs

    @property
    def eus(self) -> int:
        """Execution units (threads) in use."""
        return self._executable.eus

    def __call__(self, *arrays: Any, **by_name: Any) -> list[np.ndarray]:
        """Run once; inputs by position or by name. Raises ShapeError for a wrong name, shape or dtype."""
        return self._executable(*arrays, **by_name)

    def stage(self, name: str) -> str:
        """The text of a stage: linalg, rtask, rkernel, vdevice, llvm."""
        if name not in self._stages:
            raise CompilerError(f"there is no stage {name!r}; there are: {', '.join(self._stages)}")
        return self._stages[name]

    def report(self) -> Report:
        """Per operator the tiles and why; of the schedule makespan, bounds, idle time and memory."""
        return self._report

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the .rcx file, atomically."""
        self.artifact.save(Path(path))

    def close(self) -> None:
        """Stop the threads."""
        self._executable.close()
