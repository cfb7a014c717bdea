"""Stage S3 of ONNX models, and what its text means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from interpreted_stage import Stage, stage_of
from numpy_linalg import function_results
from torch_mlir import ir

from rcompiler.passes import Element


class S3(Stage):
    """Each operator by the first of its kernels."""

    def _results(
        self, module: ir.Module, inputs: Sequence[np.ndarray], seed: int
    ) -> list[np.ndarray]:
        return function_results(module, inputs, self.constants, seed)


def s3_of(
    model: Any,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, np.ndarray] | None = None,
    target: str = "cpu",
    then: Sequence[Element] = (),
    bounds: Mapping[str, int] | None = None,
) -> S3:
    """Stage S3 as `compile_onnx` makes it; then: passes that run behind it. See `stage_of`."""
    return stage_of(
        S3,
        lambda lowering: [*lowering.to_rtask(), *lowering.to_rkernel(), *then],
        model, shapes, values, target, bounds,
    )  # fmt: skip
