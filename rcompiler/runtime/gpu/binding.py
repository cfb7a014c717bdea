"""Inputs and outputs at fixed places on the device: a call is the launch of a graph."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence

from rcompiler.runtime.arguments import Parameter
from rcompiler.runtime.closing import Staying
from rcompiler.runtime.gpu.arrays import DeviceArray, check_range
from rcompiler.runtime.gpu.dlpack import ForeignArray
from rcompiler.runtime.gpu.driver import Driver
from rcompiler.runtime.gpu.resident import Bases, Resident


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
        lock: threading.Lock,
        check: Callable[[], None],
        parameters: Sequence[Parameter],
        inputs: Sequence[DeviceArray | ForeignArray],
        outputs: Sequence[DeviceArray],
    ) -> None:
        """lock: held while the device runs; check: raises when the model is closed; parameters: the
        inputs of the model.
        """
        self.inputs = tuple(i.owner if isinstance(i, ForeignArray) else i for i in inputs)
        self.outputs = tuple(outputs)
        self._resident, self._lock, self._check, self._kept = resident, lock, check, tuple(inputs)
        graph, bases = resident.capture([i.address for i in inputs], [o.address for o in outputs])
        self._graph, self._bases, self._driver = graph, bases, driver
        pairs = zip(parameters, inputs, strict=True)
        self._indices = [(p, i.address) for p, i in pairs if p.indices is not None]
        weakref.finalize(self, _drop, driver, graph, bases)

    def __call__(self) -> None:
        """Run one inference: reads `inputs`, writes `outputs`.

        Raises:
            DeviceError: the model is closed, or a launch of it has failed.
            RangeError: an index in an input, or one that the model computes, is outside of what it
                leads into.
        """
        with self._lock:
            self._check()
            for parameter, address in self._indices:
                check_range(self._driver, parameter, address)
            self._resident.replay(self._graph, self._bases)

    def elapsed_ns(self, calls: int) -> float:
        """Time of so many inferences, one after another, by the device's own clock.

        Raises:
            DeviceError: as of a call.
        """
        with self._lock:
            self._check()
            return self._resident.timed(self._graph, self._bases, calls)


def _drop(driver: Driver, graph: object, bases: Bases) -> None:
    driver.drop_graph(graph)
    for address in bases:
        driver.free(address)
