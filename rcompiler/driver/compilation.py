"""The whole lowering, top to bottom: S1 -> S2 -> S3 -> S4 -> code.

Everything after S4 is a function of the S4 text alone, so that a schedule edited by hand compiles
the same way. What of it is of one rKernel begins when that is constructed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.codegen import emit
from rcompiler.codegen.cpu import ObjectCache, Target
from rcompiler.codegen.link import link
from rcompiler.device.instruction_set import InstructionSet
from rcompiler.device.model import Device
from rcompiler.device.target import is_host, name_of
from rcompiler.driver import kernel_code
from rcompiler.driver.artifact_notes import describe
from rcompiler.driver.collector import COLLECTOR
from rcompiler.driver.cpu_image import CpuGeneration
from rcompiler.driver.gpu_devices import is_emulated
from rcompiler.driver.host import measured_device
from rcompiler.driver.imported_model import ImportedModel
from rcompiler.driver.optional_passes import OptionalPasses
from rcompiler.driver.provenance import Machine, provenance
from rcompiler.driver.schedule_report import make_report
from rcompiler.driver.stage_texts import StageTexts
from rcompiler.driver.steps import CompilationSteps
from rcompiler.errors import ScheduleError, TooManyBlocks
from rcompiler.frontend import import_onnx
from rcompiler.frontend.packed.packing import Packing
from rcompiler.model import REPORT
from rcompiler.options import CompileOptions, OwnPolicy
from rcompiler.passes import Element, find
from rcompiler.passes._pipeline_text import runner
from rcompiler.passes.constants.fold import constant_keys
from rcompiler.passes.constants.model_context import ModelContext, context_of
from rcompiler.passes.constants.storing import storage_of
from rcompiler.passes.constants.weight_pool import WeightPool
from rcompiler.passes.ir.clone import copy_module
from rcompiler.passes.roller_tile import Decide, tile_operators
from rcompiler.passes.schedule.tables import (
    Indices,
    Tables,
    TensorInfo,
    proved_tables,
    write_constants,
)
from rcompiler.passes.vdevice_pool_weights import VdevicePoolWeights
from rcompiler.passes.vdevice_to_cpu import VdeviceToCpu
from rcompiler.pipelines.rc_cpu import RcCpu
from rcompiler.rammer.certificate import certificate
from rcompiler.report import Report
from rcompiler.runtime.artifact import Artifact, KernelEntry, Program, Tensor
from rcompiler.runtime.deferred import Constant
from rcompiler.runtime.gpu.image import GpuImage
from rcompiler.runtime.gpu.launches import independent
from rcompiler.runtime.image import Image
from rcompiler.runtime.memory import arena, require
from rcompiler.runtime.program import IndexCheck, IndexRange, State
from rcompiler.runtime.storage import Storage
from rcompiler.support import stage_arrays
from rcompiler.support.callers import callers_level

# What a model for a CPU does not need is imported where it is used: the side of GPUs, 58 modules,
# and of measuring, 34, are an eighth of the time to import the compiler.
if TYPE_CHECKING:
    from rcompiler.pipelines.rc_gpu import RcGpu

# Options that both lowerings have.
_CHOSEN = ("fusion", "normalise", "roots", "roller_policy", "eus", "policy", "kernels", "memory",
           "precision")  # fmt: skip


class Weights(NamedTuple):
    """The constants as the code reads them, and how a file keeps them."""

    constants: np.ndarray
    storage: Storage


class Compilation:
    """One compilation, with the texts of its stages.

    target: what code is generated for, with default figures if it is this host. steps: told of
    each, None for nobody. one_of_several: whether the file has the model for other targets, too.
    pool: the weights of its programs for other sizes, which those of this one are added to; the
    artifacts then have none of their own.
    """

    def __init__(
        self,
        options: CompileOptions,
        target: Device,
        steps: CompilationSteps | None,
        *,
        one_of_several: bool = False,
        pool: WeightPool | None = None,
    ) -> None:
        self._pool = pool
        self.steps = CompilationSteps(None) if steps is None else steps
        self._options, self._one_of_several = options, one_of_several
        self._base = target
        self._target_name = name_of(options.target, target)
        self.device = target  # whose figures decide
        self.optional = OptionalPasses(options.cache)
        self._texts = StageTexts()
        self._notes: tuple[str, ...] = ()  # of the import, for the report
        self._lowering: tuple[CompileOptions, Device, RcCpu | RcGpu] | None = None

    def lowering(self, by: CompileOptions) -> RcCpu | RcGpu:
        """S1 -> S4, as `by` schedules it."""
        last = self._lowering  # three stages ask for it
        if last is not None and last[0] is by and last[1] is self.device:
            return last[2]
        chosen: dict[str, Any] = {name: getattr(by, name) for name in _CHOSEN}
        found: RcCpu | RcGpu
        if self.device.is_cpu:
            found = RcCpu(self.device, self._target_name, **chosen)
        else:
            from rcompiler.pipelines.rc_gpu import RcGpu

            found = RcGpu(self.device, self._target_name, **chosen)
        self._lowering = by, self.device, found
        return found

    def to_rtask(self, module: ir.Module) -> None:
        """S1 -> S2, in place; the module's context is a ModelContext with its arrays."""
        self._run(module, self.lowering(self._options).to_rtask())

    def from_onnx(
        self,
        model: Any,
        shapes: Mapping[str, Any] | None,
        values: Mapping[str, Any] | None,
        device: Device | None,
        schedulers: Sequence[CompileOptions],
        state: Mapping[str, str] | None = None,
        packing: Packing | None = None,
    ) -> list[Artifact]:
        """The model by each of `schedulers`, which differ in policy and kernels only; device: None
        for what is measured here. state: outputs by the inputs that they are the next values of.
        packing: as of `import_onnx`."""
        emit.prepare()  # a process that runs LLVM, so that it is there when code is generated
        with self.steps.boundary(), COLLECTOR.seldom():
            self.steps.begin("import")
            chosen = self._options.weight_bits, dict(self._options.bounds), state, packing
            s1 = import_onnx(model, shapes, values, *chosen)
            imported = ImportedModel.of(s1, self._options, self._base)
            self.steps.begin("device")
            self.device = device or measured_device(self._base, self._options.cache)
            found = self.optional.compiled(lambda: self._from_import(imported, schedulers))
        self.optional.warn(stacklevel=callers_level())
        return found

    def _from_import(
        self, imported: ImportedModel, schedulers: Sequence[CompileOptions]
    ) -> list[Artifact]:
        """One attempt, with the optional passes that are not left out."""
        self._texts = StageTexts()
        context = self._context(imported.arrays)
        with self._texts.blamed(), context, ir.Location.unknown():
            found = self._from_linalg(self._parsed(imported, context), schedulers)
        notes = [str(each) for each in self.optional.notes]
        return [noted(each, *notes) if notes else each for each in found]

    def _context(self, arrays: Mapping[str, Constant]) -> ir.Context:
        interned = arrays if self._pool is None else self._pool.interned(arrays)
        return dialects.load(ModelContext(interned, self._pool))

    def to_operators(self, imported: ImportedModel) -> ir.Module:
        """S1 -> S2 in a context of its own, for `from_operators`."""
        self._texts = StageTexts()
        context = self._context(imported.arrays)
        with self._texts.blamed(), context, ir.Location.unknown():
            module = self._parsed(imported, context)
            self.to_rtask(module)
            self._texts.keep("rtask", module)
            return module

    def from_operators(self, module: ir.Module, decide: Decide, by: CompileOptions) -> Artifact:
        """S2 -> code, with the rKernels that `decide` wants, as `by` schedules them.

        module: stays as it is.
        """
        context = module.context
        with self.steps.boundary(), self._texts.blamed(), context, ir.Location.unknown():
            copy = copy_module(module)
            tile_operators(copy.operation, decide)
            self._texts.keep("rkernel", copy)
            return self._scheduled(copy, by)

    def _parsed(self, imported: ImportedModel, context: ir.Context) -> ir.Module:
        """S1."""
        module = imported.s1.parse(context)
        self._notes = imported.notes
        # as it was parsed: its locations name the rOperators
        self._texts.add("linalg", imported.s1.module_text)
        kernel_code.prepare(module)
        return module

    def _from_linalg(
        self, module: ir.Module, schedulers: Sequence[CompileOptions]
    ) -> list[Artifact]:
        self.to_rtask(module)
        self._texts.keep("rtask", module)
        stage_arrays.note("rtask", lambda: _named(module))
        with self._generation(module, schedulers[0]) as generation:
            if self._options.tune == "kernels":
                self._tune(module)
            else:
                self._run(module, self.lowering(self._options).to_rkernel())
            self._texts.keep("rkernel", module)
            stage_arrays.note("rkernel", lambda: _named(module))
            return self._all_scheduled(module, schedulers, generation)

    @contextmanager
    def _generation(self, module: ir.Module, by: CompileOptions) -> Iterator[CpuGeneration | None]:
        """Code that is made while kernels are constructed and scheduled: of GPUs it is not, as what
        is pinned for a schedule changes kernels.
        """
        if not self._base.is_cpu:
            yield None
            return
        context = context_of(module.operation)
        with self._begun(module, self.lowering(by).to_tasks()) as generation:
            context.built = generation.expect
            try:
                yield generation
            finally:
                context.built = None

    @contextmanager
    def _begun(self, module: ir.Module, tile: Sequence[Element]) -> Iterator[CpuGeneration]:
        folder = self._options.cache
        cache = ObjectCache(folder) if folder is not None else None
        generation = CpuGeneration(module, self._llvm_target(), cache, tile)
        with generation.begun():
            yield generation

    def _all_scheduled(
        self,
        module: ir.Module,
        schedulers: Sequence[CompileOptions],
        generation: CpuGeneration | None,
    ) -> list[Artifact]:
        """S3 -> code by each scheduler. generation: of the first one."""
        found = []
        for number, by in enumerate(schedulers):
            # of several, each schedules a copy
            copy = module if len(schedulers) == 1 else copy_module(module)
            # an EU of a GPU runs one block or more, or none of any schedule
            may_not_fit = by.or_wave and not self._base.is_cpu and by.eus > self.device.eus
            spare = copy_module(copy) if may_not_fit else None
            try:
                made = self._scheduled(copy, by, None if number else generation)
                own = isinstance(by.policy, OwnPolicy)
                found.append(noted(made, f"scheduled by policy '{by.policy}'") if own else made)
            except TooManyBlocks as error:
                if spare is None:
                    raise
                launched = self._scheduled(spare, replace(by, policy="wave"))
                note = f"policy 'wave', one launch per wave, instead of '{by.policy}': {error}"
                found.append(noted(launched, note))
        return found

    def _tune(self, module: ir.Module) -> None:
        """S2 -> S3 by measuring, in place of the pass that asks the cost model."""
        from rcompiler.profiler.tuner import kernel_tuner

        options = self._options
        self.steps.begin("tune")
        with kernel_tuner(
            self.device,
            self._base,
            self._llvm_target(),
            options.cache,
            options.roller_policy,
            options.eus or None,
        ) as tuner:
            tile_operators(module.operation, tuner.decide)

    def _scheduled(
        self, module: ir.Module, by: CompileOptions, generation: CpuGeneration | None = None
    ) -> Artifact:
        """An S3 module as `by` schedules it; it becomes S4, and code. generation: of its code,
        where that has begun.
        """
        pooled = [] if self._pool is None else [VdevicePoolWeights()]
        lowering = self.lowering(by)
        self._run(module, [*lowering.to_schedule(), *pooled])
        if not self._base.is_cpu:
            self._run(module, lowering.to_tasks())
            return self.from_schedule(module, by)
        if generation is not None:
            return self._for_cpu(module, by, generation)
        with self._begun(module, lowering.to_tasks()) as generation:
            return self._for_cpu(module, by, generation)

    def from_schedule(self, module: ir.Module, scheduler: CompileOptions) -> Artifact:
        """S4 -> code; the module's context is a ModelContext with its arrays."""
        if not self._base.is_cpu:
            return self._for_gpu(module, scheduler)
        with self._begun(module, ()) as generation:
            return self._for_cpu(module, scheduler, generation)

    def _for_cpu(
        self, module: ir.Module, scheduler: CompileOptions, generation: CpuGeneration
    ) -> Artifact:
        target = self._llvm_target()
        self.steps.begin(VdeviceToCpu.name())
        functions = generation.write(module)
        self._texts.keep("vdevice", module)
        tables, weights = self._proved(module)
        notes = *self._notes, *context_of(module.operation).notes
        report = make_report(module.operation, tables, self.device).noted(*notes)
        self._texts.add(REPORT, report.to_json())
        self._texts.add("llvm", functions)
        self.steps.begin("object")
        objects = generation.objects(module)
        self.steps.begin("link")
        machine = Machine(target.name, "cpu", target.cpu, target.features, tuple(target.required))
        return self._artifact(link(objects), machine, tables, weights, scheduler)

    def _for_gpu(self, module: ir.Module, scheduler: CompileOptions) -> Artifact:
        from rcompiler.driver.gpu_image import GpuGeneration

        self._texts.keep("vdevice", module)
        generation = GpuGeneration(module)
        with generation.begun():
            tables, weights = self._proved(module)
            if taken := [p.name for p in tables.launches if p.taken_by]:
                raise ScheduleError(
                    f"program '{taken[0]}' consists of queues that EUs take when they are free "
                    f"(policy 'dynamic'), and the blocks of {self._target_name} take none; "
                    "choose another policy, 'rammer' for one"
                )
            independent_eus = all(independent(launch.streams) for launch in tables.launches)
            report = make_report(module.operation, tables, self.device)
            assembled = scheduler.machine_code and not is_emulated(self._target_name)
            code = generation.finish(
                1 if independent_eus else tables.eus, machine_code=assembled, begin=self.steps.begin
            )
        for stage, text in code.stages.items():
            self._texts.add(stage, text)
        if code.made.registers is not None:
            report = report.assembled(code.made.registers, code.made.spilled)
        self._texts.add(REPORT, report.noted(*code.made.notes).to_json())
        machine = Machine(self._target_name, "gpu", code.image.chip, tools=code.made.tools)
        return self._artifact(code.image, machine, tables, weights, scheduler)

    def _proved(self, module: ir.Module) -> tuple[Tables, Weights]:
        """The schedule as data, when it is proved right, and the weights of the model."""
        self.steps.begin("prove")
        tables = proved_tables(module.operation)
        inputs, outputs = tables.sizes()
        total = sum((*tables.memory(), *inputs, *outputs))
        require(total, "inputs, outputs, weights and temporary tensors of the model")
        if self._pool is not None:
            return tables, Weights(np.empty(0, np.uint8), Storage())
        weights = arena(tables.memory()[1], "weights of the model")
        arrays = context_of(module.operation).arrays
        placed = write_constants(module.operation, arrays, weights)
        return tables, Weights(weights, storage_of(placed, weights, sources=self._one_of_several))

    def _artifact(
        self,
        image: Image | GpuImage,
        machine: Machine,
        tables: Tables,
        weights: Weights,
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
            inputs=tuple(map(_tensor, tables.inputs)),
            outputs=tuple(map(_tensor, tables.outputs)),
            counts=tuple(t.size for t in tables.counts if t.size is not None),
            ranges=tuple(IndexRange(name, *_range(i)) for name, i in _told(tables.inputs)),
            checks=tuple(IndexCheck(*_range(i), i.says, i.bound) for _, i in _told(tables.checks)),
            states=tuple(State(s.input, s.output, s.in_place) for s in tables.states),
            arena_bytes=tables.memory()[0],
            flushes=scheduler.denormals == "zero",
            constants=weights.constants,
            storage=weights.storage,
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

    def _llvm_target(self) -> Target:
        if self._target_name == "cpu":
            return Target.named("host")
        if is_host(self._target_name):
            return Target.of(InstructionSet.named(self._target_name.partition(":")[2]))
        return Target.of(InstructionSet.of(self._base.level_name, self._base.features))

    def _run(self, module: ir.Module, passes: Sequence[Element]) -> None:
        """Run the passes of a stage; its result is verified when its text is kept."""
        runner(passes, module.context, self._begin, verify=False, watch=self.optional)(module)

    def _begin(self, element: str) -> None:
        """A pass as the step that begins; MLIR's own belong to the one before."""
        name = element.partition("{")[0]
        if find(name) is not None:
            self.steps.begin(name)


def _named(module: ir.Module) -> dict[str, Constant]:
    """The arrays that a module names."""
    arrays = context_of(module.operation).arrays
    return {key: arrays[key] for key in constant_keys(module.operation)}


def _tensor(told: TensorInfo) -> Tensor:
    return Tensor(told.name, told.shape, told.dtype, told.extents, told.size)


def _told(tensors: Sequence[TensorInfo]) -> list[tuple[str, Indices]]:
    """Those of a signature of whose indices something is said."""
    return [(tensor.name, tensor.indices) for tensor in tensors if tensor.indices is not None]


def _range(indices: Indices) -> tuple[int, int, str]:
    return indices.first, indices.last, indices.reader


def noted(artifact: Artifact, *notes: str) -> Artifact:
    """The same with notes in its report."""
    report = Report.from_json(artifact.stages[REPORT]).noted(*notes)
    return replace(artifact, stages={**artifact.stages, REPORT: report.to_json()})
