"""The second half of gpu_coverage: a case run on the device, in a worker that a failure may end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from measurements._case_pool import Job, Report, Verdict
from measurements._gpu_coverage_cases import Case, Run, get_tensors
from measurements._gpu_engines import describe, gpu_model
from measurements._packed_folder import PackedFolder
from rcompiler.driver.gpu_devices import open_device
from rcompiler.errors import CompilerError
from rcompiler.runtime.gpu.driver import Driver

_BFLOAT16 = 2**-6  # two units in the last place, which ONNX allows


def running(folder: PackedFolder, cases: Mapping[str, Case], wait_limit_s: float) -> Job:
    """A job that runs a case and compares. wait_limit_s: of waits inside of kernels."""
    held: list[Driver] = []  # what keeps the CUDA context of a worker from case to case

    def job(name: str, report: Report) -> Verdict:
        case = cases[name]
        report(case.operator)
        for run in case.runs:
            try:
                model = gpu_model(folder, run.artifact, name, wait_limit_s=wait_limit_s)
                if not held:
                    held.append(open_device(model.artifact))
                outputs = model(*get_tensors(folder, run.feeds))
            except CompilerError as error:  # of a launch that failed: with the context
                return Verdict("crash", f"{type(error).__name__}: {error}")
            try:
                check_similar(outputs, get_tensors(folder, run.wanted), run.rtol, run.atol)
            except AssertionError as error:
                return Verdict("wrong", str(error), case.facts)
        return Verdict("pass", facts=case.facts)

    return job


def describing(folder: PackedFolder, run: Run) -> Job:
    """A job that says on which device a run would be: facts of a pass."""

    def job(name: str, report: Report) -> Verdict:
        try:
            return Verdict(
                "pass", facts=describe(open_device(gpu_model(folder, run.artifact, name).artifact))
            )
        except CompilerError as error:
            return Verdict("refused", str(error))

    return job


def check_similar(
    outputs: Sequence[np.ndarray], wanted: Sequence[np.ndarray], rtol: float, atol: float
) -> None:
    """As ONNX's runner compares tensors. Raises AssertionError."""
    np.testing.assert_equal(len(outputs), len(wanted))
    for number, (output, want) in enumerate(zip(outputs, wanted, strict=True)):
        about = f"Output {number} has another "
        np.testing.assert_equal(output.shape, want.shape, about + "shape")
        np.testing.assert_equal(output.dtype, want.dtype, about + "type")
        allowed = rtol
        if want.dtype.name == "bfloat16":  # which numpy does not know to promote
            allowed = max(rtol, _BFLOAT16)
            output, want = output.astype(np.float32), want.astype(np.float32)
        np.testing.assert_allclose(output, want, rtol=allowed, atol=atol)
