"""Registration of what operators do with packed tensors, and what several of them do.

An operator without a rule is refused: nothing is padded, and no request reads another, by mistake.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from rcompiler.errors import UnsupportedOp
from rcompiler.frontend.builder import Value
from rcompiler.frontend.frame import Call
from rcompiler.frontend.value import LengthsDiffer
from rcompiler.support.extent import Size

from .packing import Packing
from .ragged import Padded, Rows, has_lengths, has_requests, is_ragged, place
from .tables import Tables

Rule = Callable[["Packed"], list[Any]]
_TABLE: dict[tuple[str, str], Rule] = {}


@dataclass(frozen=True)
class Packed:
    """A node of which an input is packed.

    Attributes:
        call: the node and what it reads.
        tables: where rows lie.
        usual: the results of a node that reads tensors.
    """

    call: Call
    tables: Tables
    usual: Callable[[Call], list[Any]]

    @property
    def packing(self) -> Packing:
        return self.tables.packing

    @property
    def inputs(self) -> list[Any]:
        return self.call.inputs

    def refuse(self, reason: str) -> UnsupportedOp:
        """``raise packed.refuse(...)``: a node that is not translated for packed batches."""
        return self.call.refuse(f"{LengthsDiffer.reason}: {reason}", LengthsDiffer.remedy)

    def axis(self, axis: int, rank: int) -> int:
        return self.call.axis(axis, rank)

    def changed(self, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Call:
        """The node with other inputs, and some other attributes."""
        node = NodeProto()
        node.CopyFrom(self.call.node)
        for name, value in attributes.items():
            kept = [item for item in node.attribute if item.name != name]
            del node.attribute[:]
            node.attribute.extend([*kept, helper.make_attribute(name, value)])
        return replace(self.call, node=node, inputs=list(inputs))

    # -- on rows --------------------------------------------------------------------------------
    def on_rows(
        self, inputs: Sequence[Any], attributes: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """The node on tensors that have rows as an axis.

        inputs: tensors, and packed ones, of which the rows are read. attributes: in the place of
        those that the node has.
        """
        joined = next(value.joined for value in inputs if isinstance(value, Rows))
        read = [value.value if isinstance(value, Rows) else value for value in inputs]
        made = self.usual(self.changed(read, attributes or {}))
        return [self.tables.rows(v, joined) if isinstance(v, Value) else v for v in made]

    def aligned(self, values: Sequence[Any]) -> list[Any] | None:
        """Tensors that are broadcast to rows, as they are with rows as an axis; None where rows are
        at several places of them, or the result has none."""
        rank = max(len(value.sizes) for value in values if value is not None)
        wide = [_wide(value, rank) for value in values]
        sizes = [
            next((d for d in each if d != 1), 1)
            for each in zip(*(own for own in wide if own), strict=True)
        ]
        at = place(sizes, self.packing)
        pairs = list(zip(values, wide, strict=True))
        if at is None or any(is_ragged(v) and place(own, self.packing) != at for v, own in pairs):
            return None
        return [self._aligned(value, own, at) for value, own in pairs]

    def _aligned(self, value: Any, own: Sequence[Size], at: tuple[int, int]) -> Any:
        """What a tensor that is broadcast is where rows are an axis."""
        axis, width = at
        if value is None or isinstance(value, Rows):
            return value
        lead = len(own) - value.rank
        if lead >= axis + width:
            return value  # it has no axis there
        pair, b = own[axis : axis + width], self.tables.b
        if width == 2 and value.whole is not None:
            wide = b.reshape(value.whole, [1] * lead + list(value.shape))
            return self.tables.of_positions(b.sized(wide, [*[None] * lead, *value.extents]), axis)
        if any(size != 1 for size in pair):
            raise self.refuse(f"{' and '.join(map(str, pair))} elements meet those of all requests")
        if width == 1 or lead > axis:
            return value
        return b.reshape(value, [d for n, d in enumerate(value.shape, lead) if n != axis])

    # -- by groups ------------------------------------------------------------------------------
    def by_groups(self) -> list[Any]:
        """The node once for each group of requests, on tensors as long as the longest of these."""
        results = [
            self.usual(self.changed([self.part(v, n) for v in self.inputs], {}))
            for n in range(len(self.tables.groups))
        ]
        return [self.joined(parts) for parts in zip(*results, strict=True)]

    def part(self, value: Any, number: int) -> Any:
        """What a group sees of a tensor."""
        if isinstance(value, Padded):
            return value.parts[number]
        if isinstance(value, Rows):
            return self.tables.unpack(value, number)
        return self.tables.part(value, number) if isinstance(value, Value) else value

    def joined(self, parts: Sequence[Any]) -> Any:
        """The tensor whose parts these are."""
        if not all(isinstance(part, Value) for part in parts):
            return parts[-1]
        sizes = self.tables.sizes_from(parts)
        if parts[-1].elements is not None:
            raise self.refuse("it computes with sizes of groups")
        if not has_lengths(sizes, self.packing):
            if not has_requests(sizes, self.packing):
                raise self.refuse("one result is made of all requests")
            return self.tables.of_requests(parts, sizes)
        found = Padded(sizes, tuple(parts))
        return found if place(sizes, self.packing) is None else self.tables.pack(found)


def _wide(value: Any, rank: int) -> tuple[Size, ...]:
    """The shape with ones in front."""
    return () if value is None else (*[1] * (rank - len(value.sizes)), *value.sizes)


def rule(*ops: str, domain: str = "") -> Callable[[Rule], Rule]:
    """Register ``fn(packed)``, which returns the results of a node, for one or more operators."""

    def register(fn: Rule) -> Rule:
        for op in ops:
            if (op, domain) in _TABLE:
                raise ValueError(f"{op}: two rules")
            _TABLE[op, domain] = fn
        return fn

    return register


@cache
def _load() -> None:
    from rcompiler.frontend.packed import ops as package

    for module in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"{package.__name__}.{module}")


def find(node: NodeProto) -> Rule | None:
    """The rule of a node's operator."""
    _load()
    return _TABLE.get((node.op_type, "" if node.domain == "ai.onnx" else node.domain))


def names() -> list[tuple[str, str]]:
    """All (op, domain) that have a rule."""
    _load()
    return sorted(_TABLE)


def constant(packed: Packed, numbers: Sequence[int]) -> Value:
    """Integers as an input of a node."""
    return packed.tables.b.constant(np.array(numbers, np.int64), "int64")
