"""What random kernels for GPUs are checked with: how many, on which devices, how exactly."""

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
import pytest
from gpu_cases import UNITS, GpuKernel
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kernel_cases import tilings

from rcompiler.kernelgen.simt.move_grid import ThreadBlock
from rcompiler.kernelgen.simt.target import SimtFeatures

few = settings(
    max_examples=6,
    derandomize=True,
    phases=[Phase.generate],  # a case that fails is small enough as it is
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
many = settings(few, max_examples=40)
HALVES = {"float16": "f16", "bfloat16": "bf16"}
Check = Callable[[st.DataObject], None]


def every(checks: Sequence[Check]) -> pytest.MarkDecorator:
    """A test of each check."""
    return pytest.mark.parametrize("check", checks, ids=lambda check: check.__name__)


def try_some(check: Check) -> None:
    """A few random kernels."""
    few(given(data=st.data())(check))()


def try_many(check: Check) -> None:
    """Many random kernels."""
    many(given(data=st.data())(check))()


def dtyped(values: np.ndarray, dtype: str) -> np.ndarray:
    return values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def devices(draw, precision: str = "f32", units: frozenset[str] = UNITS) -> SimtFeatures:
    """Blocks of some warps, with more or less shared memory."""
    threads = draw(st.sampled_from([32, 64, 96, 128, 256]))
    shared = draw(st.sampled_from([24 << 10, 163 << 10]))
    copies = draw(st.booleans())
    block = ThreadBlock(threads)
    return SimtFeatures(block, shared, units=units, precision=precision, asynchronous=copies)


def run(
    data,
    body,
    results,
    inputs,
    outputs,
    *,
    fixed=(),
    precision="f32",
    kind="elementwise",
    units=UNITS,
):
    """The results of a kernel under any tiling, on one or two blocks in some order."""
    draw = data.draw
    lanes = draw(st.sampled_from([1, 2, 4, 8, 16, 32]))
    tile = draw(tilings(tuple(outputs[0][0]), lanes, fixed))
    features = devices(draw, precision, units)
    kernel = GpuKernel(body, results, inputs, outputs, tile, features, kind)
    return kernel.run(
        min(draw(st.integers(1, 2)), kernel.tasks), draw(st.sampled_from([None, 0, 1]))
    )


def close(found: np.ndarray, wanted: np.ndarray, allowed: float) -> None:
    """Errors of at most `allowed` of the largest value."""
    most = allowed * max(np.abs(wanted).max(initial=0), 1e-3)
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=0, atol=most)


PARTS = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}  # half of the last place, and sums
