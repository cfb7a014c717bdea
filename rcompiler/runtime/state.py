"""What a model keeps between calls: the values that one call leaves and the next one reads.

Memory is that of the device. Where the schedule lets the next value lie in the place of the last
one, there is one array for each state, else there are two, which take turns after each call that
went well. A call that fails has then changed nothing; where it may have written over a last value,
the state is lost, which all that is done with it says until it is reset.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from rcompiler.errors import DeviceError, ShapeError
from rcompiler.runtime.arguments import Parameter
from rcompiler.runtime.call_lock import CallLock, nested
from rcompiler.runtime.closing import Staying
from rcompiler.runtime.memory import address, arena
from rcompiler.runtime.program import Tensor
from rcompiler.support.this_process import PerProcess, this_process


class StateArray(Protocol):
    """Memory for one value, on the host or on a device.

    Attributes:
        address: of its first byte.
    """

    @property
    def address(self) -> int: ...
    def numpy(self) -> np.ndarray:
        """A copy of the value."""

    def write(self, values: Any) -> None:
        """Copy a value of exactly its type there."""

    def clear(self) -> None:
        """Set all bytes to 0."""


class HostArray:
    """Memory of this process.

    Attributes:
        address: of its first byte, a multiple of 64.
    """

    def __init__(self, parameter: Parameter) -> None:
        """Raises DeviceError where there is no memory."""
        what = f"state '{parameter.tensor.name}'"
        raw = arena(parameter.tensor.nbytes, what)  # whose pages take no memory until they are used
        self._array = raw.view(parameter.dtype).reshape(parameter.shape)
        self.address = address(raw)

    def numpy(self) -> np.ndarray:
        """A copy of the value."""
        return self._array.copy()

    def write(self, values: Any) -> None:
        """Copy a value there."""
        self._array[...] = values

    def clear(self) -> None:
        """Set all bytes to 0."""
        self._array.reshape(-1).view(np.uint8)[:] = 0


class State(Staying, Mapping[str, np.ndarray]):
    """The state of a model or session, by the names of the inputs that it replaces.

    `state[name]` is a copy as a numpy array, `state[name] = array` sets the value, and
    `dict(state)` is all of it, to be kept or handed to `reset`. Of a model that runs just now it is
    read and set before or after the call.

    Attributes:
        tensors: name, shape and dtype of each.
        place, home: where they lie, in words, and what is equal for what lies within reach.
        lost: why the values are of no use, after a call that failed; else nothing.
    """

    instead = "copy or pickle dict(state), and give that to reset()"

    def __init__(
        self,
        parameters: Sequence[Parameter],
        new: Callable[[Parameter], StateArray] = HostArray,
        place: str = "in memory of the host",
        home: object = None,
    ) -> None:
        """Zeros. new: reserves memory. Raises DeviceError where there is none."""
        self.place, self.home = place, home
        self.tensors: tuple[Tensor, ...] = tuple(p.tensor for p in parameters)
        self.lost = ""
        self._parameters = {p.tensor.name: p for p in parameters}
        self._new = new
        self._last = [new(p) for p in parameters]
        self._spare: list[StateArray | None] = [None] * len(parameters)
        self._locks = PerProcess(CallLock)
        self._writing: int | None = None  # the process whose call may be writing to it
        self.reset()

    @property
    def _lock(self) -> threading.RLock:
        """Held while a call runs. A forked child has no part in those of its parent."""
        return self._locks.get().lock

    def __getitem__(self, name: str) -> np.ndarray:
        """A copy of a value.

        Args:
            name: of the state.

        Raises:
            ShapeError: there is no state of this name.
            DeviceError: it is lost.
        """
        with self._lock:
            number = self._number(name)
            self._check()
            return self._last[number].numpy()

    def __setitem__(self, name: str, value: object) -> None:
        """Let the next call read this value.

        Args:
            name: of the state.
            value: an array of its shape and dtype.

        Raises:
            ShapeError: there is no state of this name, or it is of another shape or dtype.
            RangeError: an index in it is outside of what it leads into.
            DeviceError: the state is lost.
        """
        with self._lock:
            number = self._number(name)
            self._check()
            self._last[number].write(self._parameters[name].take(value)[0])

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def __contains__(self, name: object) -> bool:
        return name in self._parameters

    def __repr__(self) -> str:
        held = (f"{t.name}: {t.dtype}{list(t.shape)}" for t in self.tensors)
        return f"<{'lost ' if self.lost else ''}State {', '.join(held) or 'of nothing'}>"

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def reset(self, initial: Mapping[str, Any] | None = None) -> None:
        """Begin again.

        Args:
            initial: values by name; all others become zeros.

        Raises:
            ShapeError: there is no state of a name, or a value is of another shape or dtype;
                nothing is changed then.
            RangeError: an index in a value is outside of what it leads into; nothing is changed.
        """
        if not isinstance(initial or {}, Mapping):
            raise ShapeError(f"reset: {type(initial).__name__} is no dict of arrays by name")
        given = dict(initial or {})
        for name, value in given.items():
            self._number(name)
            given[name] = self._parameters[name].take(value)[0]
        with self._lock:
            self._check_alone()
            for name, array in zip(self._parameters, self._last, strict=True):
                if name in given:
                    array.write(given[name])
                else:
                    array.clear()
            self._writing = None
            self.lost = ""

    def copy(self) -> State:
        """Values of its own, equal to these now.

        Returns:
            Another state.

        Raises:
            DeviceError: the state is lost, or there is no memory.
        """
        with self._lock:
            self._check()
            made = State([*self._parameters.values()], self._new, self.place, self.home)
            for mine, other in zip(self._last, made._last, strict=True):
                other.write(mine.numpy())
            return made

    def step(
        self,
        parameters: Sequence[Parameter],
        order: Sequence[int],
        in_place: Sequence[bool],
        run: Callable[[Sequence[int], Sequence[int]], None],
    ) -> None:
        """One call of a model.

        Args:
            parameters: what the model keeps.
            order: of each, the number of it here.
            in_place: of each, whether its next value lies in the place of the last one.
            run: runs it, with the addresses of the last and of the next values.

        Raises:
            DeviceError: the state is lost, there is no memory, or as `run`.
            RangeError: a value is an index that is outside of what it leads into, or as `run`.
            BusyError: this thread is in a call with the state already, see `call_lock`.
        """
        with self._locks.get().alone():
            self._check_kept()
            pairs = [self._pair(n, own) for n, own in zip(order, in_place, strict=True)]
            for parameter, (last, _) in zip(parameters, pairs, strict=True):
                if parameter.indices is not None:
                    parameter.check_range(last.numpy())
            self._writing = this_process() if any(in_place) else None
            try:
                run([last.address for last, _ in pairs], [new.address for _, new in pairs])
            except BaseException as error:
                if any(in_place):
                    self.lost = f"{type(error).__name__}: {error}"
                raise
            finally:
                self._writing = None
            for n, (last, new) in zip(order, pairs, strict=True):
                if last is not new:
                    self._last[n], self._spare[n] = new, last

    def addresses(
        self, order: Sequence[int], in_place: Sequence[bool]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Where the last and the next values lie now.

        Args:
            order: of what a model keeps, the numbers here.
            in_place: of each, whether its next value lies in the place of the last one.

        Returns:
            Addresses of both, in that order.
        """
        with self._lock:
            pairs = [self._pair(n, own) for n, own in zip(order, in_place, strict=True)]
        return tuple(last.address for last, _ in pairs), tuple(new.address for _, new in pairs)

    def values(self) -> Any:  # of a Mapping it would go on while a call runs
        """Copies of all values at one moment.

        Returns:
            A list in the order of the names.
        """
        with self._lock:
            return [self[name] for name in self]

    def items(self) -> Any:
        """Names and copies of all values at one moment.

        Returns:
            A list of pairs.
        """
        with self._lock:
            return [(name, self[name]) for name in self]

    def order_of(self, parameters: Sequence[Parameter]) -> list[int]:
        """Which of these states each one of another model is.

        Args:
            parameters: what the other model keeps.

        Returns:
            Numbers, in their order.

        Raises:
            ShapeError: a name, shape or dtype is another, or there are others.
        """
        names = [*self._parameters]
        if {p.tensor.name for p in parameters} != {*names}:
            theirs = ", ".join(p.tensor.name for p in parameters) or "none"
            raise ShapeError(
                f"the state of another model is {', '.join(names) or 'none'}, that of this one is "
                f"{theirs}; share what has the same names"
            )
        for parameter in parameters:
            mine, other = parameter.tensor, self._parameters[parameter.tensor.name].tensor
            if mine != other:
                raise ShapeError(
                    f"state '{mine.name}' is {mine.dtype}{list(mine.shape)} in one model and "
                    f"{other.dtype}{list(other.shape)} in the other; compile both for one shape"
                )
        return [names.index(p.tensor.name) for p in parameters]

    def _pair(self, number: int, in_place: bool) -> tuple[StateArray, StateArray]:
        """Memory of a last and of a next value."""
        last = self._last[number]
        if in_place:
            return last, last
        spare = self._spare[number]
        if spare is None:
            spare = self._spare[number] = self._new([*self._parameters.values()][number])
        return last, spare

    def _number(self, name: str) -> int:
        if name not in self._parameters:
            listed = ", ".join(self._parameters) or "none"
            raise ShapeError(f"there is no state '{name}'; there are: {listed}")
        return [*self._parameters].index(name)

    def _check(self) -> None:
        self._check_alone()
        self._check_kept()

    def _check_alone(self) -> None:
        """A handler inside of a call would meet values of before and after it."""
        if self._locks.get().inside:
            raise nested()

    def _check_kept(self) -> None:
        if self._writing not in (None, this_process()):
            self.lost = "the process was forked while it ran"
        if self.lost:
            raise DeviceError(
                f"the state is lost, as a call failed after it began to write it ({self.lost}); "
                "begin again with reset()"
            )


class HeldState:
    """A state as one model uses it.

    Attributes:
        state: which may be that of other models, too.
    """

    def __init__(
        self, parameters: Sequence[Parameter], in_place: Sequence[bool], state: State
    ) -> None:
        """The state of a model.

        Args:
            parameters: what the model keeps, in the order of its code.
            in_place: of each, whether its next value lies in the place of the last one.
            state: what it is kept in.

        Raises:
            ShapeError: the state has other names, shapes or dtypes.
        """
        self.state = state
        self._parameters, self._in_place = parameters, in_place
        self._order = state.order_of(parameters)

    def of(self, state: State) -> HeldState:
        """The same model with another state. Raises ShapeError, if it does not fit."""
        return HeldState(self._parameters, self._in_place, state)

    def addresses(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Where the last and the next values lie now, in the order of the model's code."""
        return self.state.addresses(self._order, self._in_place)

    def step(self, run: Callable[[Sequence[int], Sequence[int]], None]) -> None:
        """One call.

        Args:
            run: runs it, with the addresses of the last and of the next values.

        Raises:
            DeviceError: the state is lost, there is no memory, or as `run`.
            RangeError: a value is an index that is outside of what it leads into, or as `run`.
        """
        self.state.step(self._parameters, self._order, self._in_place, run)
