"""Registration of op lowerings, and what a lowering sees of its node."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from rcompiler.errors import CompilerError, ShapeError, UnsupportedOp

from . import dtypes
from .builder import Builder, Value

Lowering = Callable[["Context"], "Value | Sequence[Value | None]"]
_TABLE: dict[tuple[str, str], Lowering] = {}


@dataclass(frozen=True)
class Gap:
    """Why a node cannot be compiled; ``needs``: inputs whose values would have to be known."""

    node: str
    op: str
    reason: str
    remedy: str
    detail: str = ""
    needs: tuple[str, ...] = ()

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        return f"node '{self.node}' ({self.op}): {self.reason}{detail}. {self.remedy}"


def lowering(*ops: str, domain: str = "") -> Callable[[Lowering], Lowering]:
    """Register ``fn(ctx) -> Value | list[Value]`` for one or more ops of a domain."""

    def register(fn: Lowering) -> Lowering:
        for op in ops:
            if (op, domain) in _TABLE:
                raise ValueError(f"{op}: two lowerings")
            _TABLE[op, domain] = fn
        return fn

    return register


@cache
def _load() -> None:
    from . import ops as package

    for module in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"{package.__name__}.{module}")


def find(op: str, domain: str) -> Lowering | None:
    """The lowering of an op, from the modules in ``ops/``."""
    _load()
    return _TABLE.get((op, "" if domain == "ai.onnx" else domain))


def names() -> list[tuple[str, str]]:
    """All (op, domain) that have a lowering."""
    _load()
    return sorted(_TABLE)


@dataclass
class Context:
    """One node while it is lowered.

    inputs: values, None for an omitted optional one. opset: version of the node's domain.
    outputs: names of the results, "" where not wanted. uses: how many nodes read each input.
    """

    b: Builder
    op: str
    name: str
    domain: str
    opset: int
    inputs: list[Value | None]
    outputs: list[str]
    attributes: dict[str, Any]
    uses: list[int] = field(default_factory=list)

    # -- reading the node -------------------------------------------------------------------
    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute as int, float, str, list, TensorProto or GraphProto."""
        return self.attributes.get(name, default)

    def has(self, index: int) -> bool:
        """True when input ``index`` is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def wants(self, index: int) -> bool:
        """True when result ``index`` is used by name."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def input(self, index: int) -> Value:
        """A required input."""
        if not self.has(index):
            raise self.shape_error(f"input {index} is missing")
        value = self.inputs[index]
        assert value is not None
        return value

    def optional(self, index: int) -> Value | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def const(self, index: int, what: str = "") -> np.ndarray:
        """Value of an input that has to be known while compiling; refuses otherwise."""
        value = self.input(index)
        if value.const is None:
            needs = tuple(sorted(value.inputs))
            given = f"; pass it as values={{'{needs[0]}': ...}}" if len(needs) == 1 else ""
            what = what or f"input {index}"
            raise self.gap(
                f"{what} is only known at run time",
                f"Make it a constant of the model{given}",
                needs=needs,
            )
        return value.const

    def ints(self, index: int, attribute: str, default: Any = None) -> list[int] | Any:
        """Integers given as input ``index`` (newer opsets) or as an attribute (older ones)."""
        if self.has(index):
            return [int(x) for x in self.const(index, attribute).reshape(-1)]
        value = self.attr(attribute, default)
        return [int(x) for x in value] if isinstance(value, list | tuple) else value

    def scalar(self, index: int, default: Any = None) -> Any:
        """A one-element constant input as a Python number."""
        if not self.has(index):
            return default
        array = self.const(index)
        if array.size != 1:
            raise self.shape_error(f"input {index} has {array.size} elements, one is expected")
        return array.reshape(-1)[0].item()

    def axis(self, axis: int, rank: int) -> int:
        """A non-negative axis, checked against ``rank``."""
        if not -rank <= axis < max(rank, 1):
            raise self.shape_error(f"axis {axis} is outside a tensor of rank {rank}")
        return axis % rank if rank else 0

    def axes(self, axes: Sequence[int], rank: int) -> list[int]:
        return [self.axis(int(a), rank) for a in axes]

    # -- errors -----------------------------------------------------------------------------
    def gap(self, reason: str, remedy: str, needs: tuple[str, ...] = ()) -> UnsupportedOp:
        kinds = ", ".join("-" if v is None else describe(v) for v in self.inputs)
        op = f"{self.domain}.{self.op}" if self.domain else self.op
        return unsupported(Gap(self.name, op, reason, remedy, f"inputs: {kinds}", needs))

    def refuse(self, reason: str, remedy: str = "Rewrite the model without it") -> CompilerError:
        """``raise ctx.refuse(...)``: a valid node that the compiler does not translate."""
        return self.gap(reason, remedy)

    def shape_error(self, reason: str) -> ShapeError:
        """``raise ctx.shape_error(...)``: shapes or types that do not fit the operator."""
        kinds = ", ".join("-" if v is None else describe(v) for v in self.inputs)
        return ShapeError(
            f"node '{self.name}' ({self.op}): {reason} (inputs: {kinds}). "
            "Check the model, or the shapes given for its inputs"
        )

    def need_float(self, index: int = 0) -> None:
        """Refuse inputs that are not f16, bf16, f32 or f64."""
        value = self.input(index)
        if not dtypes.is_float(value.dtype):
            raise self.refuse(
                f"element type {value.dtype} of input {index} is not translated",
                "Cast it to float32",
            )


def describe(value: Any) -> str:
    """``float32[2,3]``."""
    if not isinstance(value, Value):
        return type(value).__name__.lower()
    return f"{value.dtype}[{','.join(map(str, value.shape))}]"


def unsupported(gap: Gap) -> UnsupportedOp:
    """The error of a gap; the gap stays readable as ``error.gap``."""
    error = UnsupportedOp(str(gap))
    error.gap = gap  # type: ignore[attr-defined]
    return error
