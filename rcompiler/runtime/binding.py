"""Inputs and outputs at fixed places in memory: a call is one foreign call and nothing else."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rcompiler.errors import DeviceError, ShapeError
from rcompiler.runtime.arguments import Arrays, Parameter, arrange
from rcompiler.runtime.closing import Staying
from rcompiler.runtime.index_checks import IndexChecks
from rcompiler.runtime.memory import ALIGNMENT, address, aligned_empty
from rcompiler.runtime.state import HeldState
from rcompiler.support.random_keys import RANDOM_KEY, next_key


class Binding(Staying):
    """Runs a model on the same arrays again and again; see `Executable.bind`.

    Calls from several threads, of this binding, of others and of the model, are safe: they run one
    after the other. All calls of one binding write the same outputs.

    Attributes:
        inputs: arrays in the order of the model; write to them between calls.
        outputs: arrays in the order of the model; each call overwrites them.
    """

    instead = "copy or pickle the model, and bind that"
    __slots__ = (
        "__weakref__",
        "_answers",
        "_bases",
        "_behind",
        "_checks",
        "_counted",
        "_held",
        "_indices",
        "_key",
        "_narrow",
        "_owner",
        "_places",
        "_run",
        "_table",
        "inputs",
        "outputs",
    )

    def __init__(
        self,
        owner: object,
        run: Callable[[bytes], None],
        table: Callable[..., bytes],
        inputs: Sequence[Parameter],
        outputs: Sequence[Parameter],
        checks: IndexChecks,
        given_inputs: Arrays | None,
        given_outputs: Arrays | None,
        counts: int = 0,
        held: HeldState | None = None,
    ) -> None:
        """owner: keeps alive what the table points to, besides inputs and outputs; run: one
        inference with a table of base addresses; table: makes one from those of inputs, outputs,
        so many counts, and answers of checks; held: the state that calls go on with, if the model
        has any.

        Errors as for `Executable.bind`.
        """
        self.inputs = _arrays(inputs, given_inputs, "input")
        self.outputs = _arrays(outputs, given_outputs, "output")
        _disjoint(inputs, self.inputs, outputs, self.outputs)
        read = list(self.inputs)
        # (table of bytes, what the user writes, what kernels read) of types of less than 8 bits.
        self._narrow: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for index, parameter in enumerate(inputs):
            if parameter.filled is not None:
                read[index] = aligned_empty(parameter.shape, parameter.dtype)
                raw = self.inputs[index].view(np.uint8), read[index].view(np.uint8)
                self._narrow.append((parameter.filled, *raw))
        self._key = _own_key(inputs, self.inputs, given_inputs)
        self._checks = checks if checks else None
        self._answers = checks.new()
        self._counted = [aligned_empty((), np.dtype(np.int64)) for _ in range(counts)]
        places = [[address(array) for array in side] for side in (read, self.outputs)]
        self._behind = [*map(address, self._counted), *self._answers.addresses]
        self._places, self._table, self._held = places, table, held
        if held is None:
            self._bases = table(*places[0], *places[1], *self._behind)
        self._owner, self._run = owner, run
        pairs = zip(inputs, self.inputs, strict=True)
        self._indices = [(p.check_range, array) for p, array in pairs if p.indices is not None]

    def __call__(self) -> None:
        """Run one inference: reads `inputs`, writes `outputs`.

        Raises:
            DeviceError: the model is closed, its state is lost, or the schedule stopped (see
                `Waiting.limit_s`).
            RangeError: an index in an input, or one that the model computes, is outside of what it
                leads into.
        """
        for check, array in self._indices:
            check(array)
        if self._key is not None:
            self._key[...] = next_key()
        if self._narrow:
            for filled, raw, read in self._narrow:
                np.take(filled, raw, out=read, mode="clip")  # the other modes use a buffer
        if self._held is not None:
            self._held.step(self._step)
            return
        self._run(self._bases)
        if self._checks is not None:
            self._checks.look(self._answers)

    def _step(self, last: Sequence[int], new: Sequence[int]) -> None:
        """One inference with a state that lies at these addresses."""
        read, written = self._places
        self._run(self._table(*read, *last, *written, *new, *self._behind))
        if self._checks is not None:
            self._checks.look(self._answers)


def _arrays(
    parameters: Sequence[Parameter], given: Arrays | None, kind: str
) -> tuple[np.ndarray, ...]:
    if given is None:
        return tuple(_new(parameter, kind) for parameter in parameters)
    tensors = [parameter.tensor for parameter in parameters]
    args: Any = () if isinstance(given, Mapping) else given
    if not isinstance(args, Sequence):
        raise ShapeError(
            f"bind: the {kind}s are a {type(given).__name__}; give a list of arrays or a dict"
        )
    values = arrange(tensors, args, given if isinstance(given, Mapping) else {}, kind)
    alignment, write = (ALIGNMENT, True) if kind == "output" else (1, False)
    pairs = zip(parameters, values, strict=True)
    return tuple(parameter.fixed(value, alignment, write) for parameter, value in pairs)


def _own_key(
    parameters: Sequence[Parameter], arrays: Sequence[np.ndarray], given: Arrays | None
) -> np.ndarray | None:
    """Where the key of random numbers lies that each call renews; None where the caller gave one,
    or the model takes none."""
    values = [*given.values()] if isinstance(given, Mapping) else given or ()
    for parameter, array in zip(parameters, arrays, strict=True):
        if parameter.tensor.name == RANDOM_KEY and not any(value is array for value in values):
            return array
    return None


def _new(parameter: Parameter, kind: str) -> np.ndarray:
    try:
        array = aligned_empty(parameter.shape, parameter.dtype)
    except MemoryError:
        raise DeviceError(
            f"bind: no memory for {kind} '{parameter.tensor.name}' of {parameter.tensor.nbytes} "
            "bytes; free some memory"
        ) from None
    array[...] = np.zeros((), parameter.dtype)
    return array


def _disjoint(
    inputs: Sequence[Parameter],
    read: Sequence[np.ndarray],
    outputs: Sequence[Parameter],
    written: Sequence[np.ndarray],
) -> None:
    """Schedules are proved for tensors in memory of their own; inputs may be the same array."""
    names = [parameter.tensor.name for parameter in (*inputs, *outputs)]
    arrays = [*read, *written]
    for index in range(len(read), len(arrays)):
        for other in range(index):
            if np.may_share_memory(arrays[index], arrays[other]):  # exact: each is one piece
                raise ShapeError(
                    f"bind: output '{names[index]}' shares memory with '{names[other]}'; "
                    "give it an array of its own"
                )
