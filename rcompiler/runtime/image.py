"""The code image: format and loader. One flat, position-independent block, already linked.

`codegen.link` resolves every reference inside the image when it is built, so loading needs only
numpy-free standard library: reserve memory, copy, fill in the addresses of the few C functions
that kernels call, change the protection. Fresh and saved models go through this same loader. That
is why no JIT engine (LLVM's ORC) is used: it would need LLVM at run time and be a second way in.

    offset 0           text: functions and the stubs of external functions      read, execute
    offset text        read-only data, then the address slots                   read
    offset text+rodata writable data, zeros up to `memory`                      read, write

No page is ever writable and executable at the same time.
"""

import ctypes
import mmap
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from rcompiler.errors import ArtifactError, DeviceError
from rcompiler.runtime.memory import set_protection
from rcompiler.runtime.untrusted import integer, string, strings

PAGE = 4096
# No model comes near this; it bounds what a damaged file can make the loader reserve.
MAX_IMAGE = 1 << 30

_MATH = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 "
    "fabs floor fma fmax fmin fmod hypot ldexp lgamma log log10 log1p log2 lrint nearbyint pow "
    "remainder rint round roundeven sin sinh sqrt tan tanh tgamma trunc"
).split()
# Which library provides what a kernel or the schedule interpreter may call. Nothing else is ever
# looked up, so the names in a file cannot reach the rest of the C library.
EXTERNALS: Mapping[str, str] = {
    **{name + suffix: "libm.so.6" for name in _MATH for suffix in ("", "f")},
    **dict.fromkeys(("memcpy", "memmove", "memset", "memcmp", "bcmp"), "libc.so.6"),
    **dict.fromkeys(("sched_getcpu", "sched_yield", "syscall", "clock_gettime"), "libc.so.6"),
    **dict.fromkeys(("__divti3", "__modti3", "__udivti3", "__umodti3"), "libgcc_s.so.1"),
    **dict.fromkeys(("__powisf2", "__powidf2"), "libgcc_s.so.1"),
}
_REFUSED = (
    "code image: the system refuses executable memory",
    "allow it for this process: SELinux (execmem) or a filter of system calls (seccomp, as of "
    "systemd's MemoryDenyWriteExecute= or a container) is in the way",
)
_SYMBOL = re.compile(r"[A-Za-z_.$][\w.$]{0,255}")


@dataclass(frozen=True)
class Image:
    """A linked code image.

    Attributes:
        content: bytes of the image up to the end of the initialised data.
        text, rodata: bytes of the two protected parts, multiples of the page size.
        memory: bytes to reserve, >= len(content); what lies beyond `content` is zero.
        symbols: name -> offset of every global function and datum.
        slots: offset of the table of addresses (8 bytes each), inside the read-only part.
        externals: the function whose address belongs into slot i.
        relatives: (place, target) offsets: the loader stores the address of target at place.
    """

    content: bytes
    text: int
    rodata: int
    memory: int
    symbols: Mapping[str, int]
    slots: int
    externals: tuple[str, ...]
    relatives: tuple[tuple[int, int], ...]

    INPUT_ALIGNMENT: ClassVar[int] = 1  # bytes that operands in inputs are a multiple of from there
    pinned: ClassVar[int] = 0  # bytes that EUs keep in memory of their own: cores have none

    def header(self) -> dict[str, object]:
        """All but the content, as JSON data."""
        return {
            "text": self.text,
            "rodata": self.rodata,
            "memory": self.memory,
            "symbols": dict(self.symbols),
            "slots": self.slots,
            "externals": list(self.externals),
            "relatives": [list(pair) for pair in self.relatives],
        }

    @staticmethod
    def decoded(entry: Any, content: bytes) -> "Image":
        """From untrusted JSON data; wrong types raise what `container.decoded` catches."""
        return Image(
            content=content,
            text=integer(entry["text"]),
            rodata=integer(entry["rodata"]),
            memory=integer(entry["memory"]),
            symbols={string(name): integer(at) for name, at in entry["symbols"].items()},
            slots=integer(entry["slots"]),
            externals=strings(entry["externals"]),
            relatives=tuple((integer(a), integer(b)) for a, b in entry["relatives"]),
        )

    def provides(self, kernel: str) -> bool:
        """Whether it has the code of this rKernel."""
        return 0 <= self.symbols.get(kernel, -1) < self.text

    def check(self) -> None:
        """Refuse an image whose parts do not fit together.

        Raises:
            ArtifactError: naming the first contradiction.
        """
        data = self.text + self.rodata
        rules = {
            f"more than {MAX_IMAGE} bytes": len(self.content) <= self.memory <= MAX_IMAGE,
            "parts that are no whole pages": self.text % PAGE == self.rodata % PAGE == 0,
            "parts that overlap": 0 <= self.text <= data <= len(self.content),
            "address slots outside the read-only part": self.slots % 8 == 0
            and self.text <= self.slots <= data - 8 * len(self.externals),
            "symbols outside of it": all(0 <= at < self.memory for at in self.symbols.values()),
            "malformed symbol names": all(_SYMBOL.fullmatch(name) for name in self.symbols),
            "relocations outside of it": all(
                0 <= place <= len(self.content) - 8 and 0 <= target <= self.memory
                for place, target in self.relatives
            ),
        }
        for what, holds in rules.items():
            if not holds:
                raise ArtifactError(f"code image: it has {what}; compile the model again")
        for name in self.externals:
            if name not in EXTERNALS:
                raise ArtifactError(
                    f"code image: it wants the external function '{name}', which compiled code may "
                    "not call; compile the model again"
                )


class LoadedImage:
    """An image in executable memory. The memory lives as long as this object."""

    def __init__(self, image: Image) -> None:
        """Map, fill and protect.

        Raises:
            ArtifactError: the image is inconsistent.
            DeviceError: a function is missing on this system, or executable memory is refused.
        """
        image.check()
        size = -(-image.memory // PAGE) * PAGE
        addresses = [_external(name) for name in image.externals]
        try:
            # Private: a forked child must not write into the data of its parent.
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            self._memory = mmap.mmap(-1, size, flags, mmap.PROT_READ | mmap.PROT_WRITE)
        except OSError as error:
            raise DeviceError(
                f"code image: no memory for {size} bytes ({error.strerror}); free some memory"
            ) from None
        self._memory[: len(image.content)] = image.content
        self._anchor = ctypes.c_char.from_buffer(self._memory)
        self.base = ctypes.addressof(self._anchor)
        struct.pack_into(f"<{len(addresses)}Q", self._memory, image.slots, *addresses)
        for place, target in image.relatives:
            struct.pack_into("<Q", self._memory, place, self.base + target)
        set_protection(self.base, image.text, mmap.PROT_READ | mmap.PROT_EXEC, *_REFUSED)
        set_protection(self.base + image.text, image.rodata, mmap.PROT_READ, *_REFUSED)
        self._image = image

    def function(self, name: str) -> int:
        """Address of a function of the image.

        Raises:
            ArtifactError: the image has no function of this name.
        """
        offset = self._image.symbols.get(name)
        if offset is None or offset >= self._image.text:
            raise ArtifactError(f"code image: it has no function '{name}'; compile the model again")
        return self.base + offset


@cache
def _external(name: str) -> int:
    """The address of a function of a library of the system."""
    library = EXTERNALS[name]
    try:
        address = ctypes.cast(getattr(ctypes.CDLL(library), name), ctypes.c_void_p).value
    except (OSError, AttributeError):
        address = None
    if not address:
        raise DeviceError(
            f"code image: the function '{name}' of {library} is missing on this system; "
            "install that library or compile the model for a newer instruction set"
        )
    return address
