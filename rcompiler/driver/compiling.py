"""Compile what `rcompiler.compile` is asked for; how it is done says `driver.compilation`."""

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
from rcompiler.driver import conflicts
from rcompiler.driver.background import compile_largest
from rcompiler.driver.compilation import Compilation
from rcompiler.driver.cross_compiled import CrossCompiledModel, compiled_family, compiled_model
from rcompiler.driver.family import compile_family, compile_packed
from rcompiler.driver.host import given_device, target_device
from rcompiler.driver.in_pieces import in_pieces
from rcompiler.driver.sized_program import SizedPrograms
from rcompiler.driver.steps import CompilationSteps, Progress
from rcompiler.errors import CompilerError
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
    Denormals,
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


def in_parts(
    compile_onnx: Callable[..., Any], model: Any, fallback: Fallbacks, **options: Any
) -> Model | CrossCompiledModel | BucketedModel | CompositeModel:
    """The model in parts around the nodes that are functions of the caller's.

    compile_onnx: compiles a part, or all of the model where no node needs a function. model,
    fallback, options: of it.
    """
    functions = checked_fallbacks(fallback)
    conflicts.of_parts(options.get("state"), options.get("build", "all"))
    shapes, values = options.get("shapes"), options.get("values")
    others = {n: x for n, x in options.items() if n not in ("shapes", "values")}
    found = in_pieces(model, shapes, values, functions, partial(compile_onnx, **others))
    return found or compile_onnx(model, **options)


def compiled(
    model: Any,
    *,
    target: str,
    device: Device | str | os.PathLike[str] | None,
    shapes: Mapping[str, Any] | None,
    buckets: Mapping[str, Sequence[int]] | None,
    packed: tuple[str, str] | None,
    values: Mapping[str, Any] | None,
    bounds: Mapping[str, int] | None,
    state: Mapping[str, str] | None,
    eus: int | None,
    policy: str | Callable[..., Any] | None,
    kernels: Kernels,
    roller_policy: RollerPolicy,
    fusion: bool,
    normalise: bool,
    tune: Tune,
    tune_budget: float | None,
    roots: Roots,
    precision: Precision,
    denormals: Denormals,
    machine_code: bool,
    cache: str | os.PathLike[str] | bool | None,
    progress: Progress | None,
    build: Build,
) -> Model | CrossCompiledModel | BucketedModel:
    """What `compile_onnx` returns where nothing is kept, no node is a function of the caller's, and
    there is address space for the compiler; arguments and errors as there.
    """
    budget = 0.0
    if tune_budget is not None or tune in ("warmup", "online"):
        from rcompiler.tuning.compiled import checked_budget  # of all who explore plans alone

        budget = checked_budget(tune, tune_budget)
    conflicts.of_tuning(tune, state)
    count, folder = checked_eus(eus, MAX_EUS), checked_cache(cache)
    options = CompileOptions(
        *(target, count, "rammer" if policy is None else policy_of(policy), kernels, roller_policy),
        *(fusion, normalise, folder, tune, roots),
        precision=precision,
        machine_code=machine_code,
        or_wave=policy is None,
        denormals=denormals,
        bounds=bounds,  # type: ignore[arg-type]  # checked there
    )
    targets = cpu_targets(target) if isinstance(target, str) else [target]
    conflicts.of_targets(targets, tune)
    conflicts.of_denormals(targets, denormals)
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
