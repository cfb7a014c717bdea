"""Tensor maps, as the CUDA driver encodes them for TMA.

The driver writes them to a multiple of 64 bytes (cuda.h, "tensorMap address must be aligned to 64
bytes"). The object that cuda-bindings passes it lies where Python's allocator put it, at a multiple
of 16 (13.5.0), so the function of the driver is called on a buffer of our own instead.
"""

from __future__ import annotations

import ctypes
from typing import Any

from rcompiler.errors import DeviceError
from rcompiler.runtime.gpu.cuda_graph import Ask
from rcompiler.runtime.gpu.driver import TensorTile
from rcompiler.runtime.gpu.tensor_maps import MAP_BYTES

_ALIGNMENT = 128
_SINCE = 12000  # the release of CUDA that the function came with
_NAME = b"cuTensorMapEncodeTiled"
_ELEMENTS = {1: "UINT8", 2: "UINT16", 4: "UINT32", 8: "UINT64"}
_SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}
_PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int,  # CUresult
    ctypes.c_void_p,  # the map
    ctypes.c_int,  # type of the elements
    ctypes.c_uint32,  # rank
    ctypes.c_void_p,  # address of the tensor
    ctypes.POINTER(ctypes.c_uint64),  # dims
    ctypes.POINTER(ctypes.c_uint64),  # strides
    ctypes.POINTER(ctypes.c_uint32),  # box
    ctypes.POINTER(ctypes.c_uint32),  # steps between elements
    *[ctypes.c_int] * 4,  # interleave, swizzle, promotion to L2, what is out of bounds
)


def tensor_map(api: Any, ask: Ask, tile: TensorTile) -> bytes:
    """The map of a tile, in the current context. Raises DeviceError."""
    if tile.element_bytes not in _ELEMENTS or tile.swizzle not in _SWIZZLES:
        raise DeviceError(
            f"no tensor map of elements of {tile.element_bytes} bytes, swizzled by "
            f"{tile.swizzle}; give 1, 2, 4 or 8 bytes and {sorted(_SWIZZLES)}"
        )
    what, rank = "describe a tensor", len(tile.dims)
    element = f"CU_TENSOR_MAP_DATA_TYPE_{_ELEMENTS[tile.element_bytes]}"
    swizzle = f"CU_TENSOR_MAP_SWIZZLE_{_SWIZZLES[tile.swizzle]}"
    room = ctypes.create_string_buffer(MAP_BYTES + _ALIGNMENT)
    place = -(-ctypes.addressof(room) // _ALIGNMENT) * _ALIGNMENT
    status = _PROTOTYPE(_address(api, ask))(
        place,
        int(getattr(api.CUtensorMapDataType, element)),
        rank,
        tile.address,
        (ctypes.c_uint64 * rank)(*tile.dims),
        (ctypes.c_uint64 * rank)(*tile.strides),
        (ctypes.c_uint32 * rank)(*tile.box),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        int(api.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE),
        int(getattr(api.CUtensorMapSwizzle, swizzle)),
        int(api.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B),
        int(api.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
    )
    ask(what, (api.CUresult(status),))
    return ctypes.string_at(place, MAP_BYTES)


def _address(api: Any, ask: Ask) -> int:
    """Of the driver's function."""
    what = "find out how to describe a tensor"
    address, _ = ask(what, api.cuGetProcAddress(_NAME, _SINCE, 0))
    return int(address)
