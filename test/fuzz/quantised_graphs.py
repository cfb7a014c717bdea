"""Quantised networks as quantisers write them: with QuantizeLinear and DequantizeLinear, with
operators of bytes, and with scales that are computed while they run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rcompiler.frontend import contrib, dtypes

from .maker import Maker, Reject, Value

_OPSETS = (13, 17, 19, 21, 22)
Step = Callable[["Network"], None]


@dataclass(frozen=True)
class Tensor:
    """Bytes, and what they stand for. axis: along which scales and zero points lie; None of one."""

    bytes: Value
    scale: Value
    zero: Value
    axis: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.bytes.shape

    @property
    def numbers(self) -> tuple[Value, Value, Value]:
        """As operators of bytes read it."""
        return self.bytes, self.scale, self.zero


class Network:
    """One network while it is made, and the quantised tensors that it has so far.

    exact: all scales are powers of two and each result is a number of f32, so that the standard
    says of every byte what it is. open: whether sums of f32, or functions like exp, are in it,
    which levels of CPUs compute to another last bit.
    """

    def __init__(self, seed: int) -> None:
        self.g = Maker(seed)
        self.g.opset = self.g.pick(_OPSETS)
        self.exact = self.g.chance(0.25)
        self.open = False
        self.kind = self.g.pick(("uint8", "uint8", "int8"))
        self._symmetric = self.g.chance(0.3)
        self._linear = self.g.pick((0.0, 0.0, 0.5, 1.0))  # how often an operator of bytes is taken
        self.tensors: list[Tensor] = []

    def mark(self) -> tuple[Any, ...]:
        """What there is now, for `back`."""
        return self.g.mark(), list(self.tensors), self.open

    def back(self, mark: tuple[Any, ...]) -> None:
        """As it was."""
        made, self.tensors, self.open = mark
        self.g.back(made)

    # -- tensors ---------------------------------------------------------------------------------
    def begin(self, shape: Sequence[int]) -> None:
        """An input, quantised."""
        self.add(self.g.leaf("float32", shape, -2.0, 2.0, constant=False))

    def tensor(self, where: Callable[[Tensor], bool] = lambda tensor: True) -> Tensor:
        """A tensor of which that holds, mostly the latest one."""
        found = [t for t in self.tensors if where(t)]
        if not found:
            raise Reject
        return found[-1] if self.g.chance(0.7) else self.g.pick(found)

    def real(self, tensor: Tensor) -> Value:
        """A tensor dequantised: anew for each reader."""
        along = {} if tensor.axis is None else {"axis": tensor.axis}
        zero = tensor.zero if tensor.zero.array.any() or self.g.chance(0.7) else None
        zero = tensor.zero if tensor.bytes.dtype != "uint8" else zero
        return self.g.node("DequantizeLinear", [tensor.bytes, tensor.scale, zero], **along)[0]

    def add(self, value: Value, kind: str = "") -> Tensor:
        """Quantise a result, by a scale that fits it mostly."""
        scale, zero = self.numbers(value.array, kind or self._other_kind())
        return self.keep(self.g.node("QuantizeLinear", [value, scale, zero])[0], scale, zero)

    def keep(self, value: Value, scale: Value, zero: Value) -> Tensor:
        """Let others read bytes."""
        self.tensors.append(Tensor(value, scale, zero))
        return self.tensors[-1]

    def add_like(self, value: Value, tensor: Tensor) -> Tensor:
        """Quantise what has the same numbers in another order."""
        scale, zero = tensor.scale, tensor.zero
        return self.keep(self.g.node("QuantizeLinear", [value, scale, zero])[0], scale, zero)

    def either(
        self, real: Callable[[], Value], linear: Callable[[Value, Value], Value], kind: str = ""
    ) -> None:
        """An operator in f32, or of bytes, which are of that kind then. linear: of the scale and
        the zero point of its result."""
        if not self.g.chance(self._linear):
            self.add(real())
            return
        mark = self.g.mark()
        found = real().array
        self.g.back(mark)  # it was only to see what range the results have
        numbers = self.numbers(found, kind or self.kind)
        self.keep(linear(*numbers), *numbers)

    # -- scales and weights ----------------------------------------------------------------------
    def _other_kind(self) -> str:
        return self.g.pick(("uint8", "int8")) if self.g.chance(0.05) else self.kind

    def numbers(self, array: np.ndarray, kind: str) -> tuple[Value, Value]:
        """Scale and zero point by the range of numbers, which rarely is a bit too small."""
        low, high = (float(f(array, initial=0.0)) for f in (np.min, np.max))
        least, most = dtypes.limits(kind)
        if self._symmetric and kind == "int8":
            high = max(-low, high)
            low = -high
        step = (high - low) / (most - least) * self.g.pick((1.0, 1.0, 1.0, 0.6)) or 1.0
        step = self._scale(step)
        zero = 0 if self._symmetric and kind == "int8" else round(least - low / step)
        zero = min(max(zero, least), most)
        return self.g.fixed(np.float32(step), "float32"), self.g.fixed(np.int64(zero), kind)

    def _scale(self, step: float) -> float:
        return 2.0 ** math.ceil(math.log2(step)) if self.exact else float(np.float32(step))

    def weights(self, shape: Sequence[int], axis: int, depth: int, few: bool = False) -> Tensor:
        """Constant bytes with one scale, or with one for each of an axis. depth: how many products
        a result adds up. few: one scale only."""
        g = self.g
        kind = g.pick(("int8",) * 5 + ("uint8",))
        low, high = dtypes.limits(kind)
        least = -127 if kind == "int8" and g.chance(0.8) else low
        array = g.numbers.integers(least, high, tuple(shape), endpoint=True)
        by_channel = not few and g.chance(0.6)
        per = (shape[axis],) if by_channel else ()
        spread = g.numbers.uniform(0.5, 1.5, per) / (73 * math.sqrt(depth))
        steps = np.vectorize(self._scale, otypes=[np.float32])(spread)
        middle = (low + high + 1) // 2
        zeros = np.full(per, middle)
        if kind == "uint8" or g.chance(0.1):
            zeros = zeros + g.numbers.integers(-9, 9, per, endpoint=True)
        return Tensor(
            g.fixed(array, kind),
            g.fixed(steps, "float32"),
            g.fixed(zeros, kind),
            axis if by_channel else None,
        )

    def bias(self, count: int) -> Value:
        """Of 32 bits, as quantisers write it: by the scale of the products."""
        return self.g.leaf("int32", (count,), -2500, 2500, constant=True)

    def real_bias(self, bias: Value, x: Tensor, w: Tensor) -> Value:
        """Dequantised."""
        steps = np.float32(x.scale.array) * np.float32(w.scale.array)
        scale, along = self.g.fixed(steps, "float32"), {"axis": 0} if steps.ndim else {}
        return self.g.node("DequantizeLinear", [bias, scale], **along)[0]

    def contributed(self, op: str, inputs: Sequence[Any], kind: str, **attributes: Any) -> Value:
        """The result, of that type, of an operator of onnxruntime's."""
        return self.g.node(op, inputs, domain=contrib.DOMAIN, kind=kind, **attributes)[0]


class RealNetwork(Network):
    """The same in f32, for a quantiser to quantise: a number stands for itself."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.exact, self._linear = False, 0.0
        self._itself = self.g.fixed(1.0, "float32"), self.g.fixed(0.0, "float32")

    def real(self, tensor: Tensor) -> Value:
        """The tensor as it is."""
        return tensor.bytes

    def add(self, value: Value, kind: str = "") -> Tensor:
        """Let others read a result."""
        return self.keep(value, *self._itself)

    def add_like(self, value: Value, tensor: Tensor) -> Tensor:
        """Let others read it."""
        return self.add(value)

    def weights(self, shape: Sequence[int], axis: int, depth: int, few: bool = False) -> Tensor:
        """Constants, whose columns are of several sizes."""
        columns = [d if i == axis else 1 for i, d in enumerate(shape)]
        spread = self.g.numbers.uniform(0.5, 1.5, columns) * math.sqrt(3 / depth)
        array = self.g.numbers.uniform(-1, 1, tuple(shape)) * spread
        return Tensor(self.g.fixed(np.float32(array), "float32"), *self._itself)

    def bias(self, count: int) -> Value:
        """Of f32."""
        return self.g.leaf("float32", (count,), -1, 1, constant=True)

    def real_bias(self, bias: Value, x: Tensor, w: Tensor) -> Value:
        """As it is."""
        return bias
