"""Memory with a known alignment, refused before it is reserved when it cannot fit."""

import contextlib
import ctypes
import errno
import math
import mmap
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rcompiler.errors import DeviceError
from rcompiler.support.libc import libc

ALIGNMENT = 64
_HUGE = 2 << 20  # bytes of a huge page
_MUCH = 8 << 20  # bytes that are free in the heap; to give them back takes half a millisecond
_MAP_FIXED = 0x10  # of Linux: at this address, in the place of what is there


def arena(size: int, what: str) -> np.ndarray:
    """Zeroed, page-aligned uint8[size], given back when the array goes.

    Raises:
        DeviceError: `size` bytes are more than this machine has.
    """
    require(size, what)
    try:
        # Private: a forked child must not write into the tensors of its parent.
        memory = mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if size >= _HUGE:
            ask_for_huge_pages(memory)
        return np.frombuffer(memory, np.uint8)[:size]
    except OSError as error:
        raise _too_much(size, what, error.strerror or str(error)) from None


def ask_for_huge_pages(memory: mmap.mmap) -> None:
    """Fewer misses of the translation buffer (1 % of ResNet-50's time); a wish, not a need."""
    with contextlib.suppress(OSError):  # a kernel without them
        memory.madvise(mmap.MADV_HUGEPAGE)


def map_whole(file: int) -> np.ndarray:
    """uint8[bytes] of an open file that has some, mapped for reading. Raises OSError."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_POPULATE
    return np.frombuffer(mmap.mmap(file, 0, flags=flags, prot=mmap.PROT_READ), np.uint8)


def map_file(place: np.ndarray, content: np.ndarray, file: int, offset: int) -> slice:
    """Map whole pages of a file in the place of those of an arena: nothing is copied, and all
    processes share them. They can be read only.

    Args:
        place: uint8[size] in an `arena`.
        content: the same bytes of the file, which begin at `offset` of the open `file`.

    Returns:
        Which bytes are mapped; none where they do not lie in the same place of a page.

    Raises:
        DeviceError: the system refuses it.
    """
    start = address(place)
    page = mmap.PAGESIZE
    first = -start % page
    last = max(first, (start + place.size) // page * page - start)
    if (start - offset) % page or first == last or content.size != place.size:
        return slice(0, 0)
    map_pages(start + first, last - first, file, offset + first)
    # they are mapped twice, and would be counted twice
    dropped = ctypes.c_void_p(address(content) + first)
    libc().madvise(dropped, ctypes.c_size_t(last - first), mmap.MADV_DONTNEED)
    return slice(first, last)


def map_pages(start: int, size: int, file: int, offset: int) -> None:
    """Let bytes of an open file lie in the place of whole pages of memory, for reading: threads
    that read there see what was there, or them.

    Args:
        start, offset: multiples of the page size.

    Raises:
        DeviceError: the system refuses it.
    """
    libc().mmap.restype = ctypes.c_void_p
    flags = mmap.MAP_PRIVATE | mmap.MAP_POPULATE | _MAP_FIXED
    where, length, begin = ctypes.c_void_p(start), ctypes.c_size_t(size), ctypes.c_long(offset)
    if libc().mmap(where, length, mmap.PROT_READ, flags, file, begin) != start:
        raise DeviceError(
            f"weights of the model: the system refuses to map {size} bytes of its file "
            f"({os.strerror(ctypes.get_errno())}); load it with more address space (ulimit -v)"
        )


class _HeapState(ctypes.Structure):
    """glibc's struct mallinfo2."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks"),
            *("uordblks", "fordblks", "keepcost"),
        )
    )


def give_back_freed() -> None:
    """Give back to the system what is free in the heap, where that is much: glibc keeps what was
    freed between others, and weights of models are.
    """
    if _heap_state().fordblks >= _MUCH:
        libc().malloc_trim(ctypes.c_size_t(0))


def heap_in_use() -> int:
    """Bytes of glibc's heap that somebody has; 0 with another library."""
    return int(_heap_state().uordblks)


def _heap_state() -> _HeapState:
    """Zeros with another library than glibc."""
    if not hasattr(libc(), "mallinfo2"):
        return _HeapState()
    libc().mallinfo2.restype = _HeapState
    found: _HeapState = libc().mallinfo2()
    return found


def sealed(array: np.ndarray) -> np.ndarray:
    """An `arena` to which nobody can write from now on, by this array or otherwise.

    Raises:
        DeviceError: the system refuses to protect it.
    """
    what = "weights of the model: the system refuses to protect them"
    remedy = "load it with more maps of memory (sysctl vm.max_map_count)"
    set_protection(address(array), array.size, mmap.PROT_READ, what, remedy)
    return np.frombuffer(array.data.toreadonly(), np.uint8)


def set_protection(start: int, size: int, protection: int, what: str, remedy: str) -> None:
    """What may be done with whole pages of memory: PROT_READ and the like.

    Args:
        start, size: an address, and bytes from there on; of none nothing is done.
        what, remedy: said where the system refuses it, with its reason between.

    Raises:
        DeviceError: the system refuses it.
    """
    if size and libc().mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size), protection):
        raise DeviceError(f"{what} ({os.strerror(ctypes.get_errno())}); {remedy}")


@contextmanager
def room_for(what: str) -> Iterator[None]:
    """Memory, address space and threads that the system refuses inside are a DeviceError."""
    try:
        yield
    except (MemoryError, OSError, RuntimeError) as error:
        if (found := refusal(what, error)) is not None:
            raise found from None
        raise


def refusal(what: str, error: Exception) -> DeviceError | None:
    """What the user is told of an error, if the system has refused a resource; else None.

    Python says MemoryError, OSError or RuntimeError, as the place where it ran out will have it.
    """
    if isinstance(error, MemoryError):
        thing, limits = "memory or address space", "ulimit -v"
    elif isinstance(error, OSError) and error.errno in (errno.ENOMEM, errno.EAGAIN):
        thing, limits = "memory or another process", "ulimit -v, ulimit -u, those of a container"
    elif isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        thing, limits = "another thread", "ulimit -u, ulimit -v, those of a container"
    else:
        return None
    return DeviceError(
        f"{what}: the system refuses {thing}; free some, or raise the limits of this process "
        f"({limits})"
    )


def address_space_limit() -> int | None:
    """Bytes of address space that this process and those it starts may have; None: any number."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def address_space_left() -> int | None:
    """Bytes of address space that a limit leaves to this process; None: there is no limit."""
    limit = address_space_limit()
    if limit is None:
        return None
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:  # a system that does not say
        pages = 0
    return max(0, limit - pages * resource.getpagesize())


def too_little_space(what: str) -> DeviceError:
    """What the user is told when a process that compiles has most likely met the limit."""
    limit = (address_space_limit() or 0) >> 20
    return DeviceError(
        f"{what}; the address space of a process is limited to {limit} MB, which is likely too "
        "little to compile the model: raise the limit (ulimit -v), or compile on another machine"
    )


def require(size: int, what: str) -> None:
    """Refuse what this machine cannot hold, before any of it is reserved.

    Raises:
        DeviceError: `size` bytes are more than this machine has.
    """
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if size > physical:
        raise _too_much(size, what, f"this machine has {physical}")


def _too_much(size: int, what: str, reason: str) -> DeviceError:
    limit, remedy = address_space_limit(), "use a machine with more memory or a smaller model"
    if limit is not None and size < limit:
        remedy = f"raise the limit of the address space (ulimit -v), now {limit >> 20} MB"
    return DeviceError(f"{what}: {size} bytes of memory are needed ({reason}); {remedy}")


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised array whose first byte is 64-byte aligned."""
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + ALIGNMENT, np.uint8)
    skip = -raw.__array_interface__["data"][0] % ALIGNMENT
    return raw[skip : skip + size].view(dtype).reshape(shape)


class Results:
    """Makes new 64-byte aligned arrays of one shape and dtype, faster than `aligned_empty`."""

    # ctypes zeroes its blocks: a quarter of numpy's time up to here, far more beyond.
    _ZEROED = 16 << 10

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self._shape, self._dtype = shape, dtype
        self._bytes = math.prod(shape) * dtype.itemsize
        self._block = ctypes.c_char * (self._bytes + ALIGNMENT)

    def new(self) -> tuple[np.ndarray, int]:
        """An array that keeps its own memory, and the address of its first byte.

        Raises:
            DeviceError: there is no memory for it.
        """
        block: Any
        try:
            if self._bytes <= self._ZEROED:
                block = self._block()
                start = ctypes.addressof(block)
            else:
                block = np.empty(self._bytes + ALIGNMENT, np.uint8)
                start = address(block)
        except MemoryError:
            raise DeviceError(
                f"call: no memory for a result of {self._bytes} bytes; free some memory"
            ) from None
        skip = -start % ALIGNMENT
        return np.ndarray(self._shape, self._dtype, block, skip), start + skip


def address(array: np.ndarray) -> int:
    """Address of the first element of a C-contiguous array."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]  # 0.4 us
    except (TypeError, ValueError):  # read-only, empty, or of a type without a buffer format
        return int(array.__array_interface__["data"][0])  # 3 us
