"""The persistent kernel of a GPU: each block is an execution unit and walks its instruction stream.

    gpu.func @veu(%control: !llvm.ptr<1>, %bases: !llvm.ptr<1>, %boxes: !llvm.ptr<1>, %epoch: i64)
        kernel

One cooperative launch runs all programs of a model (Rammer, OSDI'20 §4, with the waits inside of
the kernel that its published code does not have); programs without waits are launches of their own,
each with control words of its own (`rcompiler.runtime.gpu.launches`). The streams are those of
`rcompiler.rammer.encode` and lie in global memory; `control` are words as in
`rcompiler.runtime.gpu.control`.

What a block does is seen by the others as follows. Signals in a row are a barrier of the block, a
release fence and a relaxed addition for each by its first thread; a wait an acquiring load by the
first thread, with a barrier of the block before the next run. Between two runs of one block there
is a barrier, too, as the threads of the second read what others wrote in the first. Events, and
meetings of all blocks, count up for ever: the n-th signal of launch number e is number
(e - 1) * total + n, so nothing is cleared between inferences. What a vendor needs beside that:
`vendor`.

A wait that takes longer than the limit ends the kernel: the first block that gives up writes down
who waited for what and where every block was, and traps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rcompiler.kernelgen.simt.emitter import GLOBAL, SHARED, WHOLE
from rcompiler.kernelgen.simt.vendor import NVIDIA, Vendor
from rcompiler.kernelgen.simt.veu_text import (
    AWAIT_TEXT,
    KERNEL_TEXT,
    MAPS_TEXT,
    SIGNAL_TEXT,
    SIGNALS_TEXT,
)
from rcompiler.runtime.gpu import control as at
from rcompiler.runtime.gpu.tensor_maps import MAP_BYTES, TensorMapBox
from rcompiler.runtime.tables import BARRIER, END, REPEAT, RUN, SIGNAL, WAIT
from rcompiler.support.memory_notation import Memory

ENTRY = "veu"
SHARED_BYTES = "rcompiler.shared"  # attribute of the module: bytes of dynamic shared memory
BOXES = "rcompiler.boxes"  # attribute of the module: (kernel, words of a box) for each tensor map
_SHARED = "veu_shared"
# Of the device, seen by all its blocks.
_MEMORY = Memory(GLOBAL, 'syncscope("@@SCOPE") ', f" {WHOLE}")
_TYPES = f"({GLOBAL}, {GLOBAL}, {GLOBAL}, i64, i64, i64, {SHARED}, {GLOBAL})"


def program_text(
    kernels: Sequence[str],
    functions: Sequence[str],
    *,
    threads: int,
    shared: int,
    pinned: int = 0,
    boxes: Sequence[Sequence[TensorMapBox]] = (),
    vendor: Vendor = NVIDIA,
) -> str:
    """A gpu.module with the persistent kernel.

    kernels: names of the device functions, by number in the streams; functions: their texts, or
    declarations; threads: of a block; shared: bytes of dynamic shared memory of it, of which the
    first `pinned` stay from task to task; boxes: of each kernel, those whose tensor maps it needs;
    vendor: of the GPU.
    """
    given = "%pairs, %bases, %own_boxes, %first, %count, %stride, %workspace, %control"
    cases = "\n".join(
        f"      case {number} {{\n"
        f"        func.call @{name}({given})\n"
        f"          : {_TYPES} -> ()\n"
        "        scf.yield\n"
        "      }"
        for number, name in enumerate(kernels)
    )
    parts = {
        "AWAIT_EVENT": _filled(AWAIT_TEXT, {"EVENT": "%event"}),
        "AWAIT_ALL": _filled(AWAIT_TEXT, {"EVENT": "%nowhere"}),
        "SIGNAL_TEXT": SIGNAL_TEXT,
        "SIGNALS_TEXT": SIGNALS_TEXT,
        "MAPS_TEXT": MAPS_TEXT if any(boxes) else "",
        "CASES": cases,
        "PINNED": pinned,
        "THREADS": threads,
    }
    entry = written(KERNEL_TEXT, parts, vendor)
    return module_text([*functions, entry], shared, boxes)


def declaration(kernel: str) -> str:
    """Of the device function of an rKernel that is compiled elsewhere."""
    return f"func.func private @{kernel}{_TYPES}"


def module_text(
    functions: Sequence[str], shared: int, boxes: Sequence[Sequence[TensorMapBox]]
) -> str:
    """A gpu.module of functions; shared, boxes: as for `program_text`."""
    attributes = [f"{SHARED_BYTES} = {shared} : i64"]
    if any(boxes):
        rows = (f"array<i64: {k}, {', '.join(map(str, box.words()))}>"
                for k, own in enumerate(boxes) for box in own)  # fmt: skip
        attributes.append(f"{BOXES} = [{', '.join(rows)}]")
    memory = (
        f"llvm.mlir.global external @{_SHARED}() "
        "{addr_space = 3 : i32, alignment = 1024 : i64, dso_local} : !llvm.array<0 x i8>"
    )
    head = f"gpu.module @rcompiler attributes {{{', '.join(attributes)}}} {{"
    return "\n".join([head, memory, *functions, "}"])


def written(text: str, names: Mapping[str, object], vendor: Vendor = NVIDIA) -> str:
    """A text with names of its own, and all others, filled in: as `expanded`."""
    return expanded(_filled(_filled(text, names), _NUMBERS), vendor)


def expanded(text: str, vendor: Vendor = NVIDIA) -> str:
    """The notation of `veu_text` written out, with the vendor's texts."""
    return _filled(_MEMORY.expanded(text), vendor.names())


def _filled(text: str, names: Mapping[str, object]) -> str:
    """`text` with the names behind @@ replaced; others stay."""
    return re.sub(r"@@(\w+)", lambda m: str(names.get(m[1], m[0])), text)


_NUMBERS = {
    **{f"AT_{name}": getattr(at, name) for name in at.FIELDS},
    **{f"IN_{name}": getattr(at, "REPORT_" + name) for name in at.REPORT_FIELDS},
    "OP_RUN": RUN,
    "OP_WAIT": WAIT,
    "OP_SIGNAL": SIGNAL,
    "OP_BARRIER": BARRIER,
    "OP_REPEAT": REPEAT,
    "OP_END": END,
    "LINE": at.LINE,
    "ON_BOXES": at.ON_BOXES,
    "MAP_BYTES": MAP_BYTES,
}
