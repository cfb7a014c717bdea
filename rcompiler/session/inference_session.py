"""InferenceSession as onnxruntime has it: a model is run by the names of its inputs and outputs.

    import rcompiler as ort

    session = ort.InferenceSession("model.onnx")
    (y,) = session.run(None, {"x": x})

A model whose shapes are all known is compiled at once. Of one with open dimensions there is a
program for each set of shapes that it was called with, which the first such call compiles; once an
axis has had three sizes, there is one for a range of them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from rcompiler.errors import (
    ArtifactError,
    CompilerError,
    IgnoredOptionWarning,
    RangeError,
    ShapeError,
    UnsupportedOp,
)
from rcompiler.loading import load, load_bytes
from rcompiler.model import Model
from rcompiler.runtime.container import MAGIC
from rcompiler.runtime.gpu.image import GpuImage
from rcompiler.session.absent import KnowsAbsent
from rcompiler.session.async_calls import AsyncCalls, Told
from rcompiler.session.io_binding import IOBinding
from rcompiler.session.label_maps import LabelMaps
from rcompiler.session.options import (
    RunOptions,
    SessionOptions,
    given_options,
    provider_notes,
    providers_of,
)
from rcompiler.session.signature import (
    ModelMetadata,
    NodeArg,
    args_of,
    array_of_list,
    check_array,
    check_tensor,
)
from rcompiler.session.values import OrtValue, array_of, type_text
from rcompiler.support.installed import require_compiler
from rcompiler.support.random_keys import without_key

_Result = TypeVar("_Result")
_Array = np.ndarray  # a name that the path of every call looks up
_MOST_SIZES = 16  # of an input whose value a program is compiled for
# Arguments of onnxruntime's constructor that have no meaning here.
_FOREIGN = ("disabled_optimizers", "enable_fallback", "read_config_from_model")


class InferenceSession(KnowsAbsent):
    """A model that is run by the names of its inputs and outputs, as onnxruntime's sessions are.

    Calls from several threads are safe.

    With `close`, or at the end of a `with` block, it ends its threads and what it builds in the
    background; so it does when it is collected.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        programs: int | None = None,
        ranges: bool | None = None,
        keep_bytes: int | None = None,
        **options: Any,
    ) -> None:
        """Read the model, and compile it where its shapes are known.

        Args:
            path_or_bytes: an ONNX model or a compiled `.rcx` file: its path, or its bytes; or an
                onnx.ModelProto.
            sess_options: SessionOptions.
            providers, provider_options: noted; what a model is compiled for is `target`.
            programs: of a model with open dimensions so many programs for one set of shapes are
                kept, the last that were used; None for as many as `keep_bytes` has room for.
            ranges: whether the third size of an axis makes a program for a range of them, and calls
                that come near its end one for a longer range, built in the background in a process
                of its own. None: where the options do not say what programs there are (`programs`,
                ranges in `shapes`, `bounds`, `fallback`, ...).
            keep_bytes: of all programs, without the weights of one; where nothing is said an eighth
                of the memory of the machine, at least 1 GiB.
            **options: of `compile_onnx`, such as target, precision or fallback; for a compiled file
                of `load`.

        Raises:
            InvalidModel, UnsupportedOp, ShapeError, DeviceError: as `compile_onnx`; for open
                dimensions what the compiler refuses is raised by the first call, but for inputs
                that are no tensors of numbers.
            ArtifactError, ScheduleError: as `load`.
            ToolError: it is an ONNX model, and the compiler is not installed.
            CompilerError: an option has no such value.
        """
        for name, given in (("programs", programs), ("keep_bytes", keep_bytes)):
            if given is not None and (type(given) is not int or given < 1):
                raise CompilerError(f"{name}={given!r}: give how many are kept, 1 or more")
        if ranges not in (None, True, False):
            raise CompilerError(f"ranges={ranges!r}: give True or False")
        settings = given_options(sess_options, SessionOptions)
        self._settings, self._programs = settings, programs
        told = settings._kept()
        self._ranges = told.get("ranges") if ranges is None else ranges
        self._keep_bytes = told.get("keep_bytes") if keep_bytes is None else keep_bytes
        self._model: Any = None  # the only program there is
        self._async = AsyncCalls()
        self._by_shape: Any = None
        self._ignored: set[str] = set()  # inputs that no node reads and no program has
        self._maps: dict[str, LabelMaps] = {}  # of the outputs that a ZipMap makes
        self._sizes: dict[str, int] = settings._sized()
        notes = [f"{name} changes nothing" for name in _FOREIGN if options.pop(name, None)]
        notes += settings._notes()
        if _is_compiled(path_or_bytes):
            self._load(path_or_bytes, options, notes)
        else:
            self._compile(path_or_bytes, options)
        self._types = {arg.name: arg for arg in (*self._inputs, *self._optional)}
        self._names = [arg.name for arg in self._outputs]
        self._input_names = [arg.name for arg in self._inputs if arg.name not in self._ignored]
        providers = [*(providers or ()), *settings._named_providers()]
        if provider_options:
            notes.append("provider_options change nothing")
        self._notes = (*notes, *provider_notes(providers, self.get_providers()))
        if self._notes:
            text = "; ".join(self._notes)
            warnings.warn(IgnoredOptionWarning(text), stacklevel=2)

    def _load(self, given: Any, options: dict[str, Any], notes: list[str]) -> None:
        if self._sizes:
            sizes = ", ".join(self._sizes)
            raise ShapeError(f"a compiled model has no open dimensions to fix ({sizes})")
        asked = self._settings._compiling()
        threads = asked.get("eus")
        for name, option in (
            ("graph_optimization_level", "fusion"),
            ("session.set_denormal_as_zero", "denormals"),
        ):
            if option in asked:
                notes.append(f"{name} changes nothing: the model is compiled")
        options = {"eus": threads} | options if threads else options
        self._model = load_bytes(given, **options) if isinstance(given, bytes) else load(
            given, **options
        )  # fmt: skip
        self._inputs = args_of(without_key(self._model.inputs))
        self._outputs = args_of(self._model.outputs)
        self._optional: list[NodeArg] = []
        self._metadata = ModelMetadata()

    def _compile(self, given: Any, options: dict[str, Any]) -> None:
        require_compiler("an ONNX model")
        from rcompiler.driver.by_shape import ByShape
        from rcompiler.driver.kept_bytes import usual_bytes
        from rcompiler.driver.model_source import ModelSource
        from rcompiler.driver.warm_start import finished_models

        model, kept = ModelSource(given), finished_models(options.get("cache"))
        found = model.declared(kept)
        fixed = options.get("values") or {}
        refusals = [each.refusal for each in found.inputs if each.refusal]
        if refusals and not options.get("fallback"):
            raise UnsupportedOp("; ".join(refusals))
        self._ignored = {each.name for each in found.inputs if each.ignored}
        self._inputs = [self._arg(each) for each in found.inputs if each.name not in fixed]
        self._optional = [self._arg(each) for each in found.optional if each.name not in fixed]
        self._maps = {
            tensor.name: LabelMaps(tensor.name, tensor.labels)
            for tensor in found.outputs
            if tensor.labels is not None
        }
        self._outputs = self._with_maps([self._arg(tensor) for tensor in found.outputs])
        self._metadata = ModelMetadata(
            found.producer, found.graph, found.domain, found.description,
            found.graph_description, found.version, dict(found.metadata),
        )  # fmt: skip
        shapes = {**self._sizes, **(options.pop("shapes", None) or {})}
        options = {**self._settings._compiling(), **options, "shapes": shapes}
        optional = [arg.name for arg in self._optional]
        names = [arg.name for arg in self._inputs if arg.name not in self._ignored]
        ranges = self._programs is None if self._ranges is None else self._ranges
        most_bytes = self._keep_bytes
        if self._programs is None and most_bytes is None:
            most_bytes = usual_bytes()
        self._by_shape = ByShape(
            *(model, options, self._programs, _is_size, [*names, *optional], optional),
            most_bytes=most_bytes,
            open_inputs=[each for each in found.inputs if each.name in names] if ranges else (),
        )
        if all(tensor.shape is not None for tensor in found.inputs if not tensor.ignored):
            self._model = self._by_shape.known()
        if self._model is None:
            model.hold(kept)  # what later calls compile is the model as it is now
        else:
            known = {arg.name: arg for arg in args_of(self._model.inputs)}
            self._inputs = [known.get(arg.name, arg) for arg in self._inputs]
            self._outputs = self._with_maps(args_of(self._model.outputs))

    def _with_maps(self, outputs: list[NodeArg]) -> list[NodeArg]:
        """Outputs as they are declared, where programs have tensors of scores in place of maps."""
        return [self._maps[arg.name].arg if arg.name in self._maps else arg for arg in outputs]

    def _arg(self, tensor: Any) -> NodeArg:
        shape = [self._sizes.get(d, d) if isinstance(d, str) else d for d in tensor.shape or ()]
        return NodeArg(tensor.name, shape, type_text(tensor.dtype))

    @property
    def notes(self) -> tuple[str, ...]:
        """What was asked for and changes nothing, a line each, of which an IgnoredOptionWarning
        says the same when the session is made; and why programs are not for ranges of sizes.
        """
        return (*self._notes, *(self._by_shape.notes if self._by_shape is not None else ()))

    def close(self) -> None:
        """End the programs, and what is built in the background, behind calls of `run_async`.
        Idempotent.
        """
        self._async.wait()
        if self._by_shape is not None:
            self._by_shape.close()
        if self._model is not None:
            self._model.close()

    def __enter__(self) -> InferenceSession:
        """Itself, to be closed at the end of the block.

        Returns:
            The session.
        """
        return self

    def __exit__(self, *raised: object) -> None:
        """Close it, whether the block ended well or not.

        Args:
            *raised: what the block raised, which goes on.
        """
        self.close()

    # -- what it is ---------------------------------------------------------------------------
    def get_inputs(self) -> list[NodeArg]:
        """What a call has to give, in order."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """What a call gives, in order."""
        return list(self._outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The inputs that have a value in the model; a call may give another."""
        return list(self._optional)

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says of itself."""
        return self._metadata

    def get_providers(self) -> list[str]:
        """What the model runs on, by onnxruntime's names."""
        target = "" if self._by_shape is None else str(self._by_shape.options.get("target", ""))
        language = {"cuda": "ptx", "rocm": "amdgcn"}.get(target.partition(":")[0])
        for part in getattr(self._model, "parts", filter(None, [self._model])):
            if isinstance(part.artifact.image, GpuImage):
                language = part.artifact.image.language
        return providers_of(language)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of each provider: there are none."""
        return {name: {} for name in self.get_providers()}

    def get_session_options(self) -> SessionOptions:
        """The options that it was made with."""
        return self._settings

    @property
    def programs(self) -> tuple[Model, ...]:
        """The compiled models that it has now, with their reports and stages; those for ranges of
        sizes at the end.
        """
        if self._model is not None:
            return (self._model,)
        return tuple(self._by_shape.programs)

    # -- running ------------------------------------------------------------------------------
    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[Any]:
        """Run once.

        Args:
            output_names: what is wanted, in this order; None or none for all.
            input_feed: by the names of inputs an array each, a list, or an OrtValue.
            run_options: RunOptions; they change nothing.

        Returns:
            New arrays, which are the caller's; for an output that a ZipMap makes a list with a dict
            for each row, from labels (int or str) to scores (float).

        Raises:
            ShapeError: an input is missing, unknown, or of another shape or type; or there is no
                output of a name.
            RangeError: an index in an input, or one that the model computes, is outside of what it
                leads into.
            CompilerError: what else the compiler refuses, where these shapes are new.
        """
        if not output_names and run_options is None and type(input_feed) is dict:
            if (quick := self._quick(input_feed)) is not None:
                try:
                    results = quick[0](*quick[1])
                    return self._answers(results, None) if self._maps else list(results)
                except RangeError as error:
                    if not self._widened(error):
                        raise
        wanted = self._wanted(output_names)
        if run_options is not None and (
            found := [*given_options(run_options, RunOptions)._notes()]
        ):
            warnings.warn(IgnoredOptionWarning("; ".join(found)), stacklevel=2)
        if not isinstance(input_feed, Mapping):
            raise ShapeError(
                f"the inputs are a {type(input_feed).__name__}; give a dict by their names"
            )
        results = self.with_program(input_feed, lambda model, arguments: model(*arguments))
        return self._answers(results, wanted)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: Any = None,
    ) -> list[OrtValue]:
        """The results of `run` as values.

        Args:
            output_names, run_options: as of `run`.
            input_dict_ort_values: by the names of inputs.

        Raises:
            ShapeError, RangeError, CompilerError: as of `run`; also where an output that is asked
                for is no tensor.
        """
        wanted = self._wanted(output_names)
        for arg in self._outputs if wanted is None else [self._outputs[k] for k in wanted]:
            check_tensor(arg)
        results = self.run(output_names, input_dict_ort_values, run_options)
        return [OrtValue(array) for array in results]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Told,
        user_data: Any,
        run_options: Any = None,
    ) -> None:
        """Run once in a thread of its own, and return at once.

        Args:
            output_names, input_feed, run_options: as of `run`.
            callback: called in that thread with the results, user_data and "", or with an empty
                list, user_data and the message of the error.
            user_data: anything.

        Raises:
            ShapeError: there is no output of a name, or what is called is no function.
        """
        self._wanted(output_names)
        if not callable(callback):
            raise ShapeError(f"the callback is a {type(callback).__name__}; give a function")
        self._async.start(
            lambda: self.run(output_names, input_feed, run_options), callback, user_data
        )

    def io_binding(self) -> IOBinding:
        """What binds inputs and outputs that stay where they are from call to call."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Any = None) -> None:
        """Run on what is bound.

        Args:
            iobinding: made by `io_binding` of this session.
            run_options: RunOptions; they change nothing.

        Raises:
            ShapeError, RangeError, CompilerError: as of `run`; also where nothing is bound to an
                input, or the binding is another session's.
        """
        if iobinding.session is not self:
            raise ShapeError("the binding is that of another session; make one by io_binding()")
        iobinding.run()

    def _answers(self, results: Sequence[np.ndarray], wanted: Sequence[int] | None) -> list[Any]:
        """What a caller gets of the results of a program: the arrays, and maps where a ZipMap makes
        them. wanted: places of outputs; None for all.
        """
        places = range(len(results)) if wanted is None else wanted
        if not self._maps:
            return [results[place] for place in places]
        named = [(self._names[place], results[place]) for place in places]
        return [self._maps[name].of_rows(x) if name in self._maps else x for name, x in named]

    def _wanted(self, names: Sequence[str] | None) -> list[int] | None:
        if not names:
            return None
        for name in names:
            if name not in self._names:
                listed = ", ".join(self._names)
                raise ShapeError(f"there is no output '{name}'; the outputs are: {listed}")
        return [self._names.index(name) for name in names]

    def program(self, given: Mapping[str, Any]) -> tuple[Model, list[Any]]:
        """The compiled model that runs inputs, which is compiled where their shapes are new.

        Args:
            given: as `input_feed` of `run`.

        Returns:
            The model, and the arguments of its call.

        Raises:
            ShapeError, CompilerError: as of `run`.
        """
        missing = [arg.name for arg in self._inputs if arg.name not in given]
        feeds = {n: self._array(n, x) for n, x in given.items() if n not in self._ignored}
        if missing:
            raise ShapeError(f"input '{missing[0]}' is missing; give all of {self._listed()}")
        if self._model is not None and len(feeds) == len(self._input_names):
            return self._model, [feeds[name] for name in self._input_names]

        def check() -> None:
            for name, array in feeds.items():
                check_array(self._types[name], array)

        found: tuple[Model, list[Any]] = self._by_shape.program(feeds, check)
        return found

    def with_program(
        self, given: Mapping[str, Any], call: Callable[[Model, list[Any]], _Result]
    ) -> _Result:
        """What a function makes of the compiled model and the arguments of its call; it is called
        again where a program has not room enough for what the model counts, see `run`.

        Args:
            given: as `input_feed` of `run`.
            call: a function of them, which calls the model.

        Returns:
            Its result.

        Raises:
            ShapeError, RangeError, CompilerError: as of `run`.
        """
        while True:
            model, arguments = self.program(given)
            try:
                return call(model, arguments)
            except RangeError as error:
                if not self._widened(error):
                    raise

    def _widened(self, error: RangeError) -> bool:
        """Whether there is another program to come, with more room."""
        if self._by_shape is None or not self._by_shape.widen(error):
            return False
        self._model = None  # calls go by what is compiled for them
        return True

    def _quick(self, given: dict[str, Any]) -> tuple[Any, list[Any]] | None:
        """As `program`, of arrays for which a program is there; None for all else."""
        for array in given.values():
            if type(array) is not _Array:
                return None
        if len(given) != len(self._inputs):
            return None
        try:
            if self._model is not None:
                return self._model, [given[name] for name in self._input_names]
            ready = self._by_shape.seen(given) or self._by_shape.ranged(given)
            return ready and (ready.model, [given[name] for name in ready.names])
        except KeyError:  # the usual path says what is wrong
            return None

    def _array(self, name: str, value: Any) -> np.ndarray:
        arg = self._types.get(name)
        if arg is None:
            raise ShapeError(f"there is no input '{name}'; the inputs are: {self._listed()}")
        if isinstance(value, np.ndarray):
            return value
        found = array_of(value)
        return found if isinstance(found, np.ndarray) else array_of_list(arg, found)

    def _listed(self) -> str:
        return ", ".join(arg.name for arg in self._inputs) or "none"

    # -- what onnxruntime has beside, and what has no meaning here -----------------------------
    def set_providers(self, providers: Sequence[Any], provider_options: Any = None) -> None:
        """Note providers; see `InferenceSession`.

        Args:
            providers, provider_options: as of the constructor.
        """
        if found := provider_notes(providers, self.get_providers()):
            self._notes = (*self._notes, *found)
            warnings.warn(IgnoredOptionWarning("; ".join(found)), stacklevel=2)

    def end_profiling(self) -> str:
        """No file: nothing is written. Load the model with timed=True, or use rc-run --profile.

        Returns:
            An empty text.
        """
        return ""

    def get_profiling_start_time_ns(self) -> int:
        """Nothing is measured, see `end_profiling`.

        Returns:
            0.
        """
        return 0

    def get_tuning_results(self) -> list[Any]:
        """None: plans are kept in the cache (docs/plans.md).

        Returns:
            An empty list.
        """
        return []

    def disable_fallback(self) -> None:
        """Nothing: there are no providers to fall back to."""

    def enable_fallback(self) -> None:
        """Nothing: there are no providers to fall back to."""


def _is_size(array: np.ndarray) -> bool:
    """Whether it may be a shape, an axis, a scale or a number of elements, and is no data."""
    return array.dtype.kind in "iubf" and array.ndim <= 1 and array.size <= _MOST_SIZES


def _is_compiled(given: Any) -> bool:
    """Whether it is a compiled model, or its path."""
    if isinstance(given, bytes):
        return given[: len(MAGIC)] == MAGIC
    if not isinstance(given, str | os.PathLike):
        return False
    try:
        with Path(given).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        if Path(given).suffix == ".rcx":
            raise ArtifactError(f"{given}: it cannot be read; check path and rights") from None
        return False  # the front end says what is wrong
