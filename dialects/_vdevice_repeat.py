"""vdevice.repeat: a loop of a schedule, or a family of buffers or events that loops use."""
# No `from __future__ import annotations` here: dialects.ext reads the annotations as types.

from collections.abc import Iterator
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects.ext import Region

from rcompiler.dialects._vdevice_buffer import VDevice
from rcompiler.dialects.attributes import build_op, integer_problems, place_problems, report
from rcompiler.dialects.iterations import LETTERS


def _repeats_around(op: ir.OpView) -> int:
    """How many there are, counted as far as there may be."""
    parent, found = op.operation.parent, 0
    while parent is not None and parent.name == "vdevice.repeat" and found < len(LETTERS):
        parent, found = parent.operation.parent, found + 1
    return found


class RepeatOp(VDevice.Operation, name="repeat", traits=[ir.NoTerminatorTrait]):
    """What stands in it, `count` times: the instructions of a list, or buffers or events.

    In iteration i (0, 1, ...) of it a name with a number like {4+2i} has 4 + 2 * i there, and an
    integer attribute `x` with `x_steps` is that much larger: one step for each repeat around it,
    outermost first. In names their iterations are called i, j, k, ..., from the outermost on.

    "vdevice.repeat"() ({
      "vdevice.signal"() {event = @"step{4+i}.done"} : () -> ()
    }) {count = 91 : i64} : () -> ()
    """

    count: ir.IntegerAttr
    body: Region

    @classmethod
    def build(cls, count: int, *, loc: Any = None, ip: Any = None) -> "RepeatOp":
        """An empty loop: one block."""
        return build_op(cls, loc, ip, count=count)

    def verify_invariants(self) -> bool:
        def problems() -> Iterator[str]:
            yield from place_problems(self, ("vdevice.program", "vdevice.eu", "vdevice.repeat"))
            yield from integer_problems(self, {"count": 1})
            if _repeats_around(self) >= len(LETTERS):
                yield f"expects at most {len(LETTERS)} repeats inside of each other"
            if len(list(self.body.blocks)) != 1:
                yield "expects a body of one block"

        return report(self, problems())
