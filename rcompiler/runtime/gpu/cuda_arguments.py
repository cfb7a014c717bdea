"""The arguments of a kernel as the CUDA driver takes them."""

import ctypes
from collections.abc import Sequence

from rcompiler.runtime.gpu.driver import Argument


class PackedArguments:
    """Values in memory of the host, and an array of their addresses, while this object lives.

    Attributes:
        address: of the array; the driver copies the values when it launches.
    """

    def __init__(self, arguments: Sequence[Argument]) -> None:
        given = [a if isinstance(a, bytes) else a.tobytes() for a in arguments]
        self._values = [ctypes.create_string_buffer(data, len(data)) for data in given]
        self._places = (ctypes.c_void_p * max(len(given), 1))(*map(ctypes.addressof, self._values))
        self.address = ctypes.addressof(self._places)
