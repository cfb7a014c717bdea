"""A model of several compiled parts, between which functions of the caller's run.

What `compile_onnx(..., fallback=...)` returns where a node is not compiled, and `load` of its file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rcompiler.errors import CompilerError, FallbackError, ShapeError
from rcompiler.fallback import Fallback, called, chosen
from rcompiler.report import Report
from rcompiler.runtime import composite, container
from rcompiler.runtime.arguments import Arrays, Parameter, arrange, call_arguments
from rcompiler.runtime.closing import Closable, Staying
from rcompiler.runtime.composite import FunctionStep, PartStep, Plan
from rcompiler.runtime.memory import aligned_empty
from rcompiler.runtime.outputs import Outputs, named


class CompositeModel(Closable):
    """numpy in, list of numpy out; parts are compiled, and what lies between them is not.

    Calls from several threads are safe where the functions are.

    Attributes:
        inputs, outputs: name, shape, dtype of each, in the order of the call and of the result.
        parts: the compiled models, in the order in which they run; each has its report, its stages
            and its schedule.
        plan: what runs when.
    """

    def __init__(self, plan: Plan, parts: Sequence[Any], fallback: Mapping[str, Fallback]) -> None:
        """Check that the parts fit each other.

        Args:
            plan: what runs when.
            parts: compiled models.
            fallback: functions by operator.

        Raises:
            ArtifactError: the plan does not fit the parts.
            FallbackError: there is no function for an operator.
        """
        plan.check(parts)
        for op in plan.demanded():
            if chosen(fallback, op) is None:
                raise FallbackError(
                    f"there is no function for the operator '{op}'; give fallback={{'{op}': ...}}"
                )
        self.plan, self.parts = plan, tuple(parts)
        self.inputs, self.outputs = plan.inputs, plan.outputs
        self._fallback = dict(fallback)
        self._parameters = [Parameter(tensor, "input") for tensor in plan.inputs]
        self._names = tuple(tensor.name for tensor in plan.outputs)
        self._last = _last_reads(plan)
        self._closed = False

    def __repr__(self) -> str:
        nodes = ", ".join(s.what for s in self.plan.steps if isinstance(s, FunctionStep))
        parts = f"{len(self.parts)} part{'s' * (len(self.parts) != 1)}"
        return f"<{type(self).__name__} of {parts}, with functions for {nodes}>"

    @property
    def eus(self) -> int:
        """The most execution units that a part runs on."""
        return max((part.eus for part in self.parts), default=1)

    def __call__(self, *args: object, **kwargs: object) -> Outputs[np.ndarray]:
        """Run one inference, part by part.

        Args: as of `Executable`.

        Returns:
            A list of one new array per output, which can be read by name, too.

        Raises:
            ShapeError, RangeError, DeviceError: as of `Executable`.
            FallbackError: a function raises an error, or returns something else than was promised.
        """
        self.check_open()
        given = call_arguments(self.inputs, args, kwargs)
        pairs = zip(self._parameters, given, strict=True)
        values = {parameter.tensor.name: parameter.take(value)[0] for parameter, value in pairs}
        values |= self.plan.constants
        for number, step in enumerate(self.plan.steps):
            if isinstance(step, PartStep):
                made = self.parts[step.part](*(values[name] for name in step.reads))
                values |= zip(step.writes, made, strict=True)
            else:
                values |= self._function(step, values)
            for name in self._last.get(number, ()):
                del values[name]
        return named(self._names, [self._own(values[name]) for name in self._names])

    def _function(
        self, step: FunctionStep, values: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        fallback = chosen(self._fallback, step.op)
        assert fallback is not None
        operands = [None if name is None else values[name] for name in step.reads]
        made = called(fallback.fn, step.what, operands, step.attributes, len(step.results))
        for index, (array, tensor) in enumerate(zip(made, step.results, strict=True)):
            if array.shape != tensor.shape or array.dtype.name != tensor.dtype:
                raise FallbackError(
                    f"{step.what}: result {index} of the fallback is {array.dtype.name}"
                    f"{list(array.shape)}, but {tensor.dtype}{list(tensor.shape)} was promised; "
                    "return that, or compile with Fallback(fn, shapes=..., dtypes=...)"
                )
        pairs = zip(made, step.results, strict=True)
        return {tensor.name: array for array, tensor in pairs if tensor.name}

    def _own(self, array: np.ndarray) -> np.ndarray:
        """An array that nobody else has: functions may return what they keep, or were given."""
        mine = array.flags.owndata or isinstance(array.base, bytearray)
        return array if mine and array.flags.writeable else array.copy()

    def bind(self, inputs: Arrays | None = None, outputs: Arrays | None = None) -> CompositeBinding:
        """Fix the memory of inputs and outputs; values between the parts get new memory in each
        call.

        Args:
            inputs, outputs: as of `Executable.bind`; outputs need no alignment.

        Returns:
            What runs the model on these arrays when it is called.

        Raises:
            ShapeError: an array is missing, unknown, or cannot be used where it lies.
            DeviceError: the model is closed.
        """
        self.check_open()
        return CompositeBinding(self, inputs, outputs)

    def report(self) -> Report:
        """What was decided and is expected, of all parts, one after the other; the note names each
        node that a function stands for.

        Raises:
            CompilerError: a part carries no report.
        """
        notes = [
            f"{step.what} is computed by a function of Python: {step.reason}"
            for step in self.plan.steps
            if isinstance(step, FunctionStep)
        ]
        return _joined([part.report() for part in self.parts]).noted(*notes)

    def stage(self, name: str) -> str:
        """The text of a stage, where there is one part: each has its own.

        Args:
            name: of the stage.

        Raises:
            CompilerError: there is not one part.
        """
        if len(self.parts) != 1:
            raise CompilerError(
                f"the model has {len(self.parts)} parts with stages of their own; ask "
                f"model.parts[0].stage({name!r}) and so on"
            )
        return str(self.parts[0].stage(name))

    def save(self, path: str | Path) -> None:
        """Write one file with all parts. It has no code of the functions: `load` asks for them.

        Args:
            path: of the file, by custom with the suffix `.rcx`.

        Raises:
            ArtifactError: it cannot be written.
        """
        parts = [part.artifact.to_bytes() for part in self.parts]
        container.write(Path(path), *composite.packed(self.plan, parts))

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Close all parts. Idempotent."""
        self._closed = True
        for part in self.parts:
            part.close()


class CompositeBinding(Staying):
    """Runs a composite model on the same arrays again and again; see `CompositeModel.bind`.

    Attributes:
        inputs: arrays in the order of the model; write to them between calls.
        outputs: arrays in the order of the model; each call overwrites them.
    """

    instead = "copy or pickle the model, and bind that"

    def __init__(
        self, model: CompositeModel, inputs: Arrays | None, outputs: Arrays | None
    ) -> None:
        """model: that is run; inputs, outputs: as of `CompositeModel.bind`."""
        self._model = model
        self.inputs = _fixed(model.inputs, inputs, "input")
        self.outputs = _fixed(model.outputs, outputs, "output")

    def __call__(self) -> None:
        """Run one inference: reads `inputs`, writes `outputs`.

        Raises:
            ShapeError, RangeError, DeviceError, FallbackError: as of a call of the model.
        """
        for array, result in zip(self.outputs, self._model(*self.inputs), strict=True):
            array[...] = result


def _fixed(tensors: Sequence[Any], given: Arrays | None, kind: str) -> tuple[np.ndarray, ...]:
    parameters = [Parameter(tensor, kind) for tensor in tensors]
    if given is None:
        made = tuple(aligned_empty(p.shape, p.dtype) for p in parameters)
        for array in made:
            array[...] = np.zeros((), array.dtype)
        return made
    by_name = given if isinstance(given, Mapping) else {}
    if not isinstance(given, Mapping | Sequence):
        raise ShapeError(
            f"bind: the {kind}s are a {type(given).__name__}; give a list of arrays or a dict"
        )
    values = arrange(tensors, () if by_name else list(given), by_name, kind)
    pairs = zip(parameters, values, strict=True)
    return tuple(p.fixed(value, write=kind == "output") for p, value in pairs)


def _last_reads(plan: Plan) -> dict[int, list[str]]:
    """Names of values that no step behind one reads, by its number."""
    kept = {tensor.name for tensor in plan.outputs}
    last: dict[str, int] = {}
    for number, step in enumerate(plan.steps):
        made = step.writes if isinstance(step, PartStep) else [t.name for t in step.results]
        for name in (*step.reads, *made):
            if name:
                last[name] = number
    found: dict[int, list[str]] = {}
    for name, number in last.items():
        if name not in kept:
            found.setdefault(number, []).append(name)
    return found


def _joined(reports: Sequence[Report]) -> Report:
    """Of models that run one after the other."""
    if not reports:
        return Report("", (), 1, 0, 0.0, 0.0, 0.0, (), 0, 0, 0)
    eus = max(report.eus for report in reports)
    idle = [
        sum(report.idle_ns[eu] if eu < len(report.idle_ns) else 0.0 for report in reports)
        for eu in range(eus)
    ]
    return replace(
        reports[0],
        operators=tuple(op for report in reports for op in report.operators),
        eus=eus,
        launches=sum(report.launches for report in reports),
        makespan_ns=sum(report.makespan_ns for report in reports),
        work_bound_ns=sum(report.work_bound_ns for report in reports),
        path_bound_ns=sum(report.path_bound_ns for report in reports),
        idle_ns=tuple(idle),
        arena_bytes=sum(report.arena_bytes for report in reports),
        arena_bound_bytes=sum(report.arena_bound_bytes for report in reports),
        constant_bytes=sum(report.constant_bytes for report in reports),
        note="\n".join(filter(None, (report.note for report in reports))),
    )
