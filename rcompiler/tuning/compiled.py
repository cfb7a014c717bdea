"""compile_onnx with tune="warmup" and tune="online"."""

from __future__ import annotations

import math
from typing import Any

from rcompiler.codegen import emit
from rcompiler.device.model import Device
from rcompiler.driver.collector import COLLECTOR
from rcompiler.driver.host import measured_device
from rcompiler.driver.imported_model import ImportedModel
from rcompiler.driver.steps import CompilationSteps, Progress
from rcompiler.errors import CompilerError
from rcompiler.frontend import import_onnx
from rcompiler.model import CompiledModel, Model, model_of
from rcompiler.options import CompileOptions
from rcompiler.tuning.branch import Subject
from rcompiler.tuning.online import SHARE, online_plans
from rcompiler.tuning.space import DIMENSIONS
from rcompiler.tuning.warmup import Tuning

WARMUP_S = 60.0


def checked_budget(tune: str, budget: float | None) -> float:
    """The budget of a way of tuning: seconds of a warm-up, or a share of the served time.

    Raises CompilerError for none, or one that goes with no such tuning.
    """
    if tune not in ("warmup", "online"):
        if budget is not None:
            raise CompilerError(
                f"tune_budget={budget!r} is for tune='warmup' and 'online', and tune is {tune!r}"
            )
        return 0.0
    if budget is None:
        return WARMUP_S if tune == "warmup" else SHARE
    most, what = (math.inf, "seconds") if tune == "warmup" else (1.0, "a share up to 1")
    number = isinstance(budget, int | float) and not isinstance(budget, bool)
    if not number or not 0 < budget <= most or budget == math.inf:
        raise CompilerError(f"tune_budget={budget!r}: for tune={tune!r} give {what}, above 0")
    return float(budget)


def tuned_model(
    model: Any,
    shapes: Any,
    values: Any,
    options: CompileOptions,
    base: Device,
    device: Device | None,
    budget: float,
    progress: Progress | None,
) -> Model:
    """The model with the plan that exploration finds: before it is returned, or while it serves.

    model, shapes, values, progress: as for compile_onnx. base: the target; device: whose figures
    decide, None for what is measured here. budget: see `checked_budget`. Raises as compile_onnx.
    """
    emit.prepare()
    steps = CompilationSteps(progress)
    with steps.boundary(), COLLECTOR.seldom():
        steps.begin("import")
        s1 = import_onnx(model, shapes, values, options.weight_bits, dict(options.bounds))
        imported = ImportedModel.of(s1, options, base)
        steps.begin("device")
        device = device or measured_device(base, options.cache)
        subject = Subject(imported, options, base, device, DIMENSIONS)
        if options.tune == "online":
            steps.begin("plans")
            artifact, plans = online_plans(subject, budget)
            return CompiledModel(artifact, plans=plans) if plans else model_of(artifact)
        tuning = Tuning(subject, told=steps.begin)
        try:
            return model_of(tuning.run(budget).artifact)
        finally:
            tuning.close()
