"""Arrays that go back to the system when nobody has them any more.

Of weights that are read or made one after the other the C library would keep as much as the
largest, twice: it takes large pieces for usual ones once it has seen one.
"""

import mmap

import numpy as np

_LEAST = 1 << 20  # bytes; a smaller array is made sooner where the last one was


def own_pages(size: int) -> np.ndarray:
    """uint8[size] of no particular content, in pages of its own where it is large.

    Args:
        size: bytes.
    """
    if size <= _LEAST:
        return np.empty(size, np.uint8)
    return np.frombuffer(mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)
