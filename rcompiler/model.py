"""A model that runs, explains itself and can be saved: what compile_onnx and load return.

Loading imports numpy, the runtime and the checker; the compiler only when `stage("asm")` asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from rcompiler.driver.certified import prove
from rcompiler.driver.gpu_devices import open_device
from rcompiler.driver.model_views import model_html, model_text, taken_text
from rcompiler.errors import ArtifactError, CompilerError, DeviceError, ScheduleError
from rcompiler.report import Report
from rcompiler.runtime import tables
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.executable import Executable
from rcompiler.runtime.gpu.executable import GpuExecutable
from rcompiler.runtime.gpu.image import GpuImage
from rcompiler.runtime.held import HeldModel
from rcompiler.runtime.memory import room_for

STAGES = ("linalg", "rtask", "rkernel", "vdevice", "gpu", "llvm", "asm")
REPORT = "report"  # kept beside the stage texts


class Explained(HeldModel):
    """What a compiled model says of itself, whatever it runs on.

    Attributes:
        eus: execution units that it runs on.
    """

    eus: int

    def __repr__(self) -> str:
        return model_text(type(self).__name__, self.artifact, self.eus, self.closed)

    def _repr_html_(self) -> str:
        """For notebooks."""
        return model_html(type(self).__name__, self.artifact, self.eus, self.closed)

    def stage(self, name: str) -> str:
        """The text of a stage of the compilation.

        A model compiled from a schedule has only the stages after it. asm is made when it is asked
        for, for which the compiler's packages must be installed.

        Args:
            name: linalg, rtask, rkernel, vdevice, llvm or asm; for a GPU gpu, and ptx or amdgcn.
                "schedule" is vdevice in the schedule form, short and with the program first.

        Raises:
            CompilerError: there is no such stage.
        """
        texts = self.artifact.stages
        there = [stage for stage in STAGES if stage in texts]
        if "vdevice" in there:
            there.insert(there.index("vdevice"), "schedule")
        if "llvm" in there and "cpu" in self.artifact.provenance:
            there.append("asm")
        image = self.artifact.image
        if isinstance(image, GpuImage):
            there.append(image.language)
            if name == image.language:
                return image.ptx.decode()
        if name == "asm" and name in there:
            return self._assembly()
        if name == "schedule" and name in there:
            from rcompiler.schedule_text import schedule_form  # which a model that only runs spares

            return schedule_form(texts["vdevice"])
        if name in there:
            return texts[name]
        if name == "torch":
            raise CompilerError(
                "there is no stage 'torch': ONNX is lowered to linalg directly, without the torch "
                f"dialect; there are: {', '.join(there)}"
            )
        raise CompilerError(f"there is no stage {name!r}; there are: {', '.join(there) or 'none'}")

    def report(self) -> Report:
        """What was decided and is expected: of each operator its tile and why; of the schedule
        makespan, bounds, idle time and memory.

        Returns:
            A report to print, or to read by its fields, `to_dict()` or `to_json()`.

        Raises:
            CompilerError: the model carries no report.
            ArtifactError: it is damaged.
        """
        if REPORT not in self.artifact.stages:
            raise CompilerError("the compiled model carries no report; compile the model again")
        report = Report.from_json(self.artifact.stages[REPORT])
        levels = self.artifact.levels
        return report.noted(taken_text(self.artifact)) if levels else report

    def constants(self) -> dict[str, np.ndarray]:
        """The weights that the text of stage "vdevice" names: uint8 bytes by key, read-only.

        With that text they are all that `compile_schedule` needs.
        """
        found: dict[str, np.ndarray] = {}
        notes: Any = self.artifact.proof
        constant = tables.BUFFER_KINDS.index("constant")
        for _, kind, offset, size, _, key, *_ in zip(*notes["buffers"], strict=True):
            if kind == constant and key and key not in found:
                found[key] = self.artifact.constants[offset : offset + size]
        return found

    def _assembly(self) -> str:
        try:
            from rcompiler.codegen.assembly import assembly
        except ImportError as error:
            raise CompilerError(
                f"stage 'asm' is made by the compiler, which is not installed here ({error}); "
                "install rcompiler with its compiler packages"
            ) from None
        facts = self.artifact.provenance
        return assembly(self.artifact.stages["llvm"], facts["cpu"], facts.get("features", ""))


class Portable(HeldModel):
    """A model that can be copied, and pickled to travel to another process.

    A copy is a model of its own: with threads, memory for temporary tensors, and on a GPU all of
    its memory there, of its own. It shares code and weights, which nobody writes. A pickled model
    is the bytes of its file, weights included, and the options that it was loaded with; where it is
    unpickled they are checked and proved as `load` does it. Neither has what the model holds at the
    moment: bindings, times, the device that it has opened, its state (`fork` copies that).

    Nothing makes it safe to unpickle what a stranger wrote: take an `.rcx` file, and `load` it.
    """

    _options: dict[str, Any]

    def another(self, **options: Any) -> Model:
        """A model of its own that runs the same, as a copy.

        Args:
            **options: as of `model_of`, where they differ from those of this one.

        Raises:
            DeviceError: the model is closed, or there is no room for another.
        """
        self.check_open()
        with room_for("copying the model"):
            return model_of(self.artifact, **{**self._options, **options})

    def over(self, artifact: Artifact) -> Model:
        """A model of its own that runs the same.

        Args:
            artifact: that of this one, with its weights elsewhere in memory.

        Raises:
            DeviceError: the model is closed, or there is no room for another.
        """
        self.check_open()
        with room_for("copying the model"):
            return model_of(artifact, **self._options)

    def __copy__(self) -> Model:
        """A model of its own that runs the same.

        Raises:
            DeviceError: the model is closed, or there is no room for another.
        """
        return self.another()

    def __deepcopy__(self, memo: object) -> Model:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        """Raises DeviceError where the model is closed, or there is no room for its bytes."""
        self.check_open()
        return partial(unpickled, **self._options), (self.artifact.to_bytes(),)


class CompiledModel(Explained, Portable, Executable):
    """numpy in, list of numpy out; its schedule was proved before its code was loaded.

    Calls from several threads run one after the other. See `Executable` for inputs, outputs, eus,
    the call, save and close.
    """

    def __init__(self, artifact: Artifact, eus: int | None = None, **options: Any) -> None:
        """Prove its schedule, load its code, start its threads.

        Args:
            artifact: what is run.
            eus, **options: as for `Executable`.

        Raises:
            ArtifactError: the artifact contradicts itself or needs another CPU.
            ScheduleError: its schedule is not proved right.
            DeviceError: memory or threads are refused.
        """
        # these are of one model: a copy runs what serves now
        kept = {n: value for n, value in options.items() if n not in ("plans", "turns")}
        self._options = {"eus": eus, **kept}
        super().__init__(artifact, eus, validate=prove, **options)


class GpuModel(Explained, Portable, GpuExecutable):
    """The same on a GPU; the device is opened by the first call. See `GpuExecutable`."""

    def __init__(self, artifact: Artifact, device: int = 0, **options: Any) -> None:
        """Prove its schedule.

        Args:
            artifact: what is run.
            device: number of the GPU.
            **options: as for `GpuExecutable`.

        Raises:
            ArtifactError: the artifact contradicts itself or is for another kind of device.
            ScheduleError: its schedule is not proved right.
        """
        self._options = {"device": device, **options}
        super().__init__(
            artifact, partial(open_device, artifact, device), validate=prove, **options
        )


Model = CompiledModel | GpuModel


def model_of(artifact: Artifact, eus: int | None = None, **options: Any) -> Model:
    """The model that an artifact holds, on the device that it was compiled for.

    Args:
        artifact: what is run.
        eus: as for `Executable`; None for those of the schedule.
        **options: as for `CompiledModel` or `GpuModel`.

    Raises:
        ArtifactError: the artifact contradicts itself or is for another machine.
        ScheduleError: its schedule is not proved right.
        DeviceError: memory or threads are refused, or `eus` is not that of a schedule for a GPU.
    """
    if not isinstance(artifact.image, GpuImage):
        return CompiledModel(artifact, eus, **options)
    model = GpuModel(artifact, **options)
    if eus not in (None, model.eus):
        raise DeviceError(
            f"eus={eus}: the schedule is for {model.eus} blocks that run at the same time; compile "
            f"the model with eus={eus}"
        )
    return model


def unpickled(data: bytes, **options: Any) -> Model:
    """The model that was pickled, from the bytes of its file; errors as of `loading.load`."""
    with being_loaded("the bytes of a model"):
        return model_of(Artifact.from_bytes(data), **options)


@contextmanager
def being_loaded(name: str) -> Iterator[None]:
    """What is said of a model that is loaded has the name of what was read."""
    try:
        with room_for("loading the model"):
            yield
    except CompilerError as error:
        if type(error) is ScheduleError:
            raise ScheduleError(f"{name}: {error}", error.rule) from None
        if type(error) is ArtifactError and not str(error).startswith(name):
            raise ArtifactError(f"{name}: {error}") from None
        raise
