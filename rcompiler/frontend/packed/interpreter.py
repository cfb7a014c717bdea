"""The walk over a model whose requests are packed: what has a length of its own has rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import ModelProto

from rcompiler.errors import Gap, InvalidModel
from rcompiler.frontend.frame import Call, Unknown
from rcompiler.frontend.interpret import Interpreter
from rcompiler.frontend.nodes import MISFITS
from rcompiler.frontend.value import LengthsDiffer, SizeAtRunTime, Value
from rcompiler.support.extent import Size

from . import rules
from .apart import mixed
from .packing import Packing
from .ragged import Padded, Rows, has_lengths, has_requests, is_ragged, place
from .tables import Tables


class PackedInterpreter(Interpreter):
    """One import of a packed model."""

    def __init__(self, packing: Packing, model: ModelProto, gaps: list[Gap] | None = None) -> None:
        super().__init__(model, gaps)
        self._packing = packing
        self._tables = Tables(self.b, packing)

    def argument(self, name: str, sizes: Sequence[Size], dtype: str) -> Any:
        """A graph input: its rows, if it has some."""
        if place(sizes, self._packing) is None:
            return super().argument(name, sizes, dtype)
        rows = super().argument(name, self._tables.row_sizes(sizes), dtype)
        return self._tables.rows(rows, joined=False)

    def outcome(self, name: str, value: Any) -> Any:
        """A result of the graph: its rows, if it has some."""
        if isinstance(value, Rows):
            return value.value
        sizes = value.sizes if isinstance(value, Value | Padded) else ()
        elements = value.elements if isinstance(value, Value) else None
        numbers = () if elements is None else tuple(elements.reshape(-1))
        if has_lengths(sizes, self._packing):
            told = ", ".join(map(str, sizes))
            why = f"of shape [{told}]; the two dimensions have to be next to each other, once"
        elif has_lengths(numbers, self._packing):
            told = ", ".join(map(str, numbers))
            why = f"that says {told}, which each request has a number of its own for"
        else:
            return value
        reason = f"a packed model has no result {why}"
        return Unknown(Gap(name, "", reason, LengthsDiffer.remedy, kind="output"))

    def node(self, call: Call) -> list[Any]:
        node = call.node
        own = (node.domain, node.op_type, node.overload) in self.functions
        known = not any(isinstance(value, Unknown) for value in call.inputs)
        if own or not known or not any(map(is_ragged, call.inputs)):
            expected = len(self.b.expected)
            made = [self._settled(value) for value in super().node(call)]
            for each in self.b.expected[expected:]:
                if has_lengths(each.value.sizes, self._packing):
                    raise call.refuse(
                        "positions of a packed batch are used as indices which may be wrong",
                        LengthsDiffer.remedy,
                    )
            if not own and (why := mixed(call, made, self._packing)):
                raise call.refuse(f"{LengthsDiffer.reason}: {why}", LengthsDiffer.remedy)
            return made
        if node.op_type == "Identity":
            return call.inputs[:1]
        packed = rules.Packed(call, self._tables, self._usual)
        fn = rules.find(node)
        if fn is None:
            raise packed.refuse("the operator has no rule for them")
        self.b.at(call.name, node.op_type)
        try:
            return [self._settled(value) for value in fn(packed)]
        except SizeAtRunTime as error:
            raise packed.refuse(str(error)) from error
        except MISFITS as error:
            raise InvalidModel(
                f"node '{call.name}' ({node.op_type}) does not fit its operator: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _usual(self, call: Call) -> list[Any]:
        made = super().node(call)
        self.b.at(call.name, call.node.op_type)
        return made

    def _settled(self, value: Any) -> Any:
        """What is made of sizes: by rows or groups where it has both dimensions."""
        packing, tables = self._packing, self._tables
        if not isinstance(value, Value) or value.whole is None:
            return value
        sizes = value.sizes
        value.known = value.whole.bounds if value.known is None else value.known
        if not (has_lengths(sizes, packing) and has_requests(sizes, packing)):
            return value
        found = place(sizes, packing)
        if found is None:
            parts = [tables.part(value, number) for number in range(len(tables.groups))]
            return Padded(sizes, tuple(parts))
        if found[1] == 1:
            raise SizeAtRunTime(f"a tensor of {packing.both} elements is made of sizes")
        return tables.rows(tables.of_positions(value, found[0]), joined=False)
