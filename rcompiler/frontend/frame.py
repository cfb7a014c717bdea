"""What handlers of control flow are given: a node, the names in reach, and who runs a body."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, helper

from rcompiler.errors import Gap, InvalidModel, UnsupportedOp

from . import registry
from .builder import Builder, Value
from .nodes import opset_of, qualified


@dataclass
class Frame:
    """What names mean inside one graph or function body.

    results: of a function body, what the model calls a value that is a result of it; None of a
    graph, whose values have the names that they have in the model.
    """

    names: dict[str, Any]
    opsets: Mapping[str, int]
    attributes: dict[str, AttributeProto] = field(default_factory=dict)
    outer: Frame | None = None
    prefix: str = ""
    uses: Mapping[str, int] = field(default_factory=dict)
    depth: int = 0
    results: Mapping[str, str] | None = None

    def in_model(self, name: str) -> str:
        """What a value made here is called in the model; "" where it is one of a body alone."""
        return name if self.results is None else self.results.get(name, "")

    def find(self, name: str) -> Any:
        frame: Frame | None = self
        while frame is not None:
            if name in frame.names:
                return frame.names[name]
            frame = frame.outer
        raise InvalidModel(f"the value '{name}' is read but nothing makes it")


class Runner(Protocol):
    """Runs graphs, whose ops it writes by its builder: what handlers ask of the interpreter."""

    @property
    def b(self) -> Builder:
        """Where ops are written."""

    @property
    def gaps(self) -> list[Gap] | None:
        """Where gaps are listed instead of raised, if they are."""

    def raising(self) -> AbstractContextManager[None]:
        """Within it gaps are raised, whether they are listed else or not."""

    def graph(
        self, graph: GraphProto, bind: Mapping[str, Any], outer: Frame, prefix: str = ""
    ) -> list[Any]:
        """The values of a graph's outputs, with its inputs bound. prefix: of its nodes' names."""


@dataclass(frozen=True)
class SequenceValue:
    """A sequence of known length."""

    items: tuple[Value, ...]


@dataclass(frozen=True)
class OptionalValue:
    """An optional that is known to hold a value (tensor or sequence) or nothing."""

    item: Any


@dataclass(frozen=True)
class Unknown:
    """A value about which nothing is known: what follows a gap that is listed already, or with
    ``gap``, a result that its node's translation does not make, which matters only when read."""

    gap: Gap | None = None


@dataclass(frozen=True)
class Call:
    """One node while it is executed.

    inputs: what it reads, None for an operand that is left out. name: of the node, in messages.
    """

    it: Runner
    node: NodeProto
    inputs: list[Any]
    name: str
    frame: Frame

    @property
    def b(self) -> Builder:
        return self.it.b

    @property
    def version(self) -> int:
        """Of the node's domain."""
        return opset_of(self.frame.opsets, self.node.domain)

    def attr(self, name: str, default: Any = None) -> Any:
        """Value of an attribute."""
        for item in self.node.attribute:
            if item.name == name:
                return helper.get_attribute_value(item)
        return default

    def optional(self, index: int) -> Any:
        return self.inputs[index] if index < len(self.inputs) else None

    def run(self, graph: GraphProto, bind: Mapping[str, Any], step: int | str = "") -> list[Any]:
        """The values of the outputs of a graph of this node. step: of a body that runs often."""
        prefix = f"{self.name}/{step}/" if step != "" else f"{self.name}/"
        return self.it.graph(graph, bind, self.frame, prefix)

    def bound(self) -> int | None:
        """What a caller says of how often this loop runs at most."""
        names = {name for name in (self.name, self.node.name) if name}
        self.b.limited.update(names)
        return min((self.b.limits[n] for n in names if n in self.b.limits), default=None)

    def gap(
        self,
        reason: str,
        remedy: str,
        needs: tuple[str, ...] = (),
        bounds: tuple[str, ...] = (),
    ) -> Gap:
        """What is wrong with this node, with the types and shapes of what it reads."""
        kinds = f"inputs: {', '.join(map(registry.describe, self.inputs))}"
        return Gap(self.name, qualified(self.node), reason, remedy, kinds, needs, bounds=bounds)

    def refuse(
        self,
        reason: str,
        remedy: str = "Check the model",
        needs: tuple[str, ...] = (),
        bounds: tuple[str, ...] = (),
    ) -> UnsupportedOp:
        """``raise call.refuse(...)``: a node that the compiler does not translate."""
        return UnsupportedOp(self.gap(reason, remedy, needs, bounds))

    def known(self, value: Any, what: str) -> np.ndarray:
        """Value of an operand that has to be known while compiling; refuses otherwise."""
        if not isinstance(value, Value) or value.const is None:
            raise self.refuse(*registry.run_time_value(what, value))
        return value.const

    def sequence(self, value: Any) -> tuple[Value, ...]:
        """The elements of a sequence, which an optional may hold."""
        if isinstance(value, OptionalValue):
            value = value.item
        if not isinstance(value, SequenceValue):
            raise self.refuse("the operand is no sequence", "Build one with SequenceConstruct")
        return value.items

    def axis(self, axis: int, rank: int) -> int:
        """A non-negative axis, checked against ``rank``."""
        if not -rank <= axis < rank:
            raise self.refuse(f"axis {axis} is outside rank {rank}")
        return axis % rank
