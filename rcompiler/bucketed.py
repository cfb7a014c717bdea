"""A model with programs for several sizes of its inputs: each call runs the one that fits.

Loading imports numpy, the runtime and the checker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rcompiler.driver.model_views import family_text
from rcompiler.errors import ArtifactError, DeviceError, ShapeError
from rcompiler.model import CompiledModel, Model, being_loaded, model_of
from rcompiler.report import Report
from rcompiler.runtime.arguments import call_arguments
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.closing import Closable
from rcompiler.runtime.container import shown
from rcompiler.runtime.family import Family, Interval, from_bytes, smallest
from rcompiler.runtime.gpu.image import GpuImage
from rcompiler.runtime.memory import room_for
from rcompiler.runtime.outputs import Outputs
from rcompiler.runtime.threads import Waiting
from rcompiler.runtime.turns import Turns

_MOST_SHAPES = 1 << 12  # that are remembered with their program


@dataclass(frozen=True)
class SizedTensor:
    """An input or output of a model for several sizes.

    Attributes:
        name: as in the ONNX model.
        shape: the greatest that it may have.
        dtype: name of the type in numpy or ml_dtypes.
        sizes: the same, with the names of those that differ between calls; of an output "?" where a
            size follows from others.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    sizes: tuple[int | str, ...]


@dataclass(frozen=True)
class _Serving:
    """What calls see of one state of a model: replaced as a whole.

    Attributes:
        family, models: of each program of the family what runs it.
        known: by the shapes of calls the model that runs them.
    """

    family: Family
    models: Sequence[Model]
    known: dict[tuple[tuple[int, ...], ...], Model]


class BucketedModel(Closable):
    """numpy in, list of numpy out, for all sizes that it has a program for.

    On a CPU all programs run on the same threads, and have one arena and one block of weights. On a
    GPU each has its own weights in device memory.

    Attributes:
        inputs, outputs: name, shape, dtype of each, in the order of the call and of the result.
    """

    def __init__(
        self,
        family: Family,
        eus: int | None = None,
        *,
        timed: bool = False,
        wait_limit_s: float | None = None,
        stand_in: Callable[[Artifact], Any] | None = None,
        **options: Any,
    ) -> None:
        """Prove the schedules of all programs, load their code, start the threads.

        Args:
            family: what is run.
            eus, timed, wait_limit_s, **options: as of `CompiledModel` or `GpuModel`; wait_limit_s
                None for the one that these have by themselves. What runs on a GPU is not timed.
            stand_in: makes what stands for a program, where this machine lacks what its code needs:
                the model then says what it is, and is saved.

        Raises:
            ArtifactError, ScheduleError, DeviceError: as of these.
        """
        family.check()
        self._options = {"eus": eus, "timed": timed, "wait_limit_s": wait_limit_s, **options}
        waiting = Waiting() if wait_limit_s is None else Waiting(limit_s=wait_limit_s)
        each: dict[str, Any] = {**options}
        if wait_limit_s is not None:
            each["wait_limit_s"] = wait_limit_s
        on_gpu = isinstance(family.programs[0].image, GpuImage)
        if timed and on_gpu:
            raise DeviceError("timed=True: what runs on a GPU is not timed; leave it out")
        self._turns: Turns | None = None
        if timed:
            each["timed"] = True
        elif stand_in is None and not on_gpu:
            most = max(program.arena_bytes for program in family.programs)
            each["turns"] = self._turns = Turns(most, waiting.limit_s)
        self._make: Callable[[Artifact], Model] = stand_in or partial(model_of, eus=eus, **each)
        self._now = _Serving(family, [*map(self._make, family.programs)], {})
        self._asked: Callable[[Sequence[int]], None] | None = None  # told of sizes that are new
        if self._turns is not None:
            self._turns.begin()
        self.inputs = tuple(
            SizedTensor(t.name, t.shape, t.dtype, family.sizes_of(t.name))
            for t in self.largest.inputs
        )
        self.outputs = tuple(
            SizedTensor(t.name, t.shape, t.dtype, self._output_sizes(n))
            for n, t in enumerate(self.largest.outputs)
        )

    def __call__(self, *args: object, **kwargs: object) -> Outputs[np.ndarray]:
        """Run one inference.

        Args: as of `Executable.__call__`, of any sizes that the model has a program for.

        Returns:
            A list of one new array per output, with the shape that the inputs lead to.

        Raises:
            ShapeError: also where inputs disagree on a size, or there is no program for it.
            RangeError, DeviceError: as of `Executable.__call__`.
        """
        arrays = call_arguments(self._first.inputs, args, kwargs)
        shapes = tuple(_shape(array) for array in arrays)
        model = self._now.known.get(shapes) or self._chosen(shapes)
        return model(*arrays)

    @property
    def family(self) -> Family:
        """What is run, and all that is known of it."""
        return self._now.family

    def program(self, **sizes: int) -> Model:
        """The model that runs inputs of these sizes: to bind memory to it, or to ask for its times.

        Args:
            **sizes: by symbol; of those that are left out any.

        Raises:
            ShapeError: there is no such symbol, or no program for these sizes.
        """
        now = self._now
        return now.models[now.family.program_for(self._sizes(sizes))]

    def holding(self, sizes: Sequence[int]) -> tuple[Model, Sequence[Interval]] | None:
        """The model for the smallest program of these sizes, and the sizes that it takes; None
        where there is none.

        Args:
            sizes: by the number of the symbol; -1 where any will do.
        """
        now = self._now
        number = smallest(now.family.sizes, sizes, now.family.packed)
        return None if number is None else (now.models[number], now.family.sizes[number])

    def taking(self, *args: object, **kwargs: object) -> Model:
        """The model that runs a call with these arguments.

        Args: as of a call.

        Raises:
            ShapeError: as of a call.
        """
        arrays = call_arguments(self._first.inputs, args, kwargs)
        return self._chosen(tuple(map(_shape, arrays)))

    def arguments(self, *args: object, **kwargs: object) -> list[np.ndarray]:
        """The arguments of a call as arrays, checked as the call would check them.

        Args: as of a call.

        Returns:
            An array for each input, of the shape that was given.

        Raises:
            ShapeError, RangeError: as of `Executable.arguments`.
            DeviceError: the model is for a GPU.
        """
        arrays = call_arguments(self._first.inputs, args, kwargs)
        shapes = tuple(map(_shape, arrays))
        model = self._now.known.get(shapes) or self._chosen(shapes)
        if not isinstance(model, CompiledModel):
            raise DeviceError(f"arguments for '{model.artifact.target}' are checked by its calls")
        return model.arguments(*arrays)

    @property
    def programs(self) -> list[tuple[dict[str, tuple[int, int]], Model]]:
        """Of each program, by symbol, the least and the greatest size, and the model that runs."""
        family, models = self._now.family, self._now.models
        each = (dict(zip(family.symbols, sizes, strict=True)) for sizes in family.sizes)
        return list(zip(each, models, strict=False))

    @property
    def eus(self) -> int:
        """Execution units that it runs on."""
        return self.largest.eus

    @property
    def artifact(self) -> Artifact:
        """That of the program for the largest sizes."""
        return self.largest.artifact

    def stage(self, name: str) -> str:
        """The text of a stage of the program for the largest sizes; see `CompiledModel.stage`.

        Args:
            name: of the stage.

        Raises:
            CompilerError: there is no such stage.
        """
        return self.largest.stage(name)

    def constants(self) -> dict[str, np.ndarray]:
        """The weights that its stage "vdevice" names, see `CompiledModel.constants`."""
        return self.largest.constants()

    def report(self) -> Report:
        """That of the program for the largest sizes, which names all others.

        Returns:
            As `CompiledModel.report`.

        Raises:
            CompilerError: the model carries no report.
            ArtifactError: it is damaged.
        """
        count = len(self._now.models)
        return self.largest.report().noted(
            f"the largest of {count} programs over one block of weights, for "
            f"{self.family.text()}; program(...) has the others"
        )

    def save(self, path: str | Path) -> None:
        """Write one file with all programs.

        Args:
            path: of the file.

        Raises:
            ArtifactError: it cannot be written.
        """
        self.family.save(path)

    @property
    def closed(self) -> bool:
        return self.largest.closed

    def close(self) -> None:
        """Stop the threads and give back the memory. Idempotent."""
        for model in self._now.models:
            model.close()

    def another(self, **options: Any) -> BucketedModel:
        """A model of its own that runs the same, with the same code and weights.

        Args:
            **options: as of the constructor, where they differ.

        Raises:
            DeviceError: the model is closed, or there is no room for another.
        """
        self.check_open()
        with room_for("copying the model"):
            return type(self)(self.family, **{**self._options, **options})

    def __copy__(self) -> BucketedModel:
        """A model of its own that runs the same.

        Raises:
            DeviceError: the model is closed, or there is no room for another.
        """
        return self.another()

    def __deepcopy__(self, memo: object) -> BucketedModel:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        """Raises DeviceError where the model is closed, or there is no room for its bytes."""
        return self.as_pickled(type(self))

    def as_pickled(self, kind: type[BucketedModel]) -> tuple[Any, ...]:
        """What pickle keeps: the options and the bytes of the file.

        Args:
            kind: what they are again.

        Raises:
            DeviceError: as of `__reduce__`.
        """
        self.check_open()
        return partial(_unpickled, kind, **self._options), (self.family.to_bytes(),)

    def __repr__(self) -> str:
        return family_text(
            type(self).__name__,
            self.largest.artifact,
            self.eus,
            self.closed,
            (self.inputs, self.outputs),
            shown(self.family.text()),
        )

    def _extend(self, family: Family) -> None:
        """Serve a family that begins with the programs of this one; by one thread at a time."""
        models = self._now.models
        if added := family.programs[len(models) :]:
            self._now = _Serving(family, [*models, *map(self._make, added)], {})

    @property
    def _first(self) -> Model:
        return self._now.models[0]

    @property
    def largest(self) -> Model:
        """The model that runs the largest sizes."""
        now = self._now
        tops = [tuple(top for _, top in sizes) for sizes in now.family.sizes]
        return now.models[max(range(len(tops)), key=lambda n: (sum(tops[n]), n))]

    def _sizes(self, sizes: Mapping[str, int]) -> list[int]:
        """Sizes by symbol, in the order of the symbols; -1 for those that are left out."""
        names = self.family.symbols
        for name in sizes:
            if name not in names:
                raise ShapeError(f"the model has no size '{name}'; it has: {', '.join(names)}")
        return [sizes.get(name, -1) for name in names]

    def _chosen(self, shapes: tuple[tuple[int, ...], ...]) -> Model:
        now = self._now
        sizes = now.family.size_of(shapes)
        model = now.models[now.family.program_for(sizes)]
        if self._asked is not None:
            self._asked(sizes)
        if len(now.known) >= _MOST_SHAPES:
            now.known.clear()
        now.known[shapes] = model
        return model

    def _output_sizes(self, number: int) -> tuple[int | str, ...]:
        """With the symbols that an axis has in all programs."""
        family, largest = self.family, self.largest.outputs[number]
        shapes = [program.outputs[number].shape for program in family.programs]
        found: list[int | str] = []
        for told, sizes in zip(largest.sizes, zip(*shapes, strict=True), strict=True):
            if not isinstance(told, int):
                found.append(str(told))
                continue
            if len({*sizes}) == 1:
                found.append(sizes[0])
                continue
            same = (
                symbol
                for n, symbol in enumerate(family.symbols)
                if all(s == own[n][1] for s, own in zip(sizes, family.sizes, strict=True))
            )
            found.append(next(same, "?"))
        return tuple(found)


def _unpickled(kind: type[BucketedModel], data: bytes, **options: Any) -> BucketedModel:
    """What was pickled."""
    with being_loaded("the bytes of a model"):
        found = from_bytes(data)
        if not isinstance(found, Family):
            raise ArtifactError("it has one size; load it with rcompiler.load")
        return kind(found, **options)


def _shape(array: object) -> tuple[int, ...]:
    return array.shape if isinstance(array, np.ndarray) else np.shape(array)  # type: ignore[call-overload]
