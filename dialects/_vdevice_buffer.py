"""The dialect `vdevice`, and vdevice.buffer: where a tensor of a program lies."""
# No `from __future__ import annotations` here: dialects.ext reads the annotations as types.

from collections.abc import Iterator
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext

from rcompiler.dialects.attributes import (
    Value,
    build_op,
    integer_problems,
    is_elements,
    place_problems,
    report,
    tensor_bytes,
)

BUFFER_KINDS = ("input", "output", "constant", "temp", "pinned")
ALIGNMENT = 64
"""Bytes: where temporaries and constants begin, so that a vector load of any width is aligned."""

NAMED_IN = ("vdevice.program", "vdevice.repeat")
"""Where what has a name in a program may stand."""


class VDevice(ext.Dialect, name="vdevice"):
    """A static schedule of rTasks onto the execution units of one device."""


class BufferOp(VDevice.Operation, name="buffer"):
    """A tensor in memory: `bytes` bytes at `offset`, both in bytes.

    Several buffers may overlap: a reshape is a second buffer at the same offset. Of a pinned tensor
    each EU has the box that one of its runs has written, at `offset` of its own memory, and no EU
    has all of it.

    Attributes:
        sym_name: what runs of the program call it.
        kind: where it lies, see `BUFFER_KINDS`.
        offset: from the start of the arena (temp), of the constants (constant), of the EU's own
            memory (pinned), or of the caller's tensor number `index` (input, output).
        offset_steps (array<i64>): how much the offset moves with each repeat around it.
        bytes: its size.
        type: a static tensor.
        index (i64): of an input or output, the number of the caller's tensor.
        value (elements): of a constant.
        alias_of (symbol): the buffer whose bytes this one views on purpose.
        over (i64): of an output that is the next value of a state, the number of the input that is
            its last value, and in whose bytes it lies; all buffers of that output say it.

    Example:
        "vdevice.buffer"() {bytes = 32 : i64, index = 0 : i64, kind = "input", offset = 0 : i64,
            sym_name = "x", type = tensor<8xf32>} : () -> ()
        "vdevice.buffer"() {bytes = 32 : i64, kind = "constant", offset = 0 : i64, sym_name = "w",
            type = tensor<8xf32>, value = dense<1.0> : tensor<8xf32>} : () -> ()
    """

    sym_name: ir.StringAttr
    kind: ir.StringAttr
    offset: ir.IntegerAttr
    bytes: ir.IntegerAttr
    type: ir.TypeAttr

    @classmethod
    def build(
        cls,
        sym_name: str,
        kind: str,
        offset: int,
        bytes: int,
        type: ir.Type,
        *,
        index: int | None = None,
        value: ir.Attribute | None = None,
        over: int | None = None,
        loc: Any = None,
        ip: Any = None,
    ) -> "BufferOp":
        """index: number of the caller's tensor (input, output); value: of a constant; over: the
        input that an output lies over.
        """
        more: dict[str, Value] = {}
        if index is not None:
            more["index"] = index
        if value is not None:
            more["value"] = value
        if over is not None:
            more["over"] = over
        return build_op(
            cls,
            loc,
            ip,
            sym_name=sym_name,
            kind=kind,
            offset=offset,
            bytes=bytes,
            type=type,
            **more,
        )

    def verify_invariants(self) -> bool:
        return report(self, self._problems())

    def _problems(self) -> Iterator[str]:
        yield from place_problems(self, NAMED_IN)
        kind, type_ = self.kind.value, self.attributes["type"].value
        if kind not in BUFFER_KINDS:
            yield f"expects 'kind' to be one of {', '.join(BUFFER_KINDS)}, not '{kind}'"
        yield from integer_problems(self, {"offset": 0, "bytes": 0})
        needed = tensor_bytes(type_)
        if needed is None:
            yield f"expects a static tensor of numbers of whole bytes (or i1), not {type_}"
        elif self.attributes["bytes"].value < needed:
            yield f"expects at least {needed} bytes for {type_}"
        whole = "alias_of" not in self.attributes  # a part of another buffer lies where it lies
        if not whole and kind == "pinned":
            yield "expects no 'alias_of': a pinned tensor is no part of another"
        if whole and kind in ("constant", "temp", "pinned") and self.offset.value % ALIGNMENT:
            yield f"expects 'offset' to be a multiple of {ALIGNMENT}, not {self.offset.value}"
        steps = self.attributes["offset_steps"] if "offset_steps" in self.attributes else ()
        if whole and any(step % ALIGNMENT for step in steps):
            yield f"expects 'offset_steps' to be multiples of {ALIGNMENT}"
        for name, kinds in (("index", ("input", "output")), ("value", ("constant",))):
            if (name in self.attributes) != (kind in kinds):
                yield f"expects '{name}' on {' and '.join(kinds)} only, and always there"
        if "over" in self.attributes and kind != "output":
            yield f"expects 'over' on output only, not on {kind}"
        if "index" in self.attributes:
            yield from integer_problems(self, {"index": 0})
        if "over" in self.attributes:
            yield from integer_problems(self, {"over": 0})
        if "value" in self.attributes:
            value = self.attributes["value"]
            if not is_elements(value) or value.type != type_:
                yield f"expects 'value' to be the elements of a {type_}"
