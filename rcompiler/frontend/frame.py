"""What handlers of control flow are given: the names in reach, and who runs a body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from onnx import AttributeProto, GraphProto

from rcompiler.errors import InvalidModel

from .builder import Builder


@dataclass
class Frame:
    """What names mean inside one graph or function body."""

    names: dict[str, Any]
    opsets: Mapping[str, int]
    attributes: dict[str, AttributeProto] = field(default_factory=dict)
    outer: Frame | None = None
    prefix: str = ""
    uses: Mapping[str, int] = field(default_factory=dict)
    depth: int = 0

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

    def graph(
        self, graph: GraphProto, bind: Mapping[str, Any], outer: Frame, prefix: str = ""
    ) -> list[Any]:
        """The values of a graph's outputs, with its inputs bound. prefix: of its nodes' names."""
