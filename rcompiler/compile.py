"""compile_onnx: model -> S1 -> S2 -> S3 -> S4 -> code -> a model that runs.

The whole lowering is `_Compilation`, top to bottom. Everything after S4 is made from the S4 text
alone (`compile_schedule`), so that a schedule edited by hand compiles the same way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from torch_mlir import ir

from rcompiler import dialects, kernel_code
from rcompiler.codegen import emit, veu
from rcompiler.codegen.cpu import ObjectCache, Objects, Target
from rcompiler.codegen.link import link
from rcompiler.codegen.llvm_ir import llvm_ir
from rcompiler.collector import COLLECTOR
from rcompiler.device.model import Device
from rcompiler.device.record import to_option
from rcompiler.errors import CompilerError, InvalidModel
from rcompiler.explain import make_report
from rcompiler.frontend import import_onnx
from rcompiler.host import given_device, measured_device, target_device
from rcompiler.isolate import isolated
from rcompiler.kernel_code import KernelCodes
from rcompiler.model import REPORT, STAGES, CompiledModel
from rcompiler.options import (
    CompileOptions,
    Kernels,
    Policy,
    RollerPolicy,
    Roots,
    Scheduler,
    Tune,
    checked_cache,
    checked_eus,
)
from rcompiler.passes._pipeline_text import runner
from rcompiler.passes.constants.deferred import Constant
from rcompiler.passes.constants.fold import fold_constants
from rcompiler.passes.ir.clone import copy_module
from rcompiler.passes.rammer_schedule import RammerSchedule
from rcompiler.passes.roller_tile import RollerTile, tile_operators
from rcompiler.passes.rtask_batch_products import RTaskBatchProducts
from rcompiler.passes.rtask_block_channels import RTaskBlockChannels
from rcompiler.passes.rtask_fuse_axes import RTaskFuseAxes
from rcompiler.passes.rtask_group_dots import RTaskGroupDots
from rcompiler.passes.rtask_merge_siblings import RTaskMergeSiblings
from rcompiler.passes.rtask_pack_weights import RTaskPackWeights
from rcompiler.passes.rtask_sink_reshapes import RTaskSinkReshapes
from rcompiler.passes.rtask_split_k import RTaskSplitK
from rcompiler.passes.rtask_winograd import RTaskWinograd
from rcompiler.passes.schedule.proof import proved_tables
from rcompiler.passes.schedule.tables import Tables, write_constants
from rcompiler.passes.tiling.claims import check_claims
from rcompiler.passes.vdevice_to_cpu import VdeviceToCpu
from rcompiler.pipelines.rc_connect_operators import RcConnectOperators
from rcompiler.pipelines.rc_linalg_to_rtask import RcLinalgToRtask
from rcompiler.profiler.tuner import kernel_tuner
from rcompiler.proof import describe
from rcompiler.provenance import provenance
from rcompiler.runtime.artifact import Artifact, KernelEntry, Program, Tensor
from rcompiler.runtime.image import Image
from rcompiler.runtime.memory import arena, require
from rcompiler.runtime.program import MAX_EUS
from rcompiler.steps import Progress, Steps

# LLVM's name of each feature level; None is the host itself, with all that it has beyond the level.
_LEVELS = {"x86-64": "x86-64", "v3": "x86-64-v3", "v4": "x86-64-v4"}


def compile_onnx(
    model: Any,
    *,
    target: str = "cpu",
    device: Device | str | os.PathLike[str] | None = None,
    shapes: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
    eus: int | None = None,
    policy: Policy = "rammer",
    kernels: Kernels = "auto",
    roller_policy: RollerPolicy = "roller",
    fusion: bool = True,
    tune: Tune = "off",
    roots: Roots = "auto",
    deterministic: bool = True,
    cache: str | os.PathLike[str] | bool | None = None,
    progress: Progress | None = None,
) -> CompiledModel:
    """Compile an ONNX model for a device.

    model: path, bytes or onnx.ModelProto. target: "cpu" (this host), "cpu:v3", "cpu:x86-64", or a
    device file. device: the figures that tiles are chosen by: a device record, the path or the name
    of one, or "default"; None for $RC_DEVICE, else this machine's, which are measured once and kept
    in the cache (default figures without a cache). shapes: static shapes of inputs by name, or
    sizes of symbolic dims. values: arrays by the names of inputs that are to be constants (they are
    no longer inputs). eus: execution units, None for all of the device. policy: who schedules, one
    of `rcompiler.rammer.schedule.POLICIES`. kernels: which rKernels run, where there are several:
    "fast", "efficient", "select", or "auto" for what suits the policy. roller_policy: who decides
    tiles, "roller" (the cost model) or "osdi22" (the search that was published). fusion: group ops
    into rOperators. tune: "off", tiles are chosen by the cost model alone; "kernels", the fastest
    of the ten best by the model, measured on this machine once and kept in the cache. roots: how
    3x3 convolutions are computed: "auto", as is predicted to be the fastest; "direct", as sums of
    all products; "winograd2" or "winograd4", by Winograd's F(2x2) or F(4x4) wherever it can be
    (`rcompiler.roller.roots` has their errors). deterministic: always the case (static choices for
    a device record and a profile index, fixed order of every sum). cache: folder of compiled
    objects, None for the default one, False for none. progress: called with (stage, seconds since
    the start) when a stage begins: import, device, the passes, object, link.

    Raises CompilerError kinds: InvalidModel, UnsupportedOp, ShapeError, DeviceError, ScheduleError.
    """
    if not deterministic:
        raise CompilerError(
            "deterministic=False has no meaning here: every program is deterministic"
        )
    count, folder = checked_eus(eus, MAX_EUS), checked_cache(cache)
    options = CompileOptions(
        target, count, policy, kernels, roller_policy, fusion, folder, tune, roots
    )
    base = target_device(target)
    chosen = given_device(target, base, device)
    run = _Compilation(options, base, progress)
    [artifact] = run.from_onnx(model, shapes, values, chosen, [options])
    return CompiledModel(artifact)


def compile_policies(
    model: Any, schedulers: Sequence[Scheduler], *, eus: int | None = None
) -> dict[Scheduler, CompiledModel]:
    """An ONNX model scheduled in several ways, for this host; else as `compile_onnx`.

    All of them choose from the same rKernels: only the schedules differ.
    """
    options = CompileOptions(eus=checked_eus(eus, MAX_EUS), cache=checked_cache(None))
    variants = [replace(options, **by._asdict()) for by in schedulers]
    base = target_device(options.target)
    device = given_device(options.target, base, None)
    artifacts = _Compilation(options, base, None).from_onnx(model, None, None, device, variants)
    return dict(zip(schedulers, map(CompiledModel, artifacts), strict=True))


@contextmanager
def operators_of(
    model: Any,
    device: Device,
    *,
    shapes: Mapping[str, Any] | None = None,
    roots: Roots = "auto",
) -> Iterator[ir.Module]:
    """The S2 module of an ONNX model: its rOperators, for a profiler. `device` as the tiles need.

    The module lives inside of the context. Raises as `compile_onnx`.
    """
    run = _Compilation(CompileOptions(roots=roots), device, None)
    with dialects.load(ir.Context()) as context, ir.Location.unknown():
        with run.steps.boundary():
            context.enable_multithreading(False)
            imported = import_onnx(model, shapes)
            module = imported.parse(context)
            run.to_rtask(module, imported.constants)
        yield module


def compile_schedule(
    text: str,
    constants: Mapping[str, np.ndarray] | None = None,
    *,
    target: str = "cpu",
    cache: str | os.PathLike[str] | bool | None = None,
    progress: Progress | None = None,
) -> CompiledModel:
    """Compile an S4 module (the text of stage "vdevice", possibly edited) with the constants it
    names.

    constants: arrays by key, as CompiledModel.constants() returns them; only their bytes count. The
    work is done in a process of its own: text written by hand can make MLIR abort.

    Raises InvalidModel for text that is not S4, ScheduleError for a schedule that is not proved
    right.
    """
    options = CompileOptions(target, cache=checked_cache(cache))
    target_device(target)
    return CompiledModel(isolated(text, constants or {}, options, progress))


def schedule_artifact(
    text: str,
    constants: Mapping[str, np.ndarray],
    options: CompileOptions,
    progress: Progress | None = None,
) -> Artifact:
    """What compile_schedule does, in this process."""
    run = _Compilation(options, target_device(options.target), progress)
    emit.prepare()
    with run.steps.boundary(), dialects.load(ir.Context()) as context, ir.Location.unknown():
        context.enable_multithreading(False)
        run.steps.begin("parse")
        try:
            module = ir.Module.parse(text)
        except ir.MLIRError as error:
            raise InvalidModel(f"the schedule is not valid: {error}") from None
        check_claims(module.operation)
        return run.from_schedule(module, constants, options)


class _Compilation:
    """One compilation: keeps the stage texts. device: whose figures decide."""

    def __init__(self, options: CompileOptions, target: Device, progress: Progress | None) -> None:
        self.steps = Steps(progress)
        self._options = options
        self._base = target
        self.device = target
        self._stages: dict[str, str] = {}

    def to_rtask(
        self, module: ir.Module, constants: Mapping[str, Constant]
    ) -> Mapping[str, Constant]:
        """S1 -> S2, in place; the constants that it then needs."""
        self._keep("linalg", module)
        lanes, record = self.device.lanes(4), to_option(self.device)
        self._run(
            module,
            f"cse,{RTaskBatchProducts(record)},{RTaskMergeSiblings(record)},"
            f"{RTaskBlockChannels(lanes)},"
            f"{RTaskWinograd(record, self._options.roots)},{RTaskSinkReshapes()},"
            f"{RTaskPackWeights(lanes)},{RTaskGroupDots()},{RTaskSplitK(record)},cse",
        )
        constants = fold_constants(module.operation, constants)
        self._run(module, str(RcLinalgToRtask(self._options.fusion)))
        if self._options.fusion:
            self._run(module, str(RcConnectOperators(record)))
        self._run(module, str(RTaskFuseAxes(record)))
        # weights in the shapes of fused axes
        constants = fold_constants(module.operation, constants)
        self._keep("rtask", module)
        return constants

    def from_onnx(
        self,
        model: Any,
        shapes: Mapping[str, Any] | None,
        values: Mapping[str, Any] | None,
        device: Device | None,
        schedulers: Sequence[CompileOptions],
    ) -> list[Artifact]:
        """The model by each of `schedulers`, which differ in policy and kernels only; device: None
        for what is measured here."""
        emit.prepare()  # a process that runs LLVM, so that it is there when code is generated
        with self.steps.boundary(), COLLECTOR.seldom():
            self.steps.begin("import")
            imported = import_onnx(model, shapes, values)
            self.steps.begin("device")
            self.device = device or measured_device(self._base, self._options.cache)
            with dialects.load(ir.Context()) as context, ir.Location.unknown():
                context.enable_multithreading(False)
                module = imported.parse(context)
                kernel_code.prepare(module)
                return self.from_linalg(module, imported.constants, schedulers)

    def from_linalg(
        self,
        module: ir.Module,
        constants: Mapping[str, Constant],
        schedulers: Sequence[CompileOptions],
    ) -> list[Artifact]:
        options, record = self._options, to_option(self.device)
        constants = self.to_rtask(module, constants)
        if options.tune == "kernels":
            self.steps.begin("tune")
            with kernel_tuner(
                self.device,
                self._base,
                self._target(),
                options.cache,
                options.roller_policy,
                options.eus or None,
            ) as tuner:
                tile_operators(module.operation, tuner.decide)
        else:
            tile = RollerTile(record, policy=options.roller_policy, eus=options.eus)
            self._run(module, str(tile))
        self._keep("rkernel", module)
        found = []
        for by in schedulers:
            # of several, each schedules a copy
            copy = module if len(schedulers) == 1 else copy_module(module)
            self._run(copy, str(RammerSchedule(by.policy, by.eus, record, by.kernels)))
            found.append(self.from_schedule(copy, constants, by))
        return found

    def from_schedule(
        self, module: ir.Module, constants: Mapping[str, Constant], scheduler: CompileOptions
    ) -> Artifact:
        self._keep("vdevice", module)
        cache = ObjectCache(self._options.cache) if self._options.cache is not None else None
        with Objects(self._target(), cache=cache) as objects:
            objects.add(-1, llvm_ir(veu.module_text()))
            codes = KernelCodes(module, str(VdeviceToCpu(to_option(self.device))), objects)
            with codes.begun():
                tables, weights = self._proved(module, constants)
                report = make_report(module.operation, tables, self.device)
                self._stages[REPORT] = report.to_json()
                self.steps.begin(VdeviceToCpu.name())
                self._stages["llvm"] = codes.finish()
            self.steps.begin("object")
            found = objects.all()
        self.steps.begin("link")
        return self._artifact(link(found), tables, weights, scheduler)

    def _proved(
        self, module: ir.Module, constants: Mapping[str, Constant]
    ) -> tuple[Tables, np.ndarray]:
        """The schedule as data, when it is proved right, and the weights of the model."""
        self.steps.begin("prove")
        tables = proved_tables(module.operation)
        inputs, outputs = tables.sizes()
        total = sum((*tables.memory(), *inputs, *outputs))
        require(total, "inputs, outputs, weights and temporary tensors of the model")
        weights = arena(tables.memory()[1], "weights of the model")
        write_constants(module.operation, constants, weights)
        return tables, weights

    def _artifact(
        self, image: Image, tables: Tables, weights: np.ndarray, scheduler: CompileOptions
    ) -> Artifact:
        target, kernels = self._target(), tables.kernels.values()
        return Artifact(
            image=image,
            kernels=tuple(
                KernelEntry(
                    k.name,
                    k.tasks,
                    tuple(a.bytes for a in (*k.reads, *k.writes)),
                    len(k.writes),
                    k.workspace,
                )
                for k in kernels
            ),
            programs=tuple(
                Program(p.name, p.streams, p.events, p.operators, p.taken_by)
                for p in tables.launches
            ),
            inputs=tuple(Tensor(t.name, t.shape, t.dtype) for t in tables.inputs),
            outputs=tuple(Tensor(t.name, t.shape, t.dtype) for t in tables.outputs),
            arena_bytes=tables.memory()[0],
            constants=weights,
            target=target.name,
            cpu_flags=tuple(target.required),
            provenance=provenance(scheduler, target, self.device, self._stages["vdevice"]),
            proof=describe(tables.programs, kernels),
            stages=dict(self._stages),
        )

    def _target(self) -> Target:
        if self._options.target == "cpu":
            return Target.named("host")
        return Target.named(_LEVELS[self._base.level_name])

    def _run(self, module: ir.Module, pipeline: str) -> None:
        """Run passes of a stage; `_keep` verifies its result, once for all of them."""
        self._pipeline(pipeline, module.context, verify=False)(module)

    def _pipeline(
        self, text: str, context: ir.Context, *, verify: bool = True
    ) -> Callable[[ir.Module], None]:
        """A pipeline that can run on several modules, as the step that begins now."""
        self.steps.begin(text.partition("{")[0])
        return runner(text, context, verify=verify)

    def _keep(self, stage: str, module: ir.Module) -> None:
        """Verify the result of a stage and note its text."""
        try:
            module.operation.verify()
        except ir.MLIRError as error:
            raise CompilerError(
                f"the result of stage '{stage}' is not valid: {error}; this is a defect of the "
                "compiler, report it with the model"
            ) from error
        self._stages[stage] = module.operation.get_asm(assume_verified=True)


__all__ = [
    "STAGES",
    "compile_onnx",
    "compile_policies",
    "compile_schedule",
    "operators_of",
    "schedule_artifact",
]
