"""Inputs and outputs at fixed places on the device: a call is the launch of a graph."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

from rcompiler.runtime.arguments import Parameter
from rcompiler.runtime.call_lock import CallLock
from rcompiler.runtime.closing import Staying
from rcompiler.runtime.gpu.arrays import DeviceArray, check_range
from rcompiler.runtime.gpu.dlpack import ForeignArray
from rcompiler.runtime.gpu.driver import Driver
from rcompiler.runtime.gpu.resident import Bases, Resident
from rcompiler.runtime.state import HeldState
from rcompiler.support.random_keys import RANDOM_KEY, next_key


class GpuBinding(Staying):
    """Runs a model on the same arrays again and again; see `GpuExecutable.bind`.

    Calls from several threads, of this binding, of others and of the model, are safe: they run one
    after the other. All calls of one binding write the same outputs.

    Attributes:
        inputs: arrays on the device in the order of the model; `write` to them between calls. What
            the caller bound is as it was given.
        outputs: arrays on the device in the order of the model; each call overwrites them.
    """

    instead = "copy or pickle the model, and bind that"

    def __init__(
        self,
        resident: Resident,
        driver: Driver,
        lock: CallLock,
        check: Callable[[], None],
        parameters: Sequence[Parameter],
        inputs: Sequence[DeviceArray | ForeignArray],
        outputs: Sequence[DeviceArray],
        held: HeldState | None = None,
    ) -> None:
        """lock: held while the device runs; check: raises when the model is closed; parameters: the
        inputs of the model; held: the state that calls go on with, if it has any.
        """
        self.inputs = tuple(i.owner if isinstance(i, ForeignArray) else i for i in inputs)
        self.outputs = tuple(outputs)
        self._resident, self._lock, self._check, self._kept = resident, lock, check, tuple(inputs)
        self._places = [i.address for i in inputs], [o.address for o in outputs]
        self._held, self._state = held, held.addresses() if held else ((), ())
        graph, bases = resident.capture(*self._with(*self._state))
        self._graph, self._bases, self._driver = graph, bases, driver
        pairs = zip(parameters, inputs, strict=True)
        self._keys = [  # of random numbers, that are not the caller's
            array
            for parameter, array in zip(parameters, inputs, strict=True)
            if parameter.tensor.name == RANDOM_KEY and isinstance(array, DeviceArray)
        ]
        self._indices = [(p, i.address) for p, i in pairs if p.indices is not None]
        weakref.finalize(self, _drop, driver, graph, bases)

    def __call__(self) -> None:
        """Run one inference: reads `inputs`, writes `outputs`.

        Raises:
            DeviceError: the model is closed, or a launch of it has failed.
            RangeError: an index in an input, or one that the model computes, is outside of what it
                leads into.
        """
        with self._lock.alone():
            self._check()
            for parameter, address in self._indices:
                check_range(self._driver, parameter, address)
            for key in self._keys:
                key.write(next_key())
            if self._held is None:
                self._resident.replay(self._graph, self._bases)
            else:
                self._held.step(self._step)

    def _step(self, last: Sequence[int], new: Sequence[int]) -> None:
        """One inference with a state that lies at these addresses."""
        self._read_state(last, new)
        self._resident.replay(self._graph, self._bases)

    def _read_state(self, last: Sequence[int], new: Sequence[int]) -> None:
        """Let the graph read and write a state at these addresses."""
        if (tuple(last), tuple(new)) != self._state:
            self._state = tuple(last), tuple(new)
            self._resident.rewrite(self._bases, *self._with(last, new))

    def _with(self, last: Sequence[int], new: Sequence[int]) -> tuple[list[int], list[int]]:
        """Addresses of inputs and outputs, those of a state behind them."""
        inputs, outputs = self._places
        return [*inputs, *last], [*outputs, *new]

    def elapsed_ns(self, calls: int) -> float:
        """The time of several inferences, one after another, by the device's own clock.

        Args:
            calls: how many.

        Returns:
            Nanoseconds of all of them. With a state all of them read what the last call has left,
                and what they leave is that of the next call.

        Raises:
            DeviceError: as of a call.
        """
        found: list[float] = []

        def timed(last: Sequence[int] = (), new: Sequence[int] = ()) -> None:
            self._read_state(last, new)
            found.append(self._resident.timed(self._graph, self._bases, calls))

        with self._lock.alone():
            self._check()
            if self._held is None:
                timed()
            else:
                self._held.step(timed)
            return found[0]


def _drop(driver: Driver, graph: object, bases: Bases) -> None:
    driver.drop_graph(graph)
    for address in bases:
        driver.free(address)
