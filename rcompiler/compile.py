"""compile_onnx: model -> S1 -> S2 -> S3 -> S4 -> code -> a model that runs.

What callers may ask for; how it is done says `rcompiler.driver.compilation`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, get_args

from torch_mlir import ir

from rcompiler import dialects
from rcompiler.bucketed import BucketedModel
from rcompiler.composite_model import CompositeModel
from rcompiler.device.cpu import lacking
from rcompiler.device.model import Device
from rcompiler.device.target import canonical, cpu_targets, kind_name
from rcompiler.driver import conflicts, isolate
from rcompiler.driver.background import compile_largest
from rcompiler.driver.compilation import Compilation
from rcompiler.driver.cross_compiled import CrossCompiledModel, compiled_family, compiled_model
from rcompiler.driver.family import compile_family, compile_packed
from rcompiler.driver.host import given_device, target_device
from rcompiler.driver.in_pieces import in_pieces
from rcompiler.driver.sized_program import SizedPrograms
from rcompiler.driver.steps import CompilationSteps, Progress
from rcompiler.errors import CompilerError, DeviceError
from rcompiler.fallback import Fallbacks, checked_fallbacks
from rcompiler.frontend import import_onnx
from rcompiler.frontend.load import load
from rcompiler.frontend.packed.packing import packings_of
from rcompiler.frontend.size_sets import sizes_of, with_defaults
from rcompiler.growing_model import GrowingModel
from rcompiler.model import Model
from rcompiler.options import (
    Build,
    CompileOptions,
    CpuPrecision,
    GpuPrecision,
    Kernels,
    Precision,
    RollerPolicy,
    Roots,
    Scheduler,
    Tune,
    checked_cache,
    checked_eus,
    policy_of,
)
from rcompiler.passes.constants.model_context import ModelContext
from rcompiler.runtime.artifact import Artifact, together
from rcompiler.runtime.program import MAX_EUS


def compile_onnx(
    model: Any,
    *,
    target: str = "cpu",
    device: Device | str | os.PathLike[str] | None = None,
    shapes: Mapping[str, Any] | None = None,
    buckets: Mapping[str, Sequence[int]] | None = None,
    packed: tuple[str, str] | None = None,
    values: Mapping[str, Any] | None = None,
    bounds: Mapping[str, int] | None = None,
    state: Mapping[str, str] | None = None,
    eus: int | None = None,
    policy: str | Callable[..., Any] | None = None,
    kernels: Kernels = "auto",
    roller_policy: RollerPolicy = "roller",
    fusion: bool = True,
    normalise: bool = True,
    tune: Tune = "off",
    tune_budget: float | None = None,
    roots: Roots = "auto",
    precision: Precision = "f32",
    machine_code: bool = True,
    deterministic: bool = True,
    cache: str | os.PathLike[str] | bool | None = None,
    progress: Progress | None = None,
    fallback: Fallbacks | None = None,
    build: Build = "all",
) -> Model | CrossCompiledModel | BucketedModel | CompositeModel:
    """Compile an ONNX model for a device.

    Where a limit of the process leaves little address space, the work is done in a process of its
    own, since libraries that are refused memory end theirs. Where an optional pass
    (`passes.OptionalPass`) fails, the model is compiled without it, and an OptionalPassWarning
    names it.

    Args:
        model: path, bytes or onnx.ModelProto.
        target: "cpu" (this host), "cpu:v3", "cpu:x86-64", "cpu:v4+vnni" (a level with features
            beside it, also one that this host lacks), "cuda:h200" and the like, "cuda:emulated",
            "rocm:gfx942" (compiled, not run), or a device file. Several CPUs with commas between
            them, as in "cpu:x86-64,cpu:v3,cpu:v4+vnni", make one model, whose file has code for
            each: the best that a machine runs is taken where it is loaded.
        device: the figures that tiles are chosen by: a device record, the path or the name of one,
            or "default"; None for $RC_DEVICE, else this machine's, which are measured once and kept
            in the cache (default figures without a cache).
        shapes: shapes of inputs by name, or sizes of symbolic dims. In the place of a size stands
            also a tuple of sizes, or a range: the model then has a program for each of these sizes,
            and for buckets of a range, over one block of weights (`rcompiler.frontend.size_sets`).
            Of a symbolic dim of which nothing is said the sizes are 1 to 8, where it is the first
            of an input, else 1 to 128.
        buckets: of symbolic dims with a range, the greatest size of each bucket; None for four
            from a size to twice of it. Of one bucket there is one program, and no BucketedModel.
        packed: the names of two dims of inputs, those of the requests of a batch and of their
            lengths, as ("batch", "seq"): calls take a list of arrays of unequal lengths for each
            input that has both, and nothing is padded but within attention
            (`rcompiler.packed.PackedModel`). `shapes` then says how many requests there are at
            most, and has a range of lengths; `buckets` may cut the positions of all requests
            together ("rows"), and the lengths. On CPUs.
        values: arrays by the names of inputs that are to be constants; they are no longer inputs.
        bounds: of results whose number is known at run time only (those of NonZero,
            NonMaxSuppression, Compress, Unique, and of TopK where k is no constant) the most that
            there is room for, by the names of such results; all that shape inference allows where
            nothing is said. Of a Loop whose iterations are known at run time only, by the name of
            its node, the most that it may have, which has to be given where nothing in the model
            bounds them. A call that finds more raises RangeError.
        state: outputs by the inputs that they are to be in the next call, as in
            {"past_key_values.*": "present.*"}, where a `*` stands for any text, the same in both.
            They are no longer inputs and outputs: the model keeps them, in the memory of the device
            (`model.state`); at the start they are zeros.
        eus: execution units, None for all of the device.
        policy: who schedules: one of `rcompiler.rammer.schedule.POLICIES`, or a function of yours,
            itself or as "module:function" (`rcompiler.rammer.policy`), which the report names; None
            for "rammer", or, where a GPU does not run all of its blocks at the same time, for
            "wave", which the report notes. A policy that is named is kept, or refused.
        kernels: which rKernels run, where there are several: "fast", "efficient", "select", or
            "auto" for what suits the policy.
        roller_policy: who decides tiles: "roller" (the cost model; Roller, OSDI'22) or "osdi22"
            (the search as it was published).
        fusion: group ops into rOperators.
        normalise: join products that read one operand, and those of all steps of a recurrence that
            need not wait for one another; without it and fusion the operators are those that the
            graph writes.
        tune: "off": tiles are chosen by the cost model alone; "kernels": the fastest of the ten
            best by the model, measured on this machine once and kept in the cache; "warmup": plans
            are explored on random inputs before this returns (fusion groups, kernels, EUs and how
            they wait, memory), the best one is kept in the cache, and with it the model is
            compiled from then on; "online": plans that change no bit of any result (EUs, how they
            wait, memory) are explored by the calls of the model, each of which answers once.
        tune_budget: for "warmup" seconds (60), after which the static plan is returned and the
            next call goes on where this one stopped; for "online" the share of the served time that
            trials may add (0.02).
        roots: how 3x3 convolutions are computed: "auto", as is predicted to be the fastest;
            "direct", as sums of all products; "winograd2" or "winograd4", by Winograd's F(2x2) or
            F(4x4) wherever it can be (`rcompiler.roller.roots` has their errors).
        precision: how numbers of f32 are multiplied in products and convolutions: "f32", as they
            are; "tf32" (on GPUs), "f16" or "bf16", rounded to that first, sums in f32. A GPU then
            multiplies in its matrix units, which numbers that are f16 or bf16 in the model go to
            anyway. On a CPU these are the products with weights, which then take half of the
            memory, as do tables whose rows are gathered (embeddings); bf16 is multiplied by AMX or
            AVX512_BF16 where there, and else, like f16, as f32. "w8" and "w4" (on CPUs): the
            weights of MatMul and Gemm have 8 or 4 bits in blocks of 32 with a scale each; the
            report says what that does to those of each operator.
        machine_code: for a GPU, the artifact carries machine code beside the PTX where ptxas is
            found (its version is in the provenance), so that drivers need not compile; without it
            the report has no registers and spills. Of AMD, an object beside the assembly.
        deterministic: always the case: static choices for a device record and a profile index,
            fixed order of every sum.
        cache: folder of compiled objects, None for the default one, False for none.
        progress: called with (stage, seconds since the start) when a stage begins: import, device,
            the passes, object, link.
        fallback: functions by operator, as "Op" or "domain::Op": a node that would be refused is a
            call `fn(*arrays, **attributes)` of its function, or of that of a `Fallback`, which can
            promise what the results are; the model is compiled in parts around it. Nodes that can
            be compiled are compiled.
        build: of a model for several sizes, "all" of its programs, or the "largest" one of each
            range: the model then is a `rcompiler.growing_model.GrowingModel`, and the others are
            built in the background, in a process of its own, when calls have their sizes.

    Returns:
        A model that is ready to run: a CompiledModel, or for a GPU a GpuModel. For a CPU with
        instructions that this one lacks a CrossCompiledModel, which can be saved, and runs there.
        For several sizes a BucketedModel (`rcompiler.bucketed`).
        Where functions stand for some of its nodes a CompositeModel.

    Raises:
        InvalidModel: the model is not valid ONNX, or cannot be read.
        UnsupportedOp: an operator, attribute or type of it is not translated; the message names the
            node.
        ShapeError: a shape is unknown or does not fit.
        DeviceError: the target or the device is unknown, or the model does not fit on it.
        TooManyBlocks: with the policy that was named, more EUs wait for one another than the GPU
            runs blocks at the same time.
        ScheduleError: the policy cannot schedule the model, or its schedule is not proved right.
        FallbackError: what is given as a fallback is no function, or it cannot be called on zeros
            and does not promise what its results are.
        CompilerError: an option has no such value, or does not fit the others.
    """
    given = dict(locals())
    if given.pop("fallback") is not None:
        functions = checked_fallbacks(fallback)
        conflicts.of_parts(state, build)
        others = {n: x for n, x in given.items() if n not in ("model", "shapes", "values")}
        found = in_pieces(model, shapes, values, functions, partial(compile_onnx, **others))
        return found or compile_onnx(**given)
    budget = 0.0
    if tune_budget is not None or tune in ("warmup", "online"):
        from rcompiler.tuning.compiled import checked_budget  # of all who explore plans alone

        budget = checked_budget(tune, tune_budget)
    conflicts.of_tuning(tune, state)
    if isolate.space_is_scarce():
        if tune == "online":
            raise DeviceError(
                "tune='online' keeps the plans of a model in this process, and a limit leaves it "
                "little address space; leave tune out, or raise the limit"
            )
        return isolate.compile_onnx(**given)
    if not deterministic:
        raise CompilerError(
            "deterministic=False has no meaning here: every program is deterministic"
        )
    count, folder = checked_eus(eus, MAX_EUS), checked_cache(cache)
    options = CompileOptions(
        *(target, count, "rammer" if policy is None else policy_of(policy), kernels, roller_policy),
        *(fusion, normalise, folder, tune, roots),
        precision=precision,
        machine_code=machine_code,
        or_wave=policy is None,
        bounds=bounds,  # type: ignore[arg-type]  # checked there
    )
    targets = cpu_targets(target) if isinstance(target, str) else [target]
    conflicts.of_targets(targets, tune)
    model = proto = load(model)
    if packed is not None:
        conflicts.of_packed(targets, tune, state, build)
        packings = packings_of(proto, shapes, buckets, packed)
        base = _base(target, precision, tune)
        programs = SizedPrograms(proto, values, options, base, given_device(target, base, device))
        one = partial(programs.program, progress=progress)
        return compiled_family(compile_packed(packings, one), count or None)
    fixed = values if isinstance(values, Mapping) else ()
    shapes, buckets = with_defaults(proto, shapes, buckets, fixed)
    sizes = sizes_of(proto, shapes, buckets)
    conflicts.of_state(sizes, state)
    if sizes is not None and len(sizes.bindings) == 1 and not sizes.open_ended:
        [shapes], sizes = sizes.bindings, None
    conflicts.of_sizes(sizes, targets, tune, build)
    artifacts: list[Artifact] = []
    for name in targets:
        base = _base(name, precision, tune)
        by = replace(options, target=canonical(name))
        chosen = given_device(name, base, device)
        if sizes is not None:
            programs = SizedPrograms(proto, values, by, base, chosen)
            if build == "largest":
                return GrowingModel(compile_largest(sizes, programs, progress), count or None)
            one = partial(programs.program, progress=progress)
            return compiled_family(compile_family(sizes, one), count or None)
        if tune in ("warmup", "online"):
            from rcompiler.tuning.compiled import tuned_model

            return tuned_model(model, shapes, values, by, base, chosen, budget, progress)
        steps = CompilationSteps(progress)
        run = Compilation(by, base, steps, one_of_several=len(targets) > 1)
        artifacts += run.from_onnx(model, shapes, values, chosen, [by], state)
    return compiled_model(together(artifacts))


def _base(target: str, precision: Precision, tune: Tune) -> Device:
    """The device of a target, with default figures if it is this host. Raises DeviceError, and
    CompilerError for options that are not for it.
    """
    base = target_device(target)
    _check_precision(precision, target, base)
    if not base.is_cpu and tune != "off":
        raise CompilerError(
            f"tune={tune!r} runs kernels on the CPU of this machine, and target {target!r} is a "
            "GPU; leave it out: the figures of its record choose the tiles"
        )
    if tune != "off" and (missing := lacking(base)):
        raise CompilerError(
            f"tune={tune!r} runs kernels on this machine, which has no {', '.join(missing)} for "
            f"target {target!r}; leave it out, or compile on a machine that has"
        )
    return base


def compile_policies(
    model: Any,
    schedulers: Sequence[Scheduler],
    *,
    target: str = "cpu",
    device: Device | None = None,
    precision: Precision = "f32",
    eus: int | None = None,
    as_written: bool = False,
) -> dict[Scheduler, Model | CrossCompiledModel]:
    """An ONNX model scheduled in several ways; else as `compile_onnx`.

    All of them choose from the same rKernels: only the schedules differ.

    Args:
        model, target, precision, eus: as of `compile_onnx`.
        schedulers: policies, and which rKernels they take.
        device: a record of a device of the target's kind, whose figures decide.
        as_written: of the operators that the graph writes, neither grouped nor normalised.

    Returns:
        A model for each of the schedulers.

    Raises:
        CompilerError: in the kinds of `compile_onnx`.
    """
    options = CompileOptions(
        canonical(target),
        eus=checked_eus(eus, MAX_EUS),
        fusion=not as_written,
        normalise=not as_written,
        cache=checked_cache(None),
        precision=precision,
    )
    variants = [replace(options, **by._asdict()) for by in schedulers]
    base = target_device(options.target)
    _check_precision(precision, target, base)
    chosen = device if not base.is_cpu and device else given_device(target, base, device)
    run = Compilation(options, base, None)
    artifacts = run.from_onnx(model, None, None, chosen, variants)
    return dict(zip(schedulers, map(compiled_model, artifacts), strict=True))


def _check_precision(precision: Precision, target: str, base: Device) -> None:
    """Raises CompilerError where code for a target has no such precision."""
    of_cpus, of_gpus = get_args(CpuPrecision), get_args(GpuPrecision)
    known = of_cpus if base.is_cpu else of_gpus if base.is_nvidia else ("f32",)
    if precision not in known:
        raise CompilerError(
            f"precision {precision!r} is not one of target {target!r}, which has "
            f"{', '.join(known)}; give one of them, or leave it out"
        )


@contextmanager
def operators_of(
    model: Any,
    device: Device,
    *,
    shapes: Mapping[str, Any] | None = None,
    roots: Roots = "auto",
    progress: Progress | None = None,
) -> Iterator[ir.Module]:
    """The S2 module of an ONNX model for a device: its rOperators, for a profiler.

    The module lives inside of the context.

    Args:
        model, shapes, roots, progress: as of `compile_onnx`.
        device: a record of the device.

    Raises:
        CompilerError: in the kinds of `compile_onnx`.
    """
    steps = CompilationSteps(progress)
    run = Compilation(CompileOptions(kind_name(device), roots=roots), device, steps)
    with ExitStack() as held:

        def attempt() -> ir.Module:
            context = held.enter_context(dialects.load(ModelContext(imported.constants)))
            held.enter_context(ir.Location.unknown())
            context.enable_multithreading(False)
            module = imported.parse(context)
            run.to_rtask(module)
            return module

        with steps.boundary():
            steps.begin("import")
            imported = import_onnx(model, shapes)
            module = run.optional.compiled(attempt)
        run.optional.warn(stacklevel=3)
        yield module


__all__ = [
    "compile_onnx",
    "compile_policies",
    "operators_of",
]
