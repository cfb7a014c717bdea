"""The section of a file that is believed: machine code, and all that is true of it alone.

    0       content of the image
    ..      facts about it: JSON, keys sorted, without spaces
    end-8   bytes of the facts, u64

Whoever changes machine code makes a process do anything. So does who changes where its functions
begin, which function of the C library lies behind an address slot, what it needs of a CPU, or which
bytes a kernel touches: no check can tell a wrong fact of that kind from a right one. They lie
together in one section, so that all other bytes of a file are data that can be checked.
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rcompiler.runtime.cpu_needs import Needs
from rcompiler.runtime.gpu.image import GpuImage
from rcompiler.runtime.image import Image
from rcompiler.runtime.program import KernelEntry
from rcompiler.runtime.untrusted import integer, integers, string, strings

_SIZE = struct.Struct("<Q")


@dataclass(frozen=True)
class Code:
    """What one section holds; the attributes are those of `Artifact`.

    boxes: of each kernel the boxes that its tasks touch, as `artifact_notes.describe` notes them,
    or None.
    """

    image: Image | GpuImage
    kernels: tuple[KernelEntry, ...]
    target: str
    cpu_flags: tuple[str, ...]
    boxes: Any = None

    def packed(self) -> np.ndarray:
        """uint8[bytes]."""
        facts = {
            "image": self.image.header(),
            "kernels": [
                [k.name, k.tasks, list(k.operand_bytes), k.outputs, k.workspace]
                + [list(k.pinned)] * bool(k.pinned)
                for k in self.kernels
            ],
            "target": self.target,
            "cpu_flags": list(self.cpu_flags),
            **({} if self.boxes is None else {"boxes": self.boxes}),
        }
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
        return np.frombuffer(self.image.content + text + _SIZE.pack(len(text)), np.uint8)


def unpacked(section: np.ndarray) -> Code:
    """From the bytes of a file; wrong ones raise what `container.decoded` catches."""
    facts, content = _parts(section)
    return Code(
        _image(facts["image"], content.tobytes()),
        tuple(_kernel(*entry) for entry in facts["kernels"]),
        string(facts["target"]),
        strings(facts["cpu_flags"]),
        facts.get("boxes"),
    )


def needs(section: np.ndarray) -> Needs:
    """What the code needs, of the bytes of a file; wrong ones raise as of `unpacked`."""
    facts, _ = _parts(section)
    return Needs(string(facts["target"]), strings(facts["cpu_flags"]))


def _parts(section: np.ndarray) -> tuple[Any, np.ndarray]:
    """The facts, and the content of the image."""
    end = section.size - _SIZE.size
    if end < 0:
        raise ValueError
    [size] = _SIZE.unpack(section[end:].tobytes())
    if size > end:
        raise ValueError
    return json.loads(section[end - size : end].tobytes()), section[: end - size]


def _image(entry: Any, content: bytes) -> Image | GpuImage:
    return (GpuImage if "chip" in entry else Image).decoded(entry, content)


def _kernel(
    name: Any, tasks: Any, sizes: Any, outputs: Any, workspace: Any, pinned: Sequence[Any] = ()
) -> KernelEntry:
    return KernelEntry(
        string(name),
        integer(tasks),
        integers(sizes),
        integer(outputs),
        integer(workspace),
        integers(pinned),
    )
