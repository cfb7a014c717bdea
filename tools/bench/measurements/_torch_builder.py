"""What ONNX's operators are translated to PyTorch with."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

import numpy as np
from onnx import NodeProto

from rcompiler.errors import UnsupportedOp


class Builder(Protocol):
    """What operators are translated with. torch: the package; functional: of torch.nn; dtype: of
    torch, for what is f32 in the model. Values are nodes of the new graph, or numbers.
    """

    torch: Any
    functional: Any
    dtype: Any

    def call(self, function: Callable[..., Any], *operands: Any, **more: Any) -> Any:
        """A node that calls a function."""

    def method(self, name: str, *operands: Any) -> Any:
        """A node that calls a method of the first operand."""

    def call_module(self, key: Hashable, make: Callable[[], Any], *operands: Any) -> Any:
        """A node that calls a module, which is made for each key once, as a part of the new one."""

    def value(self, name: str) -> Any:
        """The value of this name in the model; None of ""."""

    def array(self, node: NodeProto, index: int) -> np.ndarray:
        """An operand that is known now. Raises UnsupportedOp for others."""

    def shape(self, node: NodeProto, index: int) -> list[int]:
        """Of an operand. Raises UnsupportedOp where it is not known."""

    def producer(self, name: str) -> NodeProto | None:
        """The node of the model that makes a value; None of inputs and weights."""

    def uses(self, name: str) -> int:
        """How often a value is read by nodes that the outputs depend on, or given out."""


def unsupported(node: NodeProto, why: str) -> UnsupportedOp:
    """The error for a node, to be raised."""
    return UnsupportedOp(f"node '{node.name}' ({node.op_type}) for PyTorch: {why}")
