"""Descriptors of tensors for bulk copies: 128 bytes that only who made them understands."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from rcompiler.errors import DeviceError
from rcompiler.runtime.gpu.driver import TensorTile
from rcompiler.runtime.gpu.tensor_maps import MAP_BYTES

_HEAD = struct.Struct("<8sQIII")
_MAGIC = b"rc-tmap1"
# Address bits 4.. are exclusive-ored with bits 7.. by the pattern's size in bytes.
_SWIZZLES = {0: 0, 32: 1, 64: 3, 128: 7}


def pack(tile: TensorTile) -> bytes:
    """The descriptor; DeviceError for what the copy engine cannot do."""
    rank = len(tile.dims)
    fits = 1 <= rank <= 5 and len(tile.box) == rank and len(tile.strides) == rank - 1
    if not fits or tile.element_bytes not in (1, 2, 4, 8) or tile.swizzle not in _SWIZZLES:
        raise DeviceError(f"no tensor map describes {tile}")
    if tile.address % 16 or any(stride % 16 for stride in tile.strides):
        raise DeviceError(f"{tile}: address and strides must be multiples of 16")
    inner = tile.box[0] * tile.element_bytes
    if any(not 0 < extent <= 256 for extent in tile.box) or inner % 16:
        raise DeviceError(f"{tile}: a box has 1 to 256 elements a side, and rows of 16 bytes each")
    if tile.swizzle and inner > tile.swizzle:
        raise DeviceError(f"{tile}: the rows of a box are longer than its swizzle")
    head = _HEAD.pack(_MAGIC, tile.address, tile.element_bytes, rank, tile.swizzle)
    return (head + struct.pack(f"<{rank}I{rank - 1}Q{rank}I", *tile.dims, *tile.strides, *tile.box)
            ).ljust(MAP_BYTES, b"\0")  # fmt: skip


def unpack(data: bytes) -> TensorTile | None:
    """The tile that a descriptor describes; None of other bytes."""
    if len(data) < MAP_BYTES or not data.startswith(_MAGIC):
        return None
    _, address, element, rank, swizzle = _HEAD.unpack_from(data)
    values = struct.unpack_from(f"<{rank}I{rank - 1}Q{rank}I", data, _HEAD.size)
    return TensorTile(
        address,
        element,
        values[:rank],
        values[rank : 2 * rank - 1],
        values[2 * rank - 1 :],
        swizzle,
    )


def swizzled(offsets: npt.NDArray[np.int64], swizzle: int) -> npt.NDArray[np.int64]:
    """Where in shared memory the pattern puts the bytes that would lie at `offsets`."""
    return offsets ^ (((offsets >> 7) & _SWIZZLES[swizzle]) << 4)
