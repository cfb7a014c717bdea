"""Inputs and outputs of a session that stay where they are from call to call."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from rcompiler.errors import ShapeError
from rcompiler.runtime.memory import ALIGNMENT, address
from rcompiler.session.signature import check_tensor
from rcompiler.session.values import OrtValue, array_of, check_device, dtype_of


class Session(Protocol):
    """What is asked of a session."""

    def get_inputs(self) -> list[Any]: ...

    def get_outputs(self) -> list[Any]: ...

    def get_overridable_initializers(self) -> list[Any]: ...

    def with_program(
        self, given: Mapping[str, Any], call: Callable[[Any, list[Any]], None]
    ) -> None:
        """Call a function of the program that runs inputs, and of the arguments of its call."""


class IOBinding:
    """Binds arrays to the inputs and outputs of a session; `run_with_iobinding` runs on them.

    Inputs are read where they lie at each run. Outputs are written where they are bound, or into
    memory of the binding, which the next run overwrites; what cannot be used where it lies is
    copied, and so is, behind a run, an output that is bound to the memory of an input. Where a run
    may not find the same memory again, it binds anew.
    """

    def __init__(self, session: Session) -> None:
        """Bind nothing yet; see `InferenceSession.io_binding`.

        Args:
            session: whose names are bound.
        """
        self.session = session
        self._inputs: dict[str, np.ndarray] = {}
        self._outputs: dict[str, np.ndarray | None] = {}
        self._bound: tuple[Any, ...] = ()  # what the binding below was made of
        self._binding: Any = None
        self._results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Bind an input to an array, which is read at each run.

        Args:
            name: of the input.
            arr_on_cpu: of its shape and type.

        Raises:
            ShapeError: there is no such input.
        """
        _check_name(
            name, [*self.session.get_inputs(), *self.session.get_overridable_initializers()]
        )
        self._inputs[name] = np.asarray(array_of(arr_on_cpu))

    def bind_ortvalue_input(self, name: str, ortvalue: Any) -> None:
        """Bind an input to a value.

        Args:
            name: of the input.
            ortvalue: an OrtValue.

        Raises:
            ShapeError: there is no such input.
        """
        self.bind_cpu_input(name, ortvalue)

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Bind an input to memory of the host.

        Args:
            name: of the input.
            device_type, device_id: "cpu" and 0.
            element_type: a type of numpy, or the number of one in ONNX.
            shape: of the tensor.
            buffer_ptr: address of its first element; the caller keeps the memory.

        Raises:
            ShapeError: there is no such input or type.
            DeviceError: another device.
        """
        check_device(device_type)
        self.bind_cpu_input(name, _at(buffer_ptr, shape, dtype_of(element_type)))

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Ask for an output, in memory of the binding or at an address.

        Args:
            name: of the output.
            device_type, device_id: "cpu" and 0.
            element_type, shape, buffer_ptr: as of `bind_input`; all of them, or none.

        Raises:
            ShapeError: there is no such output or type, it is no tensor, or some of these are
                missing.
            DeviceError: another device.
        """
        check_device(device_type)
        self._check_output(name)
        if buffer_ptr is None:
            self._outputs[name] = None
            return
        if element_type is None or shape is None:
            raise ShapeError(f"output '{name}': give element_type and shape of the memory, too")
        self._outputs[name] = _at(buffer_ptr, shape, dtype_of(element_type))

    def bind_ortvalue_output(self, name: str, ortvalue: Any) -> None:
        """Ask for an output in the memory of a value.

        Args:
            name: of the output.
            ortvalue: an OrtValue of its shape and type.

        Raises:
            ShapeError: there is no such output, or it is no tensor.
        """
        self._check_output(name)
        self._outputs[name] = array_of(ortvalue)

    def _check_output(self, name: str) -> None:
        outputs = self.session.get_outputs()
        _check_name(name, outputs)
        for arg in outputs:
            if arg.name == name:
                check_tensor(arg)

    def synchronize_inputs(self) -> None:
        """Nothing: all is in memory of the host."""

    def synchronize_outputs(self) -> None:
        """Nothing: all is in memory of the host."""

    def clear_binding_inputs(self) -> None:
        """Forget what is bound to inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget which outputs are asked for, and results."""
        self._outputs.clear()
        self._results = []

    def get_outputs(self) -> list[OrtValue]:
        """The results of the last run, in the order in which they were asked for.

        Values that are bound to no memory of the caller's are overwritten by the next run.
        """
        return list(self._results)

    def get_outputs_as_ortvaluevector(self) -> list[OrtValue]:
        """The same as `get_outputs`."""
        return self.get_outputs()

    def copy_outputs_to_cpu(self) -> list[np.ndarray]:
        """The same as arrays of the caller's."""
        return [value.numpy().copy() for value in self._results]

    def run(self) -> None:
        """Run on what is bound; see `InferenceSession.run_with_iobinding`.

        Raises:
            ShapeError, RangeError, CompilerError: as of `InferenceSession.run`.
        """
        self.session.with_program(self._inputs, self._run)

    def _run(self, model: Any, arguments: Sequence[np.ndarray]) -> None:
        if any(tensor.extents for tensor in model.outputs + model.inputs):
            self._call(model, arguments)
            return
        given = self._given(model)
        bound = model, *map(address, arguments), *(address(array) for array in given.values())
        if self._bound != bound:
            self._bind(model, arguments, given)
            self._bound = bound
        for own, array in self._copied_inputs:
            own[...] = array
        self._binding()
        for array, own in self._copied_outputs:
            array[...] = own
        pairs = zip(model.outputs, self._binding.outputs, strict=True)
        found = {tensor.name: array for tensor, array in pairs} | given
        self._results = [OrtValue(found[name]) for name in self._outputs]

    def _call(self, model: Any, arguments: Sequence[np.ndarray]) -> None:
        """Run a program whose sizes are known at run time: there is no memory to bind before."""
        results = model(*arguments)
        found = {t.name: array for t, array in zip(model.outputs, results, strict=True)}
        for name, array in self._outputs.items():
            if array is None:
                continue
            made = found[name]
            if (array.shape, array.dtype) != (made.shape, made.dtype):
                raise _refused(name, array, made.dtype, made.shape)
            array[...] = made
            found[name] = array
        self._results = [OrtValue(found[name]) for name in self._outputs]

    def _given(self, model: Any) -> dict[str, np.ndarray]:
        """Outputs that are bound to memory, checked against the model."""
        declared = {tensor.name: tensor for tensor in model.outputs}
        given = {name: array for name, array in self._outputs.items() if array is not None}
        for name, array in given.items():
            tensor = declared[name]
            if array.shape != tensor.shape or array.dtype != tensor.numpy_dtype():
                raise _refused(name, array, tensor.dtype, tensor.shape)
        return given

    def _bind(
        self, model: Any, arguments: Sequence[np.ndarray], given: dict[str, np.ndarray]
    ) -> None:
        """Bind where memory can be used as it lies, and note what is to be copied."""
        # without the key of random numbers, which is none of the caller's
        usable = [array.flags.c_contiguous and array.flags.aligned for array in arguments]
        binding = model.bind()
        inputs = [
            array if fits else own
            for array, fits, own in zip(arguments, usable, binding.inputs, strict=False)
        ]
        outputs = []
        for tensor, own in zip(model.outputs, binding.outputs, strict=True):
            array = given.get(tensor.name, own)
            fits = array.flags.c_contiguous and array.flags.writeable
            read = any(np.may_share_memory(array, each) for each in inputs)
            outputs.append(array if fits and not read and address(array) % ALIGNMENT == 0 else own)
        self._binding = model.bind(inputs, outputs)
        pairs = zip(inputs, arguments, strict=True)
        self._copied_inputs = [(own, array) for own, array in pairs if own is not array]
        by_name = dict(zip((t.name for t in model.outputs), outputs, strict=True))
        self._copied_outputs = [
            (array, by_name[name]) for name, array in given.items() if by_name[name] is not array
        ]


def _refused(name: str, array: np.ndarray, dtype: Any, shape: Sequence[int]) -> ShapeError:
    return ShapeError(
        f"output '{name}' is bound to {array.dtype}{list(array.shape)}, the model makes "
        f"{dtype}{list(shape)}; bind memory of that"
    )


def _check_name(name: str, known: Sequence[Any]) -> None:
    names = [arg.name for arg in known]
    if name not in names:
        raise ShapeError(f"there is no '{name}' to bind; there are: {', '.join(names) or 'none'}")


def _at(start: int, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Memory of the caller's as an array."""
    size = math.prod(shape) * dtype.itemsize
    memory = (ctypes.c_uint8 * size).from_address(int(start))
    return np.ctypeslib.as_array(memory).view(dtype).reshape(tuple(shape))
