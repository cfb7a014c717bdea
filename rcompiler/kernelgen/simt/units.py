"""Which unit multiplies the factors of a product.

The operator, the precision and the device decide, never a tile: no tile changes a bit. Who writes
products asks here, and who chooses tiles for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rcompiler.device.matrix_unit import Instruction
from rcompiler.device.model import Device
from rcompiler.kernelgen.simt.boxed import Chunks, chunks_of
from rcompiler.kernelgen.simt.source import Buffers
from rcompiler.kernelgen.simt.strides import Strides, strides_of
from rcompiler.kernelgen.simt.warpgroup import THREADS as WARPGROUP
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.product import Form, bytes_signed, factors_of
from rcompiler.linalg.values import element_of


@dataclass(frozen=True)
class Units:
    """elements: types that the device has matrix units for; precision: how factors of f32 are
    multiplied, "f32" or one of these; boxes: whether there are TMA and wgmma; threads: of a block.
    """

    elements: frozenset[str]
    precision: str
    boxes: bool
    threads: int

    def element(self, root: Generic) -> str | None:
        """The type as which a matrix unit multiplies the factors of a product, by their types
        alone; None: multiply-adds do.
        """
        elements = {element_of(root.operands[number]) for number in factors_of(root) or ()}
        if bytes_signed(root) is not None:
            return "i8" if "i8" in self.elements else None
        if not elements <= {"f16", "bf16", "f32"}:
            return None
        unit = elements.pop() if len(elements) == 1 else "f32"
        unit = self.precision if unit == "f32" else unit
        return unit if unit in self.elements else None

    def instruction(self, form: Form, buffers: Buffers) -> Instruction | None:
        """What multiplies a product whose operands are `buffers` in memory, and nothing else."""
        if form.unit is None:
            return None
        return "wgmma" if self.boxes and self.chunks(form, buffers) else "mma"

    def chunks(self, form: Form, buffers: Buffers) -> Chunks | None:
        """How the reduction comes where boxes bring both factors; see `chunks_in_boxes`."""
        strides = [strides_of(form, factor, buffers, lambda buffer: True) for factor in (0, 1)]
        return chunks_in_boxes(form, strides, self.threads)


def units_of(device: Device, precision: str) -> Units:
    """The units that code for `device` uses. DeviceError as of `Device.persistent_threads`."""
    return Units(device.matrix_elements, precision, device.has_wgmma, device.persistent_threads)


def chunks_in_boxes(form: Form, strides: Sequence[Strides | None], threads: int) -> Chunks | None:
    """How the reduction comes where boxes bring both factors to warpgroups, by the operator alone;
    None where they cannot. strides: those of the factors in global memory.
    """
    if form.unit not in ("f16", "bf16", "i8") or threads % WARPGROUP:
        return None
    there = [side for side in strides if side is not None]
    if len(there) < len(strides) or any(side.buffer.element != form.unit for side in there):
        return None
    return chunks_of(form, there)
