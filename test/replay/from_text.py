"""What the texts of a compilation give again: its S1 each later stage, its S4 the artifact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.driver.from_schedule import schedule_artifact
from rcompiler.frontend import import_onnx
from rcompiler.model import Explained
from rcompiler.passes._pipeline_text import read, runner
from rcompiler.passes.constants.model_context import ModelContext
from rcompiler.pipelines._lowering import Lowering
from rcompiler.runtime.artifact import Artifact
from rcompiler.schedule_text import mlir_form, schedule_form
from rcompiler.support.lru_cache import clear_all

from .cases import Case
from .hashes import compilation, network


def unlike(case: Case, artifact: Artifact) -> list[str]:
    """The stages that are not what compile_onnx made, in their order: of printed S1, run by the
    text of its pipeline, S2 to S4; of S3 and S4 their schedule form, which is read as the same
    module; of printed S4 "code" and all of the artifact.
    """
    run, options = compilation(case)
    # the policy that was taken, where another one did not fit
    by = replace(options, policy=artifact.provenance["policy"])
    imported = import_onnx(network(case))
    found = texts(artifact.stages["linalg"], imported.constants, str(run.lowering(by)))
    wrong = [stage for stage, text in found.items() if text != artifact.stages[stage]]
    wrong += [f"form of {stage}" for stage in ("rkernel", "vdevice") if not _same(found[stage])]
    clear_all()  # code is made of the text, not remembered
    constants = _Held(artifact).constants()
    again = schedule_artifact(artifact.stages["vdevice"], constants, machine_code=False)
    same = {
        "code": again.image == artifact.image,
        "artifact": again.certificate == artifact.certificate,
    }
    return wrong + [what for what, equal in same.items() if not equal]


class _Held(Explained):
    """A model that is not loaded."""

    def __init__(self, artifact: Artifact) -> None:
        self._artifact = artifact


def _same(text: str) -> bool:
    """Whether the schedule form of a module is read as the same one."""
    with dialects.load(ir.Context()), ir.Location.unknown():
        return str(ir.Module.parse(mlir_form(schedule_form(text)).text)) == text


def texts(linalg: str, arrays: Mapping[str, np.ndarray], pipeline: str) -> dict[str, str]:
    """S2, S3 and S4 by their names, of an S1 text by the text of a pipeline."""
    [lowering] = read(pipeline)
    assert isinstance(lowering, Lowering)
    stages = {
        "rtask": lowering.to_rtask(),
        "rkernel": lowering.to_rkernel(),
        "vdevice": lowering.to_vdevice(),
    }
    found = {}
    with dialects.load(ModelContext(arrays)) as context, ir.Location.unknown():
        module = ir.Module.parse(linalg)
        for stage, passes in stages.items():
            runner(passes, context)(module)
            found[stage] = str(module)
    return found
