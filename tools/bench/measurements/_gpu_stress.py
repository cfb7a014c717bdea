"""One model launched again and again, with the results of every launch checked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from measurements._gpu_bench_group import (
    TOLERANCE,
    Group,
    difference,
    get_arrays,
)
from measurements._gpu_engines import loaded
from measurements._packed_folder import PackedFolder
from rcompiler.errors import CompilerError, DeviceError
from rcompiler.support.random_inputs import random_inputs

_INPUTS = 8  # that take turns, so that no launch may leave what the one before it has written


@dataclass
class Stress:
    """launches: that were done; differing: whose results are not, to the bit, those that the first
    launch with the same inputs gave; first: the number of the first of these, from 0. blocks: of a
    launch, at most. error: why it ended early.
    """

    model: str
    precision: str
    policy: str
    blocks: int = 0
    launches: int = 0
    differing: int = 0
    first: int | None = None
    seconds: float = 0.0
    error: str = ""

    def __str__(self) -> str:
        return f"{self.model}, {self.precision}, {self.policy}"

    @property
    def fault(self) -> str:
        """What is wrong, or nothing."""
        if self.error:
            return f"{self}: launch {self.launches}: {self.error}"
        if self.differing:
            return f"{self}: {self.differing} launches differ, the first is number {self.first}"
        return ""


def stress(
    folder: PackedFolder, group: Group, policy: str, launches: int, wait_limit_s: float
) -> Stress:
    """Launch the model of a policy so often. What goes wrong ends up in the result.

    The first inputs are those of the group, whose outputs are held against the reference; the
    others are random. All outputs of each launch are copied back and compared. Raises DeviceError
    where there is no device.
    """
    found = Stress(group.model, group.precision, policy)
    model = loaded(folder, group, policy, wait_limit_s=wait_limit_s)
    found.blocks = model.eus
    binding = model.bind()
    given = [get_arrays(folder, group.feeds)]
    given += [random_inputs(model.inputs, seed) for seed in range(1, _INPUTS)]
    wanted: list[list[np.ndarray]] = []
    start = time.perf_counter()
    try:
        for number in range(launches):
            turn = number % _INPUTS
            for array, tensor in zip(binding.inputs, model.inputs, strict=True):
                array.write(given[turn][tensor.name])
            binding()
            outputs = [array.numpy() for array in binding.outputs]
            if number < _INPUTS:
                _check_first(folder, group, policy, wanted, outputs)
                wanted.append(outputs)
            elif not _equal(outputs, wanted[turn]):
                found.differing += 1
                found.first = number if found.first is None else found.first
            found.launches += 1
    except (CompilerError, DeviceError) as error:
        found.error = str(error)
    found.seconds = time.perf_counter() - start
    return found


def _check_first(
    folder: PackedFolder,
    group: Group,
    policy: str,
    before: Sequence[Sequence[np.ndarray]],
    outputs: Sequence[np.ndarray],
) -> None:
    """Raises CompilerError where the first results are wrong, or others tell nothing."""
    if not before:
        wanted = get_arrays(folder, group.wanted)
        difference(outputs, wanted, TOLERANCE[group.precision], policy)
    elif any(_equal(outputs, other) for other in before):
        raise CompilerError("two inputs give the same outputs, so nobody sees which launch ran")


def _equal(one: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> bool:
    """To the bit."""
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))
