"""The first half of gpu_coverage: ONNX's standard backend tests compiled into a folder, not run.

ONNX's own runner calls a backend that compiles and computes nothing; what the runner would compare
with the results goes into the folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test import BackendTest

from measurements._case_pool import Job, Report, Verdict
from measurements._gpu_coverage_cases import COMPILED, Run, put_tensors
from measurements._packed_folder import PackedFolder
from measurements.backend_coverage import Test, Witness, backend_of, run_test, tests_of
from rcompiler.onnx_backend import Prepared
from rcompiler.runtime.artifact import Artifact


@dataclass(frozen=True)
class Comparison:
    """What a model of a case is called with, what it is to return, and how nearly."""

    artifact: Artifact
    feeds: Sequence[np.ndarray]
    wanted: Sequence[np.ndarray]
    rtol: float
    atol: float


@dataclass
class Recorder:
    """Cases that are compiled, not run. tests: by name; taken: the comparisons of the last one."""

    pattern: str
    target: str
    witness: Witness = field(default_factory=Witness)
    taken: list[Comparison] = field(default_factory=list)
    tests: dict[str, Test] = field(init=False)

    def __post_init__(self) -> None:
        # The driver of the machine that runs them makes machine code of PTX.
        observed = backend_of(self.witness, target=self.target, machine_code=False)
        self.tests = tests_of(_runner(self.taken.append), _compiling(observed), self.pattern)

    def compile(self, name: str, report: Report) -> Verdict:
        """The verdict on the compilation: COMPILED, refused or crash."""
        self.taken.clear()
        self.witness.report = report
        verdict = run_test(self.tests[name], self.witness)
        if verdict.status != "pass":
            return verdict
        if not self.taken:
            return Verdict("crash", "the case compares nothing")
        return replace(verdict, status=COMPILED)


def compiling(folder: PackedFolder, recorder: Recorder) -> Job:
    """A job that compiles a case and keeps its comparisons: "runs" of the verdict's facts."""

    def job(name: str, report: Report) -> Verdict:
        verdict = recorder.compile(name, report)
        if verdict.status != COMPILED:
            return verdict
        runs = [asdict(_kept(folder, comparison)) for comparison in recorder.taken]
        return replace(verdict, facts={**verdict.facts, "runs": runs})

    return job


def _kept(folder: PackedFolder, comparison: Comparison) -> Run:
    with tempfile.TemporaryDirectory() as scratch:
        # Texts of the stages are many times as long as the rest, and nothing there reads them.
        plain = replace(comparison.artifact, stages={})
        artifact = folder.put_artifact(plain, Path(scratch, "model.rcx"))
    feeds, wanted = put_tensors(folder, comparison.feeds), put_tensors(folder, comparison.wanted)
    return Run(artifact, feeds, wanted, comparison.rtol, comparison.atol)


# -- ONNX's runner ---------------------------------------------------------------------------------
class _Compiled(BackendRep):
    """A model whose outputs are, instead, itself for such inputs and its arguments."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        return (self._prepared.compiled(inputs),)


def _compiling(observed: type[Backend]) -> type[Backend]:
    class Compiling(observed):
        @classmethod
        def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> _Compiled:
            return _Compiled(super().prepare(model, device, **kwargs))

    return Compiling


def _runner(take: Callable[[Comparison], None]) -> type[BackendTest]:
    class Runner(BackendTest):
        @classmethod
        def assert_similar_outputs(
            cls,
            ref_outputs: Sequence[Any],
            outputs: Sequence[Any],
            rtol: float,
            atol: float,
            model_dir: str | None = None,
        ) -> None:
            [(model, feeds)] = outputs
            wanted = [_tensor(number, output) for number, output in enumerate(ref_outputs)]
            take(Comparison(model.artifact, feeds, wanted, rtol, atol))

    return Runner


def _tensor(number: int, wanted: Any) -> np.ndarray:
    """What a case expects; numpy's numbers are tensors without dims."""
    if not isinstance(wanted, np.ndarray | np.generic) or wanted.dtype == object:
        raise AssertionError(f"Output {number} is to be no tensor of numbers, but {wanted!r}")
    return np.asarray(wanted)
