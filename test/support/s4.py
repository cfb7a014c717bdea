"""Stage S4 of ONNX models, and what its text means: its schedule, rTask by rTask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from interpreted_stage import Stage, stage_of
from numpy_schedule import Results, program_results
from torch_mlir import ir


@dataclass(frozen=True)
class S4(Stage):
    """witness: told of each call what has run."""

    witness: Callable[[Results], None] = lambda _: None

    def _results(
        self, module: ir.Module, inputs: Sequence[np.ndarray], seed: int
    ) -> list[np.ndarray]:
        found = program_results(module, inputs, self.constants, seed)
        self.witness(found)
        return found.outputs


def s4_of(
    model: Any,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, np.ndarray] | None = None,
    target: str = "cpu",
    bounds: Mapping[str, int] | None = None,
) -> S4:
    """Stage S4 as `compile_onnx` makes it, see `stage_of`."""
    return stage_of(
        S4,
        lambda lowering: [*lowering.to_rtask(), *lowering.to_rkernel(), *lowering.to_vdevice()],
        model, shapes, values, target, bounds,
    )  # fmt: skip
