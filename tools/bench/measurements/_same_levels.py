"""Whether a network gives the same on each level of CPUs, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import ModelProto

import rcompiler
from rcompiler.bucketed import BucketedModel
from rcompiler.device.cpu import cpu_device, lacking
from rcompiler.support.random_inputs import random_inputs

# Instruction sets that multiply bytes in ways of their own.
_OF_BYTES = ("v4", "v4+vnni", "v4+amx", "v4+vnni+amx", "v3", "v3+vnni", "x86-64")


def levels() -> list[str]:
    """Targets of bytes that this machine can run, as it counts now: "cpu", with all that it has,
    and each instruction set of which it lacks nothing.
    """
    return ["cpu", *(f"cpu:{name}" for name in _OF_BYTES if not lacking(cpu_device(name)))]


def unlike(model: ModelProto, tell: Callable[[str], None]) -> list[str]:
    """How the outputs of levels differ from those of the first, a line for each that does.

    tell: called with each level before it is compiled.
    """
    first, *others = levels()
    tell(first)
    right = _outputs(model, first)
    found = []
    for level in others:
        tell(level)
        pairs = list(zip(right, _outputs(model, level), strict=True))
        apart = sum(int((~_same(a, b)).sum()) for a, b in pairs)
        if apart:
            count, most = sum(a.size for a, _ in pairs), max(_distance(a, b) for a, b in pairs)
            found.append(f"{level} differs in {apart} of {count} numbers, by {most:.3g} at most")
    return found


def _outputs(model: ModelProto, level: str) -> list[np.ndarray]:
    with rcompiler.compile_onnx(model, target=level) as compiled:
        assert not isinstance(compiled, BucketedModel)
        return [np.array(each) for each in compiled(random_inputs(compiled.inputs, 0))]


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    found: np.ndarray = (a == b) | ((a != a) & (b != b))  # what is no number is the same, too
    return found


def _distance(a: np.ndarray, b: np.ndarray) -> Any:
    """The largest, beside the largest number."""
    wide = a.astype(np.float64), b.astype(np.float64)
    return abs(wide[0] - wide[1]).max(initial=0.0) / (abs(wide[0]).max(initial=0.0) or 1.0)
