"""A loaded model on a GPU: arrays of the host or of the device in, a list of either out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rcompiler.errors import ArtifactError, DeviceError, ShapeError
from rcompiler.runtime.arguments import Parameter, arrange, call_arguments, parameters
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.call_lock import CallLock
from rcompiler.runtime.gpu.arrays import DeviceArray, check_range, on_device, raw
from rcompiler.runtime.gpu.binding import GpuBinding
from rcompiler.runtime.gpu.dlpack import ForeignArray
from rcompiler.runtime.gpu.driver import Driver
from rcompiler.runtime.gpu.image import GpuImage
from rcompiler.runtime.gpu.launches import launches
from rcompiler.runtime.gpu.loading import load_kernel
from rcompiler.runtime.gpu.resident import Resident
from rcompiler.runtime.held import HeldModel
from rcompiler.runtime.memory import Results
from rcompiler.runtime.outputs import Outputs, named
from rcompiler.runtime.sessions import Stateful
from rcompiler.runtime.sized_arguments import SizedCall
from rcompiler.runtime.state import HeldState, State
from rcompiler.support.random_keys import RANDOM_KEY

Arguments = Sequence[object] | Mapping[str, object]


@dataclass(frozen=True)
class DeviceNeeds:
    """What a device must have.

    Attributes:
        chip: "sm_90a": the code runs on this kind of GPU (with an `a`: on no other).
        blocks: that run at the same time: one per EU where EUs wait for one another, else 1.
        threads, shared: of a block; bytes of shared memory.
        memory: bytes for weights, temporary tensors, inputs and outputs.
        machine_code: whether the artifact carries it; else the driver compiles PTX.
    """

    chip: str
    blocks: int
    threads: int
    shared: int
    memory: int
    machine_code: bool


class GpuExecutable(HeldModel, Stateful):
    """Runs an artifact: one cooperative launch per inference, or one launch for each program where
    no EU waits for another (see `launches`).

    Weights, temporary tensors, inputs, outputs and what the model keeps between calls (`state`)
    have fixed places on the device. Calls from several threads are safe: they run one after the
    other.

    Attributes:
        inputs, outputs: name, shape, dtype of each, in the order of the call and of the result.
        eus: blocks of a launch, at most.
    """

    def __init__(
        self,
        artifact: Artifact,
        open_driver: Callable[[], Driver],
        *,
        wait_limit_s: float = 2.0,
        validate: Callable[[Artifact], None] | None = None,
    ) -> None:
        """Check; the device itself is opened by the first call.

        Args:
            artifact: what is run.
            open_driver: gives the device, or raises DeviceError where there is none.
            wait_limit_s: a wait inside of the kernel that takes longer ends it.
            validate: the full proof (no race, no deadlock) over the artifact's programs; raises to
                refuse. Called after the structural check, before any code is loaded.

        Raises:
            ArtifactError: the artifact contradicts itself or is for another kind of device.
            DeviceError: `wait_limit_s` is impossible.
        """
        artifact.check()
        if not isinstance(artifact.image, GpuImage):
            raise ArtifactError(
                f"the model is compiled for '{artifact.target}', which is no GPU; compile it for "
                "a GPU"
            )
        if taken := [program.name for program in artifact.programs if program.taken_by]:
            raise ArtifactError(
                f"program '{taken[0]}' consists of queues to take, and blocks of a GPU take none; "
                "compile the model again with another policy than 'dynamic'"
            )
        if validate is not None:
            validate(artifact)
        if not 0 < wait_limit_s <= 3600:
            raise DeviceError(f"wait_limit_s={wait_limit_s!r}: give seconds above 0, at most 3600")
        self._artifact = artifact
        self.inputs, self.outputs = artifact.given, artifact.returned
        self.eus = max((program.eus for program in artifact.programs), default=1)
        self._image, self._limit_s = artifact.image, wait_limit_s
        told = artifact.given if artifact.states else artifact.inputs
        self._parameters = parameters(told, artifact.ranges)
        self._sized = SizedCall.of(artifact, self._parameters)
        self._kept = parameters(artifact.kept, artifact.ranges, "state")
        self._held: HeldState | None = None
        self._results = [Parameter(tensor, "output") for tensor in self.outputs]
        self._names = tuple(tensor.name for tensor in self.outputs)
        self._new = [Results(p.shape, p.dtype) for p in self._results]
        self._launches = launches(artifact.programs, self.eus)
        together = (launch.blocks for launch in self._launches if launch.cooperative)
        self._blocks = max(together, default=1)  # at the same time
        self._open_driver = open_driver
        self._driver: Driver | None = None
        self._function: Any = None
        self._loaded: Resident | None = None
        self._lock = CallLock()
        self._closed = False

    def __call__(self, *args: object, **kwargs: object) -> Outputs[np.ndarray]:
        """Run one inference.

        Args: one array per input, by position, by keyword, or all in one dict by input name; of
            exactly the declared shape and dtype. What lies on the device (`__dlpack__`,
            `__cuda_array_interface__`) is read there. For an input without axes also a number of
            Python's.

        Returns:
            A list of one new array per output, which can be read by name, too; they are the
            caller's to keep and change.

        Raises:
            ShapeError: an argument is missing, unknown, twice there, or of another shape or dtype.
            RangeError: an index in it, or one that the model computes, is outside of what it leads
                into.
            DeviceError: there is no device, it cannot run the model (not enough memory, or not all
                blocks at once), the model is closed, or the schedule stopped: who waited for whom.
        """
        return self.step(self._own(), args, kwargs)

    def step(
        self, held: HeldState | None, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> Outputs[np.ndarray]:
        """A call with the state of the model, or of a session of it.

        Args:
            held: the state; None for none.
            args, kwargs: as of a call.

        Returns:
            As of a call.

        Raises:
            ShapeError: as of a call.
            RangeError: as of a call.
            DeviceError: as of a call.
        """
        values, layout = call_arguments(self.inputs, args, kwargs), None
        if self._sized is not None:
            values, layout = self._sized.take_all(values)
        given = self._take(values)
        with self._lock.alone():
            loaded = self._ready()
            self._launch(loaded, held, self._places(loaded, given), loaded.outputs)
            pairs = zip(self._new, loaded.outputs, strict=True)
            results = [self._read(*pair) for pair in pairs]
            counted = loaded.counted()
        if self._sized is not None and layout is not None:
            results = self._sized.cut(results, layout, counted)
        return named(self._names, results)

    def on_device(self, *args: object, **kwargs: object) -> Outputs[DeviceArray]:
        """Run one inference and leave the outputs on the device.

        Args:
            *args, **kwargs: as of a call.

        Returns:
            A list of one new array on the device per output, which can be read by name, too. Other
                libraries, and further calls, read them in place.

        Raises:
            ShapeError: as of a call, or sizes are known at run time only.
            RangeError: as of a call.
            DeviceError: as of a call.
        """
        if self._sized is not None:
            raise ShapeError(
                "the shapes of the results are known at run time only, and arrays on the device "
                "are of their bounds; call the model, or bind it"
            )
        given, held = self._take(call_arguments(self.inputs, args, kwargs)), self._own()
        with self._lock.alone():
            loaded = self._ready()
            made = [DeviceArray(self._device(), p.shape, p.dtype) for p in self._results]
            places = self._places(loaded, given)
            self._launch(loaded, held, places, [array.address for array in made])
            return named(self._names, made)

    def _launch(
        self,
        loaded: Resident,
        held: HeldState | None,
        inputs: Sequence[int],
        outputs: Sequence[int],
    ) -> None:
        """One inference; inputs, outputs: their addresses."""
        if held is None:
            loaded.launch(inputs, outputs)
        else:
            held.step(lambda last, new: loaded.launch([*inputs, *last], [*outputs, *new]))

    def held(self) -> HeldState:
        with self._lock.alone():
            self._ready()
            if self._held is None:
                device = self._device()

                def new(parameter: Parameter) -> DeviceArray:
                    return DeviceArray(device, parameter.shape, parameter.dtype)

                in_place = [state.in_place for state in self.artifact.states]
                # what is emulated has memory of its own
                home = device.name if device.real else device
                made = State(self._kept, new, f"on {device.name}", home)
                self._held = HeldState(self._kept, in_place, made)
            return self._held

    def hold(self, held: HeldState) -> None:
        with self._lock.alone():
            self._held = held

    def reaches(self, held: HeldState) -> bool:
        here = held.state.home == self.held().state.home
        return here and all(map(self._device().holds, held.addresses()[0]))

    def _own(self) -> HeldState | None:
        """What the model keeps; None where it keeps nothing."""
        return self.held() if self._kept else None

    def bind(self, inputs: Arguments | None = None) -> GpuBinding:
        """Fix the memory of inputs and outputs on the device: a call launches a graph.

            binding = model.bind()
            binding.inputs[0].write(x)
            binding()
            y = binding.outputs[0].numpy()    # the next call writes here again

        Args:
            inputs: arrays on the device in order, or by name, of exactly the declared shape and
                dtype. None: new ones, zeroed.

        Returns:
            What runs the model on these arrays when it is called.

        Raises:
            ShapeError: an array is missing, unknown, or cannot be used where it lies.
            DeviceError: there is no device, or no memory, or the model is closed.
        """
        return self.bind_with(self._own(), inputs)

    def bind_with(self, held: HeldState | None, inputs: Arguments | None = None) -> GpuBinding:
        """As `bind`, with the state of the model or of a session of it.

        Args:
            held: the state; None for none.
            inputs: as of `bind`.

        Returns:
            As `bind`.

        Raises:
            ShapeError: as of `bind`.
            DeviceError: as of `bind`.
        """
        given = None
        if self._sized is not None and inputs is not None:
            raise ShapeError(
                "sizes are known at run time only, and bind() makes the memory of all inputs, "
                "those of the sizes behind them; write to that"
            )
        if inputs is not None:
            named = inputs if isinstance(inputs, Mapping) else {}
            listed = () if named else list(inputs)
            given = self._take(arrange(self.inputs, listed, named, "input"))
        with self._lock.alone():
            loaded = self._ready()
            read = self._new_inputs() if given is None else self._bound(given)
            made = [DeviceArray(self._device(), p.shape, p.dtype) for p in self._results]
            own = loaded, self._device(), self._lock, self.check_open
            return GpuBinding(*own, self._parameters, read, made, held)

    @property
    def needs(self) -> DeviceNeeds:
        """What a device must have to run the model."""
        artifact, image = self.artifact, self._image
        outer = sum(tensor.nbytes for tensor in (*artifact.inputs, *artifact.written))
        memory = artifact.arena_bytes + artifact.constants.size + outer
        block = image.threads, image.shared
        return DeviceNeeds(image.chip, self._blocks, *block, memory, bool(image.cubin))

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Give back the memory of the device, as also happens when the model is collected.

        Idempotent. By a handler inside of a call only the latter, as the call reads that memory.
        """
        with self._lock.lock:
            self._closed = True
            if self._loaded is not None and not self._lock.inside:
                self._loaded.close()

    def _ready(self) -> Resident:
        self.check_open()
        if self._driver is None:
            driver = self._open_driver()
            self._function = load_kernel(driver, self._image, self._blocks)
            self._driver = driver
        if self._loaded is None or self._loaded.failed:
            self._loaded = None  # gives its memory back first
            code = self._image, self._launches, self._driver, self._function
            made = Resident(self.artifact, *code, self._limit_s)
            if self.artifact.mapped is not None:
                self.artifact.mapped.check()  # the device has a copy of what it was
            self._loaded = made
        return self._loaded

    def _take(self, args: Sequence[object]) -> list[np.ndarray | ForeignArray]:
        """The arguments, given in order: arrays of the host that can be copied, and those of a
        device."""
        pairs = zip(self._parameters, args, strict=True)
        return [on_device(p, value) or p.take(value)[0] for p, value in pairs]

    def _places(self, loaded: Resident, given: Sequence[np.ndarray | ForeignArray]) -> list[int]:
        """Where the arguments lie on the device, copied there if they lie elsewhere."""
        found = []
        for parameter, value, place in zip(self._parameters, given, loaded.inputs, strict=True):
            if isinstance(value, ForeignArray):
                self._check_usable(parameter, value)
                check_range(self._device(), parameter, value.address)
                found.append(value.address)
            else:
                self._device().write(place, raw(value))
                found.append(place)
        return found

    def _new_inputs(self) -> list[DeviceArray | ForeignArray]:
        """Zeroed arrays for a binding; those of sizes have their bounds."""
        made = [DeviceArray(self._device(), p.shape, p.dtype) for p in self._parameters]
        for array, parameter in zip(made, self._parameters, strict=True):
            size = parameter.tensor.size
            array.write(np.full(array.shape, size.high if size else 0, array.dtype))
        return list(made)

    def _bound(
        self, given: Sequence[np.ndarray | ForeignArray]
    ) -> list[DeviceArray | ForeignArray]:
        """The arrays that a caller binds."""
        found: list[DeviceArray | ForeignArray] = []
        for parameter, value in zip(self._parameters, given, strict=True):
            if parameter.tensor.name == RANDOM_KEY and not isinstance(value, ForeignArray):
                found.append(DeviceArray(self._device(), parameter.shape, parameter.dtype))
                continue
            if not isinstance(value, ForeignArray):
                raise ShapeError(
                    f"bind: input '{parameter.tensor.name}' lies on the host; bind an array on the "
                    "device, or write to those that bind() makes"
                )
            self._check_usable(parameter, value)
            found.append(value)
        return found

    def _check_usable(self, parameter: Parameter, there: ForeignArray) -> None:
        """Refuse what lies elsewhere, and wait for the values of the others."""
        driver = self._device()
        if parameter.tensor.nbytes and not driver.holds(there.address):
            raise DeviceError(
                f"argument '{parameter.tensor.name}' does not lie on {driver.name}; copy it there, "
                "or load the model on the device that it lies on"
            )
        if there.stream is not None:
            driver.wait_for(there.stream)

    def _device(self) -> Driver:
        assert self._driver is not None
        return self._driver

    def _read(self, new: Results, address: int) -> np.ndarray:
        array, _ = new.new()
        raw(array)[:] = self._device().read(address, array.nbytes)
        return array
