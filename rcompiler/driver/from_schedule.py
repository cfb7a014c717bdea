"""What the text of a schedule (stage S4) says, compiled in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.codegen import emit
from rcompiler.device.host_flags import LEVELS
from rcompiler.device.instruction_set import InstructionSet
from rcompiler.device.model import Device
from rcompiler.device.target import canonical, is_host, kind_name
from rcompiler.driver.compilation import Compilation
from rcompiler.driver.host import target_device
from rcompiler.driver.steps import CompilationSteps, Progress
from rcompiler.errors import DeviceError, InvalidModel
from rcompiler.options import CompileOptions, Precision
from rcompiler.passes.constants.model_context import ModelContext
from rcompiler.passes.ir.module_device import ATTRIBUTE, Attached, attached
from rcompiler.passes.tiles.named_ops import generalise
from rcompiler.passes.tiling.claims import check_claims
from rcompiler.runtime.artifact import Artifact
from rcompiler.schedule_text import is_schedule_form, mlir_form


def schedule_artifact(
    text: str,
    constants: Mapping[str, np.ndarray],
    *,
    target: str | None = None,
    precision: Precision | None = None,
    machine_code: bool = True,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Artifact:
    """What isolate.compile_schedule does, in this process. cache: None for none."""
    steps, context = CompilationSteps(progress), dialects.load(ModelContext(constants))
    emit.prepare()
    with steps.boundary(), context, ir.Location.unknown():
        steps.begin("parse")
        form = mlir_form(text) if is_schedule_form(text) else None
        try:
            module = ir.Module.parse(form.text if form else text)
        except ir.MLIRError as error:
            message = form.explained(str(error)) if form else str(error)
            raise InvalidModel(f"the schedule is not valid: {message}") from None
        made_for = _made_for(module.operation, target, precision)
        options = CompileOptions(
            made_for.target, cache=cache, precision=made_for.precision, machine_code=machine_code
        )
        generalise(module.operation)
        check_claims(module.operation)
        return Compilation(options, made_for.device, steps).from_schedule(module, options)


def _made_for(module: ir.Operation, target: str | None, precision: Precision | None) -> Attached:
    """What a schedule says that it is for, which is what it is compiled for.

    Raises DeviceError where the caller asks for something else, where what it says does not agree,
    and where it is for the machine that it was made on, and this one has less.
    """
    found = attached(module)
    asked_for = canonical(target) if target else target
    given = {"target": (asked_for, found.target), "precision": (precision, found.precision)}
    for what, (asked, there) in given.items():
        if asked is not None and asked != there:
            raise DeviceError(
                f"{what}={asked!r}: the schedule is for {what} '{there}'; leave {what} out, or "
                "compile the ONNX model with it"
            )
    name = kind_name(found.device)
    if found.target == "cpu":
        if missing := _used(found.device) - target_device("cpu").all_features:
            raise DeviceError(
                f"the schedule is for a CPU with {', '.join(sorted(missing))}, which this machine "
                "lacks; compile the ONNX model here"
            )
        agrees = found.device.is_cpu
    elif is_host(found.target):
        agrees = found.device.is_cpu and _is_for(found.target, found.device)
    else:
        agrees = kind_name(target_device(found.target)) == name
    if not agrees:
        raise DeviceError(
            f"{ATTRIBUTE}: the target is '{found.target}', and the figures are those of {name}; "
            "compile the ONNX model again"
        )
    return found


def _used(device: Device) -> frozenset[str]:
    """The features of a CPU that code for its level uses; a record may have others."""
    if device.level_name not in LEVELS:
        return device.all_features
    return InstructionSet.of(device.level_name, device.features).features


def _is_for(target: str, device: Device) -> bool:
    """Whether a CPU is of the level of a target, and code for it uses no feature beside that."""
    wanted = InstructionSet.named(target.partition(":")[2])
    used = InstructionSet.of(device.level_name, device.features)
    return used.level == wanted.level and used.added <= wanted.added
