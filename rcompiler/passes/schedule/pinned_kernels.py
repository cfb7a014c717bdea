"""The rKernels of pinned tiles: what brings a tile, and what reads it there."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from torch_mlir import ir

from rcompiler.device.model import Device
from rcompiler.dialects import rtask
from rcompiler.dialects.attributes import to_attribute, to_python
from rcompiler.dialects.iterations import written
from rcompiler.linalg.values import ops_of, string, symbol
from rcompiler.passes.ir.tensor_ir import elementwise
from rcompiler.passes.schedule.schedule_graph import kernel_of
from rcompiler.rammer.kernel import WHOLE, Access, Kernel
from rcompiler.rammer.pinning import bring_ns, pinned_ns

_LINES = 8  # of a register tile: loads of one warp under way
_VECTORS = 4  # of a line of it


class PinnedKernels:
    """Made once each, beside the rKernels of a module."""

    def __init__(self, kernels: dict[str, ir.Operation], device: Device) -> None:
        """kernels: by name; those that are made join them."""
        self._kernels, self._device = kernels, device
        self._left: set[str] = set()  # of which another form is used

    def reading(self, name: str, operands: Sequence[int]) -> str:
        """The rKernel of that name with these operands pinned."""
        made = "k_" + _hash(name, *operands)
        if made not in self._kernels:
            self._left.add(name)
            old = self._kernels[name]
            with ir.InsertionPoint(old), old.location:
                new = self._kernels[made] = old.clone()
                new.attributes["sym_name"] = to_attribute(made)
                new.attributes["pinned"] = to_attribute(tuple(operands))
                self._estimate(new, kernel_of(old), operands)
        return made

    def _estimate(self, op: ir.Operation, old: Kernel, operands: Sequence[int]) -> None:
        """What a task takes that finds tiles in the EU's own memory."""
        ns, parts = pinned_ns(old, operands, self._device)
        op.attributes["estimated_ns"] = to_attribute(round(ns, 1))
        if "measured_ns" in op.attributes:  # of the other form
            del op.attributes["measured_ns"]
        if "explanation" in op.attributes and old.parts:
            why = to_python(op.attributes["explanation"])
            why["parts_ns"] = {name: round(part, 1) for name, part in parts.items()}
            why["limit"] = max(parts, key=lambda name: parts[name])
            op.attributes["explanation"] = to_attribute(why)
        if "reason" in op.attributes:
            numbers = ", ".join(map(str, operands))
            note = f"{string(op, 'reason')}; operands {numbers} pinned, {ns / 1000:.1f} us"
            op.attributes["reason"] = to_attribute(note)

    def writing(self, type_: ir.Type, access: Access) -> str:
        """An rKernel that copies a tensor of that type to where it is pinned, in the boxes of
        `access`, see `rcompiler.rammer.pinned_boxes.may_pin`.
        """
        made = "pin_" + _hash(str(type_), access)
        if made in self._kernels:
            return made
        pairs = [*zip(access.dims, access.shape, strict=True)]
        extents = [size if d.axis == WHOLE else min(d.extent, size) for d, size in pairs]
        grid = tuple(-(-size // extent) for size, extent in zip(access.shape, extents, strict=True))
        box = [
            (axis, extent, 0, extent) if points > 1 else (WHOLE, 0, 0, 0)
            for axis, (extent, points) in enumerate(zip(extents, grid, strict=True))
        ]
        rank, warp = len(grid), self._device.compute.warp
        most = [1] * max(rank - 2, 0) + [_LINES, _VECTORS * warp][-rank:]
        registers = tuple(map(min, extents, most))
        [anchor, *_] = self._kernels.values()
        with ir.InsertionPoint(anchor), anchor.location:
            op = rtask.KernelOp.build(
                sym_name=made, kind="movement", grid=grid, tile=tuple(extents),
                register_tile=registers, vector_dim=rank - 1, lanes=warp, on_chip_bytes=0,
                registers=_LINES * _VECTORS, source="pin", reads=[box], writes=[box],
                estimated_ns=round(bring_ns(access.task_bytes, self._device), 1),
            ).operation  # fmt: skip
            op.attributes["order"] = to_attribute(tuple(range(rank)))
            op.attributes["pinned"] = to_attribute((1,))
            with ir.InsertionPoint(op.regions[0].blocks.append(type_)):
                source = op.regions[0].blocks[0].arguments[0]
                element = ir.RankedTensorType(type_).element_type
                rtask.YieldOp.build(elementwise([source], element, lambda value: value))
        self._kernels[made] = op
        return made

    def erase_unused(self, programs: Sequence[ir.Operation]) -> None:
        """Erase what no program runs any more."""
        left = set(self._left)
        for program in programs:
            for unit in ops_of(program.regions[0].blocks[0]):
                if unit.name == "vdevice.eu" and left:
                    steps = (view.operation for view, _ in written(unit.regions[0].blocks[0]))
                    left -= {symbol(op, "kernel") for op in steps if op.name == "vdevice.run"}
        for name in sorted(left):
            self._kernels.pop(name).erase()


def _hash(*parts: object) -> str:
    return hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()[:16]
