"""The code of a model for a GPU: assembly, and machine code where it was made ahead of time."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rcompiler.errors import ArtifactError, DeviceError
from rcompiler.runtime.gpu.tensor_maps import TensorMapBox
from rcompiler.runtime.untrusted import integer, string

ALIGNMENT = 16  # bytes: the longest single access of a kernel
MAX_IMAGE = 1 << 28  # bytes
MAX_THREADS = 1024  # of a block
MAX_SHARED = 1 << 20  # bytes; a block of any known GPU has less
MAX_BOXES = 1 << 16
_CHIP = re.compile(r"sm_\d{2,3}a?|gfx9[0-9a-f]{2}")
_ENTRY = re.compile(r"[A-Za-z_]\w{0,255}")


@dataclass(frozen=True)
class GpuImage:
    """Code for one kind of GPU.

    Attributes:
        ptx: text that any driver of a GPU of this kind compiles; for AMD, AMDGCN assembly.
        cubin: the same as machine code of `chip`, or nothing; for AMD, an object that lld links.
        chip: "sm_90a" or "gfx942": what the code may use.
        entry: name of the persistent kernel.
        threads: of a block.
        shared: bytes of dynamic shared memory of a block; pinned: so many of the first of them it
            keeps from rTask to rTask.
        boxes: by the numbers of kernels in the streams, those whose tensor maps they need.
    """

    ptx: bytes
    cubin: bytes
    chip: str
    entry: str
    threads: int
    shared: int
    boxes: dict[int, tuple[TensorMapBox, ...]] = field(default_factory=dict)
    pinned: int = 0

    INPUT_ALIGNMENT: ClassVar[int] = ALIGNMENT

    @property
    def content(self) -> bytes:
        """Text, then machine code."""
        return self.ptx + self.cubin

    def header(self) -> dict[str, object]:
        """All but the content, as JSON data."""
        return {
            "chip": self.chip,
            "entry": self.entry,
            "ptx": len(self.ptx),
            "threads": self.threads,
            "shared": self.shared,
            "boxes": [[k, *box.words()] for k, own in self.boxes.items() for box in own],
            **({"pinned": self.pinned} if self.pinned else {}),
        }

    @staticmethod
    def decoded(entry: Any, content: bytes) -> "GpuImage":
        """From untrusted JSON data; wrong types raise what `container.decoded` catches."""
        size = integer(entry["ptx"])
        if not 0 <= size <= len(content):
            raise ValueError
        return GpuImage(
            ptx=content[:size],
            cubin=content[size:],
            chip=string(entry["chip"]),
            entry=string(entry["entry"]),
            threads=integer(entry["threads"]),
            shared=integer(entry["shared"]),
            boxes=boxes_of(entry["boxes"]),
            pinned=integer(entry.get("pinned", 0)),
        )

    def provides(self, kernel: str) -> bool:
        """Whether it has the code of this rKernel: the entry has that of all of them."""
        return True

    def check(self) -> None:
        """Refuse impossible facts.

        Raises:
            ArtifactError: naming the first of them.
        """
        rules = {
            f"more than {MAX_IMAGE} bytes": len(self.ptx) + len(self.cubin) <= MAX_IMAGE,
            "no code": bool(self.ptx),
            f"the unknown chip '{self.chip}'": _CHIP.fullmatch(self.chip),
            "an entry that is no name": _ENTRY.fullmatch(self.entry),
            f"blocks of {self.threads} threads": 1 <= self.threads <= MAX_THREADS,
            f"{self.shared} bytes of shared memory": 0 <= self.shared <= MAX_SHARED,
            f"{self.pinned} pinned bytes in its shared memory": 0 <= self.pinned <= self.shared,
            "too many tensor maps": sum(map(len, self.boxes.values())) <= MAX_BOXES,
        }
        for what, holds in rules.items():
            if not holds:
                raise ArtifactError(f"GPU code: it has {what}; compile the model again")

    def check_boxes(self, operands: Sequence[int]) -> None:
        """Refuse tensor maps of operands that kernels do not have; operands: of each kernel.

        Raises:
            ArtifactError: naming the kernel.
        """
        for kernel, own in self.boxes.items():
            known = operands[kernel] if 0 <= kernel < len(operands) else 0
            if any(box.argument >= known for box in own):
                raise ArtifactError(
                    f"GPU code: kernel {kernel} has a tensor map of an operand that it does not "
                    "have; compile the model again"
                )

    @property
    def language(self) -> str:
        """Of the text: "ptx" or "amdgcn"."""
        return "amdgcn" if self.chip.startswith("gfx") else "ptx"

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability: (9, 0) for sm_90a.

        Raises:
            DeviceError: it is for AMD GPUs, which have none, and which nothing here runs.
        """
        if self.language != "ptx":
            raise DeviceError(
                f"the model is compiled for {self.chip}; this build runs NVIDIA GPUs and CPUs only"
            )
        digits = self.chip.removeprefix("sm_").removesuffix("a")
        return int(digits[:-1]), int(digits[-1])

    @property
    def exact(self) -> bool:
        """Whether it runs on this capability only, not on later ones."""
        return self.language == "amdgcn" or self.chip.endswith("a")


def boxes_of(rows: Iterable[Any]) -> dict[int, tuple[TensorMapBox, ...]]:
    """Boxes by the numbers of kernels, from rows of numbers: of the kernel, and of the box.

    Raises ValueError or what `untrusted.integer` raises for other rows.
    """
    found: dict[int, tuple[TensorMapBox, ...]] = {}
    for row in rows:
        kernel, *words = (integer(word) for word in row)
        found[kernel] = (*found.get(kernel, ()), TensorMapBox.of(words))
    return found
