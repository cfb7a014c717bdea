"""Models that keep state, and several states for one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rcompiler.errors import DeviceError
from rcompiler.runtime.closing import Staying
from rcompiler.runtime.outputs import Outputs
from rcompiler.runtime.program import Tensor
from rcompiler.runtime.state import HeldState, State


class Stateful:
    """What all models have that say what they keep between calls; most keep nothing."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    def held(self) -> HeldState:
        """What the model keeps, as its code uses it. Of a GPU it opens the device."""
        raise NotImplementedError

    def hold(self, held: HeldState) -> None:
        """Keep something else from now on.

        Args:
            held: what that is.
        """
        raise NotImplementedError

    @property
    def state(self) -> State:
        """What the model keeps between calls, by name; it is read, and set, as a dict of arrays.

        Of a model that was compiled without state it is empty.

        Raises:
            DeviceError: there is no device, or no memory on it.
        """
        return self.held().state

    def reset(self, initial: Mapping[str, Any] | None = None) -> None:
        """Let the next call be the first one.

        Args:
            initial: values of states by name; all others begin as zeros.

        Raises:
            ShapeError: there is no such state, or a value is of another shape or dtype.
            RangeError: an index in a value is outside of what it leads into.
            DeviceError: there is no device, or no memory on it.
        """
        self.state.reset(initial)

    def fork(self) -> Session:
        """The model with a state of its own, which begins as a copy of this one.

        All else - code, weights, threads, temporary memory - is that of the model, so there may be
        as many as there is memory for their states. Their calls run one after the other.

        Returns:
            What is called, bound, reset and forked as the model is.

        Raises:
            DeviceError: the state is lost, or there is no memory for another.
        """
        return Session(self, self.held().of(self.state.copy()))

    def reaches(self, held: HeldState) -> bool:
        """Whether a state lies where the model runs.

        Args:
            held: the state.
        """
        raise NotImplementedError

    def share_state(self, other: Stateful | Session) -> None:
        """Keep what another model keeps: what one call leaves the next one of either reads.

        So a model for a whole prompt fills the caches that a model for one token goes on with.

        Args:
            other: a model, or a session of one, whose states have the same names, shapes and dtypes
                and lie on the same device.

        Raises:
            ShapeError: they have not.
            DeviceError: they lie elsewhere. Each model of the emulated device has one of its own.
        """
        held = self.held().of(other.state)
        if not self.reaches(held):
            raise DeviceError(
                f"share_state: the state of the other model lies {other.state.place}, out of reach "
                "of this one; load both models on one device"
            )
        self.hold(held)


class Session(Staying):
    """A model with a state of its own; see `Stateful.fork`.

    Attributes:
        state: of this session.
        inputs, outputs: of the model.
    """

    instead = "keep dict(session.state), and give that to reset() of another"

    def __init__(self, model: Any, held: HeldState) -> None:
        """model: what runs; held: as its code uses it."""
        self._model, self._held = model, held
        self.inputs: tuple[Tensor, ...] = model.inputs
        self.outputs: tuple[Tensor, ...] = model.outputs

    def __call__(self, *args: object, **kwargs: object) -> Outputs[Any]:
        """One call of the model with this state.

        Args:
            *args, **kwargs: as of a call of the model.

        Returns:
            As of a call of the model.

        Raises:
            ShapeError: as of a call of the model.
            RangeError: as of a call of the model.
            DeviceError: as of a call of the model.
        """
        found: Outputs[Any] = self._model.step(self._held, args, kwargs)
        return found

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Fix the memory of inputs and outputs; the binding reads and writes this state.

        Args:
            *args, **kwargs: as of the model.

        Returns:
            What runs the model when it is called.

        Raises:
            ShapeError: as of the model.
            DeviceError: as of the model.
        """
        return self._model.bind_with(self._held, *args, **kwargs)

    @property
    def state(self) -> State:
        """What the session keeps between calls."""
        return self._held.state

    def reset(self, initial: Mapping[str, Any] | None = None) -> None:
        """Let the next call of the session be the first one.

        Args:
            initial: values of states by name; all others begin as zeros.

        Raises:
            ShapeError: there is no such state, or a value is of another shape or dtype.
            RangeError: an index in a value is outside of what it leads into.
        """
        self.state.reset(initial)

    def fork(self) -> Session:
        """Another session of the model, which begins with a copy of this state.

        Returns:
            A session of its own.

        Raises:
            DeviceError: the state is lost, or there is no memory for another.
        """
        return Session(self._model, self._held.of(self.state.copy()))
