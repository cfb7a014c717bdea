"""A loaded model: numpy arrays in, a list of numpy arrays out."""

import ctypes
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from rcompiler.errors import DeviceError, ShapeError
from rcompiler.runtime import tables
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.cpuinfo import require_flags
from rcompiler.runtime.image import LoadedImage
from rcompiler.runtime.memory import Results, address, arena
from rcompiler.runtime.program import Tensor
from rcompiler.runtime.schedule import combine
from rcompiler.runtime.threads import Team, Waiting


class _Process:
    """The threads of one process; a forked child makes its own at the first call."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.team: Team | None = None


class Executable:
    """Runs an artifact.

    Calls from several threads are safe: they run one after the other. After a fork the child
    starts threads of its own at its first call.

    Attributes:
        artifact: what is run.
        inputs, outputs: name, shape, dtype of each, in the order of the call and of the result.
        eus: threads that an inference uses, the calling one included.
    """

    def __init__(
        self,
        artifact: Artifact,
        eus: int | None = None,
        *,
        pin: bool = False,
        wait_limit_s: float = 20.0,
        validate: Callable[[Artifact], None] | None = None,
    ) -> None:
        """Check, load the code, reserve the arena, start the threads.

        Args:
            eus: threads to use; None = one per EU of the artifact, at most one per CPU of this
                process. Fewer threads than EUs give the same results; more CPUs than EUs are of
                no use. Asking for more than there are CPUs is possible and slow.
            pin: bind each worker to a CPU. The calling thread is never bound.
            wait_limit_s: after so long without progress a launch fails instead of hanging.
            validate: the full proof (no race, no deadlock) over the artifact's programs; raises
                to refuse. Called after the structural check, before any code is loaded.

        Raises:
            ArtifactError: the artifact contradicts itself or needs another CPU.
            DeviceError: memory, executable memory or threads are refused; `eus` is impossible.
        """
        artifact.check()
        require_flags(artifact.target, artifact.cpu_flags)
        if validate is not None:
            validate(artifact)
        self.artifact = artifact
        self.inputs, self.outputs = artifact.inputs, artifact.outputs
        self.eus = _threads(artifact, eus)
        self._waiting = Waiting(limit_s=wait_limit_s)
        self._pin = pin
        self._schedule = combine(artifact.programs, self.eus)
        self._code = LoadedImage(artifact.image)
        self._arena = arena(artifact.arena_bytes, "temporary tensors of the model")
        self._input_types = [(t, t.numpy_dtype()) for t in self.inputs]
        self._results = [Results(t.shape, t.numpy_dtype()) for t in self.outputs]
        self._bases = (ctypes.c_void_p * (tables.EXTERNAL + len(self.inputs + self.outputs)))()
        self._bases[tables.ARENA] = address(self._arena)
        self._bases[tables.CONSTANTS] = address(artifact.constants)
        self._bases_address = ctypes.addressof(self._bases)
        self._closed = False
        self._processes: dict[int, _Process] = {}
        with self._process().lock:
            self._team()

    def __call__(self, *args: object, **kwargs: object) -> list[np.ndarray]:
        """Run one inference.

        Args: one array per input, by position or by input name, of exactly the declared shape and
            dtype. Any strides and alignment; NaN and infinity are data like any other.

        Returns:
            One new 64-byte aligned array per output; they are the caller's to keep and change.

        Raises:
            ShapeError: an argument is missing, unknown, twice there, or of another shape or dtype.
            DeviceError: the model is closed, or the schedule stopped (see `Waiting.limit_s`).
        """
        arrays = self._bind(args, kwargs)
        results = [result.new() for result in self._results]
        process = self._processes.get(os.getpid()) or self._process()
        with process.lock:
            team = process.team or self._team()
            self._bases[tables.EXTERNAL :] = [
                *[address(array) for array in arrays],
                *[start for _, start in results],
            ]
            team.launch(self._bases_address)
        return [array for array, _ in results]

    def close(self) -> None:
        """Stop the threads. Idempotent; also happens when the model is collected."""
        process = self._process()
        with process.lock:
            self._closed = True
            if process.team is not None:
                process.team.close()
                process.team = None

    def stage(self, name: str) -> str:
        """Text of a compilation stage, when the artifact carries it (see `Artifact.stage`)."""
        return self.artifact.stage(name)

    def save(self, path: str | Path) -> None:
        """Write the artifact (see `Artifact.save`)."""
        self.artifact.save(path)

    def _process(self) -> _Process:
        # setdefault is atomic: two threads of a new child agree on one lock.
        pid = os.getpid()
        return self._processes.get(pid) or self._processes.setdefault(pid, _Process())

    def _team(self) -> Team:
        if self._closed:
            raise DeviceError("the model is closed; load it again")
        kernels = [kernel.name for kernel in self.artifact.kernels]
        team = Team(self._code, kernels, self._schedule, self._waiting, self._pin)
        self._process().team = team
        return team

    def _bind(self, args: Sequence[object], kwargs: Mapping[str, object]) -> list[np.ndarray]:
        types = self._input_types
        if len(args) == len(types) and not kwargs:
            return [_accept(v, t, d) for v, (t, d) in zip(args, types, strict=True)]
        names = [tensor.name for tensor, _ in types]
        listed = ", ".join(names) or "none"
        if len(args) > len(names):
            raise ShapeError(
                f"call: {len(args)} arguments for {len(names)} inputs; the inputs are: {listed}"
            )
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names:
                raise ShapeError(f"call: there is no input '{name}'; the inputs are: {listed}")
            if name in given:
                raise ShapeError(f"call: input '{name}' is given by position and by name")
            given[name] = value
        for name in names:
            if name not in given:
                raise ShapeError(f"call: input '{name}' is missing; the inputs are: {listed}")
        return [_accept(given[tensor.name], tensor, dtype) for tensor, dtype in types]


# Bits of the types that take a whole byte each in memory.
_NARROW = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}


def load(path: str | Path, eus: int | None = None, **options: object) -> Executable:
    """Load a saved model and make it ready to run.

    Args:
        path: an `.rcx` file.
        eus, options: as for `Executable`.

    Errors as for `Artifact.load` and `Executable`.
    """
    return Executable(Artifact.load(path), eus, **options)  # type: ignore[arg-type]


def _accept(value: object, tensor: Tensor, dtype: np.dtype) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"call: input '{tensor.name}' is not an array: {error}") from None
    if array.shape != tensor.shape:
        raise ShapeError(
            f"call: input '{tensor.name}' has shape {list(array.shape)}, the model wants "
            f"{list(tensor.shape)}; compile it for that shape or reshape the argument"
        )
    if array.dtype != dtype:
        raise ShapeError(
            f"call: input '{tensor.name}' is {array.dtype}, the model wants {dtype}; "
            f"convert it with .astype('{dtype}')"
        )
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = np.array(array, order="C", copy=True)
    return _extended(array) if dtype.name in _NARROW else array


def _extended(array: np.ndarray) -> np.ndarray:
    """Numbers of less than 8 bits with their byte filled up, as kernels expect it; numpy lets the
    high bits be anything."""
    unused = 8 - _NARROW[array.dtype.name]
    raw = array.view(np.uint8 if array.dtype.name[0] in "uf" else np.int8)
    return ((raw << unused) >> unused).view(array.dtype)


def _threads(artifact: Artifact, asked: int | None) -> int:
    most = max((len(program.streams) for program in artifact.programs), default=1)
    if asked is None:
        return min(most, len(os.sched_getaffinity(0)))
    if isinstance(asked, bool) or not isinstance(asked, int) or asked < 1:
        raise DeviceError(f"eus={asked!r}: give a whole number from 1 to {most}")
    return min(asked, most)
