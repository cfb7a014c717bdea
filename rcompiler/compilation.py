"""The whole lowering, top to bottom: S1 -> S2 -> S3 -> S4 -> code.

Everything after S4 is made from the S4 text alone, so that a schedule edited by hand compiles the
same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch_mlir import ir

from rcompiler import dialects, kernel_code
from rcompiler.codegen import emit, veu
from rcompiler.codegen.cpu import LLVM_LEVELS, ObjectCache, Objects, Target
from rcompiler.codegen.link import link
from rcompiler.codegen.llvm_ir import llvm_ir
from rcompiler.collector import COLLECTOR
from rcompiler.device.model import Device
from rcompiler.device.record import to_option
from rcompiler.errors import ScheduleError, TooManyBlocks
from rcompiler.explain import make_report
from rcompiler.frontend import Imported, import_onnx
from rcompiler.gpu_devices import is_emulated
from rcompiler.gpu_image import GpuGeneration
from rcompiler.host import measured_device
from rcompiler.kernel_code import KernelCode, KernelCodes, gathered
from rcompiler.model import REPORT
from rcompiler.optional_passes import OptionalPasses
from rcompiler.options import CompileOptions
from rcompiler.passes._pipeline_text import runner
from rcompiler.passes.constants.deferred import Constant
from rcompiler.passes.constants.fold import fold_constants
from rcompiler.passes.ir.clone import copy_module
from rcompiler.passes.rammer_schedule import RammerSchedule
from rcompiler.passes.roller_tile import RollerTile, tile_operators
from rcompiler.passes.rtask_batch_products import RTaskBatchProducts
from rcompiler.passes.rtask_block_channels import RTaskBlockChannels
from rcompiler.passes.rtask_expand_products import RTaskExpandProducts
from rcompiler.passes.rtask_fuse_axes import RTaskFuseAxes
from rcompiler.passes.rtask_group_dots import RTaskGroupDots
from rcompiler.passes.rtask_merge_siblings import RTaskMergeSiblings
from rcompiler.passes.rtask_pack_weights import RTaskPackWeights
from rcompiler.passes.rtask_round_factors import RTaskRoundFactors
from rcompiler.passes.rtask_sink_reshapes import RTaskSinkReshapes
from rcompiler.passes.rtask_split_k import RTaskSplitK
from rcompiler.passes.rtask_split_reductions import RTaskSplitReductions
from rcompiler.passes.rtask_winograd import RTaskWinograd
from rcompiler.passes.schedule.proof import proved_tables
from rcompiler.passes.schedule.tables import Indices, Tables, TensorInfo, write_constants
from rcompiler.passes.vdevice_pin import VdevicePin
from rcompiler.passes.vdevice_prefetch import VdevicePrefetch
from rcompiler.passes.vdevice_to_cpu import VdeviceToCpu
from rcompiler.pipelines.rc_connect_operators import RcConnectOperators
from rcompiler.pipelines.rc_linalg_to_rtask import RcLinalgToRtask
from rcompiler.profiler.tuner import kernel_tuner
from rcompiler.proof import describe
from rcompiler.provenance import Machine, provenance
from rcompiler.rammer.certificate import certificate
from rcompiler.report import Report
from rcompiler.runtime.artifact import Artifact, KernelEntry, Program, Tensor
from rcompiler.runtime.gpu.image import GpuImage
from rcompiler.runtime.gpu.launches import independent
from rcompiler.runtime.image import Image
from rcompiler.runtime.memory import arena, require
from rcompiler.runtime.program import IndexCheck, IndexRange
from rcompiler.stage_texts import StageTexts
from rcompiler.steps import Progress, Steps


class Compilation:
    """One compilation, with the texts of its stages. device: whose figures decide."""

    def __init__(self, options: CompileOptions, target: Device, progress: Progress | None) -> None:
        self.steps = Steps(progress)
        self._options = options
        self._base = target
        self.device = target
        self.optional = OptionalPasses(options.cache)
        self._texts = StageTexts()

    def to_rtask(
        self, module: ir.Module, constants: Mapping[str, Constant]
    ) -> Mapping[str, Constant]:
        """S1 -> S2, in place; the constants that it then needs."""
        self._texts.keep("linalg", module)
        lanes, record = self.device.lanes(4), to_option(self.device)
        roots, precision = self._options.roots, self._options.precision
        units, gpu = self.device.matrix_elements, not self.device.is_cpu
        if precision in units:
            # Winograd's filtering saves multiplications, which are what matrix units have plenty of
            roots = "direct" if roots == "auto" else roots
            if precision in ("f16", "bf16"):
                self._run(module, f"cse,{RTaskRoundFactors(precision)},cse")
                constants = fold_constants(module.operation, constants)
        if self._options.normalise:
            self._run(module, f"cse,{RTaskBatchProducts(record)},{RTaskMergeSiblings(record)}")
        # of results as the model splits them, and as packing does
        expand = f"cse,{RTaskExpandProducts()}," if precision in units else ""
        group = "" if gpu else f"{RTaskGroupDots()},"
        self._run(
            module,
            f"{expand}cse,{RTaskBlockChannels(lanes)},"
            f"{RTaskWinograd(record, roots)},{RTaskSinkReshapes()},"
            f"{RTaskPackWeights(lanes, not self.device.has_wgmma, gpu)},{expand}"
            f"{group}{RTaskSplitK(record)},{RTaskSplitReductions(record)},cse",
        )
        constants = fold_constants(module.operation, constants)
        self._run(module, str(RcLinalgToRtask(self._options.fusion)))
        if self._options.fusion:
            self._run(module, str(RcConnectOperators(record, precision)))
        self._run(module, str(RTaskFuseAxes(record, precision)))
        # weights in the shapes of fused axes
        constants = fold_constants(module.operation, constants)
        self._texts.keep("rtask", module)
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
            found = self.optional.compiled(lambda: self._from_import(imported, schedulers))
        self.optional.warn(stacklevel=3)  # of the function that users call
        return found

    def _from_import(
        self, imported: Imported, schedulers: Sequence[CompileOptions]
    ) -> list[Artifact]:
        """One attempt, with the optional passes that are not left out."""
        self._texts = StageTexts()
        with self._texts.blamed(), dialects.load(ir.Context()) as context, ir.Location.unknown():
            context.enable_multithreading(False)
            module = imported.parse(context)
            kernel_code.prepare(module)
            found = self.from_linalg(module, imported.constants, schedulers)
        notes = [str(each) for each in self.optional.notes]
        return [_noted(each, *notes) if notes else each for each in found]

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
            tile = RollerTile(
                record,
                policy=options.roller_policy,
                eus=options.eus,
                precision=options.precision,
            )
            self._run(module, str(tile))
        self._texts.keep("rkernel", module)
        found = []
        for by in schedulers:
            # of several, each schedules a copy
            copy = module if len(schedulers) == 1 else copy_module(module)
            # an EU of a GPU runs one block or more, or none of any schedule
            may_not_fit = by.or_wave and not self._base.is_cpu and by.eus > self.device.eus
            spare = copy_module(copy) if may_not_fit else None
            try:
                found.append(self._scheduled(copy, constants, by))
            except TooManyBlocks as error:
                if spare is None:
                    raise
                launched = self._scheduled(spare, constants, replace(by, policy="wave"))
                note = f"policy 'wave', one launch per wave, instead of '{by.policy}': {error}"
                found.append(_noted(launched, note))
        return found

    def _scheduled(
        self, module: ir.Module, constants: Mapping[str, Constant], by: CompileOptions
    ) -> Artifact:
        """An S3 module as `by` schedules it; it becomes S4, and code."""
        record = to_option(self.device)
        self._run(module, str(RammerSchedule(by.policy, by.eus, record, by.kernels)))
        if self.device.is_nvidia:
            self._run(module, str(VdevicePin(record, self._options.precision)))
            self._run(module, str(VdevicePrefetch(record)))
        return self.from_schedule(module, constants, by)

    def from_schedule(
        self, module: ir.Module, constants: Mapping[str, Constant], scheduler: CompileOptions
    ) -> Artifact:
        self._texts.keep("vdevice", module)
        make = self._for_cpu if self._base.is_cpu else self._for_gpu
        return make(module, constants, scheduler)

    def _for_cpu(
        self, module: ir.Module, constants: Mapping[str, Constant], scheduler: CompileOptions
    ) -> Artifact:
        cache = ObjectCache(self._options.cache) if self._options.cache is not None else None
        with Objects(self._target(), cache=cache) as objects:
            objects.add(-1, llvm_ir(veu.module_text()))
            lower = str(VdeviceToCpu(to_option(self.device)))

            def made(number: int, code: KernelCode) -> None:
                objects.add(number, code.llvm_ir)

            codes = KernelCodes(module, [("llvm", lower)], made)
            with codes.begun():
                tables, weights = self._proved(module, constants)
                report = make_report(module.operation, tables, self.device)
                self._texts.add(REPORT, report.to_json())
                self.steps.begin(VdeviceToCpu.name())
                functions = gathered(codes.finish(), "llvm").values()
                self._texts.add("llvm", "\n".join(["module {", *functions, "}\n"]))
            self.steps.begin("object")
            found = objects.all()
        self.steps.begin("link")
        target = self._target()
        machine = Machine(target.name, "cpu", target.cpu, target.features, tuple(target.required))
        return self._artifact(link(found), machine, tables, weights, scheduler)

    def _for_gpu(
        self, module: ir.Module, constants: Mapping[str, Constant], scheduler: CompileOptions
    ) -> Artifact:
        generation = GpuGeneration(module, self.device, self._options.precision)
        with generation.begun():
            tables, weights = self._proved(module, constants)
            if taken := [p.name for p in tables.launches if p.taken_by]:
                raise ScheduleError(
                    f"program '{taken[0]}' consists of queues that EUs take when they are free "
                    f"(policy 'dynamic'), and the blocks of {self._options.target} take none; "
                    "choose another policy, 'rammer' for one"
                )
            apart = all(independent(launch.streams) for launch in tables.launches)
            report = make_report(module.operation, tables, self.device)
            assembled = scheduler.machine_code and not is_emulated(self._options.target)
            code = generation.finish(
                1 if apart else tables.eus, machine_code=assembled, begin=self.steps.begin
            )
        for stage, text in code.stages.items():
            self._texts.add(stage, text)
        if code.made.registers is not None:
            report = report.assembled(code.made.registers, code.made.spilled)
        self._texts.add(REPORT, report.noted(*code.made.notes).to_json())
        machine = Machine(self._options.target, "gpu", code.image.chip, tools=code.made.tools)
        return self._artifact(code.image, machine, tables, weights, scheduler)

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
        self,
        image: Image | GpuImage,
        machine: Machine,
        tables: Tables,
        weights: np.ndarray,
        scheduler: CompileOptions,
    ) -> Artifact:
        kernels, stages = tables.kernels.values(), self._texts.all()
        witness = certificate(tables.programs)
        return Artifact(
            image=image,
            kernels=tuple(
                KernelEntry(
                    k.name,
                    k.tasks,
                    k.operand_bytes,
                    len(k.writes),
                    k.workspace,
                    k.pinned,
                )
                for k in kernels
            ),
            programs=tuple(
                Program(p.name, p.streams, p.events, p.operators, p.taken_by)
                for p in tables.launches
            ),
            inputs=tuple(Tensor(t.name, t.shape, t.dtype) for t in tables.inputs),
            outputs=tuple(Tensor(t.name, t.shape, t.dtype) for t in tables.outputs),
            ranges=tuple(IndexRange(name, *_range(i)) for name, i in _told(tables.inputs)),
            checks=tuple(IndexCheck(*_range(i)) for _, i in _told(tables.checks)),
            arena_bytes=tables.memory()[0],
            constants=weights,
            target=machine.name,
            cpu_flags=machine.flags,
            provenance=provenance(
                scheduler,
                machine,
                self.device,
                stages["vdevice"],
                [each.name for each in self.optional.notes],
            ),
            proof=describe(tables.programs, kernels, witness.lines),
            clocks=witness.clocks,
            stages=stages,
        )

    def _target(self) -> Target:
        if self._options.target == "cpu":
            return Target.named("host")
        return Target.named(LLVM_LEVELS[self._base.level_name])

    def _run(self, module: ir.Module, pipeline: str) -> None:
        """Run passes of a stage; its result is verified when its text is kept."""
        self._pipeline(pipeline, module.context, verify=False)(module)

    def _pipeline(
        self, text: str, context: ir.Context, *, verify: bool = True
    ) -> Callable[[ir.Module], None]:
        """A pipeline that can run on several modules, as the step that begins now."""
        self.steps.begin(text.partition("{")[0])
        return runner(text, context, verify=verify, watch=self.optional)


def _told(tensors: Sequence[TensorInfo]) -> list[tuple[str, Indices]]:
    """Those of a signature of whose indices something is said."""
    return [(tensor.name, tensor.indices) for tensor in tensors if tensor.indices is not None]


def _range(indices: Indices) -> tuple[int, int, str]:
    return indices.first, indices.last, indices.reader


def _noted(artifact: Artifact, *notes: str) -> Artifact:
    """The same with notes in its report."""
    report = Report.from_json(artifact.stages[REPORT]).noted(*notes)
    return replace(artifact, stages={**artifact.stages, REPORT: report.to_json()})
