"""compile_onnx: model -> S1 -> S2 -> S3 -> S4 -> code -> a model that runs.

What callers may ask for; how it is done says `rcompiler.driver.compiling`, which is imported where
something is compiled: not where the finished model is in the cache.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rcompiler.bucketed import BucketedModel
from rcompiler.device.model import Device
from rcompiler.driver.collector import COLLECTOR
from rcompiler.driver.cross_compiled import CrossCompiledModel
from rcompiler.driver.isolate import compile_onnx as compiled_apart
from rcompiler.driver.isolate import space_is_scarce
from rcompiler.driver.warm_start import WarmStart
from rcompiler.errors import CompiledHereWarning, CompilerError, DeviceError
from rcompiler.model import Model
from rcompiler.options import Build, Denormals, Kernels, Precision, RollerPolicy, Roots, Tune
from rcompiler.runtime.memory import give_back_freed
from rcompiler.support import installed, onnx_worker
from rcompiler.support.ample_stack import with_ample_stack
from rcompiler.support.callers import callers_level
from rcompiler.support.interpreter import NoInterpreter, interpreter

if TYPE_CHECKING:
    from rcompiler.composite_model import CompositeModel
    from rcompiler.driver.compiling import compile_policies, operators_of
    from rcompiler.fallback import Fallbacks

Progress = Callable[[str, float], None]
_COMPILER = "rcompiler.driver.compiling"


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
    denormals: Denormals = "keep",
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
            nothing is said. Of a Range, ConstantOfShape, Expand or Tile the most that a number may
            be which decides its shape and which the model computes, by the name of the result; of
            a RoiAlign without sampling_ratio, of regions that are no constants, the points along an
            axis of a bin; and of a Loop whose iterations are known at run time only, by the name of
            its node, the most that it may have: these have to be given where nothing in the model
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
        denormals: on a CPU, "zero" takes denormal numbers (of f32 those below 1.2e-38) for zeros
            where kernels compute with them, as operands and as results; CPUs take up to a hundred
            times as long with them. "keep" takes them as they are. A file knows which it is.
        machine_code: for a GPU, the artifact carries machine code beside the PTX where ptxas is
            found (its version is in the provenance), so that drivers need not compile; without it
            the report has no registers and spills. Of AMD, an object beside the assembly.
        deterministic: always the case: static choices for a device record and a profile index,
            fixed order of every sum.
        cache: folder of compiled objects and finished models, None for the default one, False for
            none. A model that was compiled before, from the same content with the same options, by
            the same code on the same kind of machine, is loaded from there, and the compiler is not
            imported; not so with fallback, tune, build, or a policy of yours.
        progress: called with (stage, seconds since the start) when a stage begins: import, device,
            the passes, object, link; of a finished model that the cache has once, with "kept
            model".
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
    if not deterministic:
        raise CompilerError(
            "deterministic=False has no meaning here: every program is deterministic"
        )
    warm = WarmStart(given)
    found = warm.found()
    if found is not None:
        return found
    del given["deterministic"]
    if space_is_scarce():  # what compiles there keeps it, too
        if tune == "online":
            raise DeviceError(
                "tune='online' keeps the plans of a model in this process, and a limit leaves it "
                "little address space; leave tune out, or raise the limit"
            )
        return compiled_apart(**{**given, "model": warm.given()})
    onnx_worker.prepare()
    return with_ample_stack(lambda: _compiled(given, warm))


def _compiled(
    given: dict[str, Any], warm: WarmStart
) -> Model | CrossCompiledModel | BucketedModel | CompositeModel:
    """By the compiler, in this process. given: the arguments of `compile_onnx`."""
    if interpreter() is None:
        text = f"models are compiled in this process: {NoInterpreter()}"
        warnings.warn(CompiledHereWarning(text), stacklevel=callers_level())
    compiler = _compiler()
    with warm.model() as given["model"]:
        if given["fallback"] is not None:
            parts: CompositeModel = compiler.in_parts(compile_onnx, **given)
            return parts
        del given["fallback"]
        made: Model | CrossCompiledModel | BucketedModel = compiler.compiled(**given)
    warm.keep(made)
    give_back_freed()
    return made


def _compiler() -> Any:
    """The module that compiles. Raises ToolError where what it needs is not installed."""
    try:
        with COLLECTOR.importing():
            return import_module(_COMPILER)
    except ModuleNotFoundError as error:
        if error.name is None or not installed.is_compilers(error.name):
            raise
        return installed.refusing("rcompiler.compile_onnx", error.name)()


def __getattr__(name: str) -> Any:
    """What is of the compiler itself, which is imported by who asks for it."""
    if name not in ("compile_policies", "operators_of"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_COMPILER), name)


__all__ = [
    "compile_onnx",
    "compile_policies",
    "operators_of",
]
