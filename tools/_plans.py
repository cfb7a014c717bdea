"""The schedule of what a tool is pointed at, to look at, not to run: no code is generated."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from rcompiler.compile import operators_of
from rcompiler.device.model import Device
from rcompiler.device.record import from_json
from rcompiler.device.target import find_device
from rcompiler.driver.artifact_notes import rebuild
from rcompiler.driver.certified import prove
from rcompiler.driver.host import DEFAULT, given_device, measured_device, target_device
from rcompiler.driver.schedule_report import make_report
from rcompiler.errors import ArtifactError, CompilerError, DeviceError, ScheduleError
from rcompiler.model import REPORT
from rcompiler.options import CompileOptions, default_cache
from rcompiler.passes.rammer_schedule import RammerSchedule
from rcompiler.passes.roller_tile import RollerTile
from rcompiler.passes.schedule.tables import read_tables
from rcompiler.rammer.program import Program, Wait
from rcompiler.rammer.schedule import policies
from rcompiler.report import Report
from rcompiler.runtime.artifact import Artifact
from rcompiler.tools._progress import Progress
from rcompiler.tools._sources import SCHEDULES, Source, compile_options, given_options
from rcompiler.viz.view import Plan


def plan_of(options: argparse.Namespace, source: Source, told: Progress) -> Plan:
    """The schedule of an ONNX model on any device record, of a compiled file or of an S4 text.

    options: those of `_sources.add_compile_options`; --device with a schedule that is made already
    says where it is played. told: called with each step. Raises CompilerError.
    """
    if source.proto is not None:
        return _scheduled(options, source, told)
    played_on = _device(options.device) if options.device else None
    artifact = _artifact(argparse.Namespace(**vars(options) | {"device": None}), source, told)
    told("check")
    try:
        return _compiled(source.name, artifact, played_on)
    except ScheduleError as error:
        raise ScheduleError(f"{source.path}: {error}", error.rule) from None
    except (ArtifactError, DeviceError) as error:
        raise type(error)(f"{source.path}: {error}") from None


def _artifact(options: argparse.Namespace, source: Source, told: Progress) -> Artifact:
    """What a compiled file holds, or an S4 text becomes."""
    assert source.path is not None
    if source.path.suffix in SCHEDULES:  # compiled in a process of its own: whatever the text is
        model = source.executable(options, told)
        model.close()
        return model.artifact
    for name in given_options(options):
        raise ArtifactError(
            f"{source.path}: --{name.replace('_', '-')} no longer applies, it was decided when "
            "the ONNX model was compiled. Give the ONNX model with it"
        )
    told("load")
    return Artifact.load(source.path)


def _compiled(name: str, artifact: Artifact, played_on: Device | None) -> Plan:
    """Of what will run, by its streams, and proved; only the times come from the report.

    played_on: the device whose prices hold, if not those of the one that it was made for.
    """
    prove(artifact)
    programs, kernels = rebuild(artifact)
    if REPORT not in artifact.stages:
        raise ArtifactError("the compiled model carries no report; compile the model again")
    facts = artifact.provenance
    device = from_json(facts.get("device", ""), "device of the compiled model")
    report = Report.from_json(artifact.stages[REPORT])
    plan = Plan(name, facts.get("policy", ""), device, programs, kernels, report)
    if played_on is None:
        return plan
    _check_playable(programs, played_on)
    return replace(plan, device=played_on, made_for=device.name)


def _check_playable(programs: Sequence[Program], device: Device) -> None:
    """Programs stay as they are: DeviceError where the device does not have what they need."""
    eus = max((program.eus for program in programs), default=1)
    if eus > device.eus:
        raise DeviceError(
            f"the schedule needs {eus} EUs at the same time, and device {device.name} has "
            f"{device.eus}. Name a device that has them, or compile the model with "
            f"--eus={device.eus}"
        )
    waits = any(
        program.dynamic or any(isinstance(step, Wait) for queue in program.queues for step in queue)
        for program in programs
    )
    if waits and not device.costs.signals:
        raise DeviceError(
            f"the schedule makes EUs wait for one another, and those of device {device.name} meet "
            "in barriers only. Compile the model with --policy="
            f"{' or '.join(policies(device.costs))}"
        )


def _scheduled(options: argparse.Namespace, source: Source, told: Progress) -> Plan:
    """As compile_onnx schedules it, but on any device: a GPU's record needs no GPU."""
    for name in ("target", "tune", "values", "state", "no_fusion"):
        if getattr(options, name):
            option = f"--{name.replace('_', '-')}"
            needs = "generated code" if name in ("target", "tune") else "a whole compilation"
            value = "" if name == "no_fusion" else "=..."
            raise CompilerError(
                f"{option} needs {needs}; rc-compile {source.name} {option}{value} -o m.rcx, and "
                "look at m.rcx"
            )
    given = compile_options(options, source)
    shapes, name = given.pop("shapes", None), given.pop("device", None)
    chosen = CompileOptions(**given)
    told("device")
    device = _device(name)
    with operators_of(
        source.proto, device, shapes=shapes, roots=chosen.roots, progress=told
    ) as module:
        root = module.operation
        for each in (
            RollerTile(policy=chosen.roller_policy, eus=chosen.eus),
            RammerSchedule(chosen.policy, chosen.eus, chosen.kernels),
        ):
            told(each.name())
            each.run(root)
        tables = read_tables(root)
        report = make_report(root, tables, device)
    kernels = [*tables.kernels.values()]
    return Plan(source.name, str(chosen.policy), device, tables.programs, kernels, report)


def _device(name: str | None) -> Device:
    """The device of --device, else the one that compile_onnx would take."""
    if name is not None and name != DEFAULT:
        return find_device(name)
    base = target_device("cpu")
    return given_device("cpu", base, name) or measured_device(base, default_cache())
