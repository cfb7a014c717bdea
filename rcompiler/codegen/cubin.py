"""Parts of a PTX module -> machine code: parts are assembled apart, by two processes, and linked.

ptxas takes time by the square of the number of functions that a kernel calls, as it gives all of
them registers together (measured with 140 rKernels: 18 s, and 4 s for all of them apart). What it
finds together it also finds apart where a function need not keep its caller's registers
(`_PRESERVED`), so that the caller keeps what it needs in memory during a call. And wgmma is not
serialised in a function that is assembled apart, other than in one that is assembled with its
caller (C7510).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from rcompiler.codegen.cuda_tools import run_tool
from rcompiler.codegen.ptx import PtxModule
from rcompiler.codegen.ptx_parts import PtxPart, combined, joined
from rcompiler.codegen.ptxas import Cubin, assemble
from rcompiler.codegen.toolkit import Toolkit, needed_toolkit
from rcompiler.device.cgroups import usable_cpus
from rcompiler.errors import AssemblyError
from rcompiler.support.scratch import scratch_folder

_TIMEOUT_S = 300.0
_BATCH_LINES = 8000  # to assemble in 0.5 s or so; a process takes 0.05 s
# Registers of its caller that a function leaves as they are (PTX ISA 9.0, "Performance-Tuning
# Directives"): two hold the return address. With 3 no rKernel of ResNet-50, BERT, NASNet, DenseNet
# or Inception v1 in f32 for sm_90a spills; with 2, 4 and 8 some do. Where a function needs all 255
# for itself, no number helps: products bound what they need (`kernelgen.simt.product`).
_PRESERVED = "\t.abi_preserve 3"
_NEEDS_ISA, _NEEDS_PTXAS = ".version 9.0", (13, 0)
_VERSION = re.compile(r"^\.version .*$", re.MULTILINE)
_HEAD = re.compile(r"^(\.visible \.func [^{;]*?\))\s*\{", re.MULTILINE)
_REGISTERS = re.compile(r"used (\d+) registers")


def assemble_parts(
    chip: str, parts: Sequence[PtxPart], entry: str, toolkit: Toolkit | None = None
) -> Cubin:
    """parts: of one module; the last one has its kernel, `entry`, and calls the others. Equal parts
    give equal code. toolkit: by default the first installed one that has the architecture.

    Raises AssemblyError with what ptxas says, ToolError without ptxas or when it takes too long.
    """
    kit = toolkit or needed_toolkit(chip)
    if kit.nvlink is None or kit.release < _NEEDS_PTXAS:
        return assemble(PtxModule(chip, joined(parts).encode()), toolkit=kit)
    texts = [_relocatable(batch) for batch in [*_batches(parts[:-1]), parts[-1:]]]
    with ThreadPoolExecutor(usable_cpus()) as pool:
        # the last one takes longest
        asked = [pool.submit(_assembled, chip, text, kit) for text in reversed(texts)]
        objects = [one.result() for one in reversed(asked)]
    code, registers = _linked(chip, [one.code for one in objects], kit.nvlink)
    functions = [
        replace(f, registers=registers) if f.name == entry else f
        for one in objects
        for f in one.functions
    ]
    notes = [note for one in objects for note in one.notes]
    return Cubin(chip, code, tuple(functions), tuple(notes), kit.version)


def _batches(parts: Sequence[PtxPart]) -> Iterator[list[PtxPart]]:
    batch: list[PtxPart] = []
    lines = 0
    for part in parts:
        batch.append(part)
        lines += part.body.count("\n")
        if lines >= _BATCH_LINES:
            yield batch
            batch, lines = [], 0
    if batch:
        yield batch


def _relocatable(parts: Sequence[PtxPart]) -> str:
    whole = combined(parts)
    head = _VERSION.sub(_NEEDS_ISA, whole.head)
    declared = (text.replace(";", f"{_PRESERVED}\n;") for text in whole.declared.values())
    # another .func, such as the one that reports a wait without end, is of this text alone
    defined = _HEAD.sub(rf"\1\n{_PRESERVED}\n{{", whole.body)
    return "\n".join([head, whole.shared, *declared, defined])


def _assembled(chip: str, text: str, kit: Toolkit) -> Cubin:
    return assemble(PtxModule(chip, text.encode()), options=["--compile-only"], toolkit=kit)


def _linked(chip: str, objects: Sequence[bytes], nvlink: Path) -> tuple[bytes, int]:
    """The linked code, and the registers of a thread of its kernel."""
    with scratch_folder("rc-nvlink-") as folder:
        names = [f"part{number}.cubin" for number in range(len(objects))]
        for name, code in zip(names, objects, strict=True):
            Path(folder, name).write_bytes(code)
        target = Path(folder, "module.cubin")
        command = [str(nvlink), f"-arch={chip}", "-v", *names, "-o", str(target)]
        done = run_tool(command, _TIMEOUT_S, str(folder))
        said = done.stdout + done.stderr
        found = _REGISTERS.search(said)
        if done.returncode or found is None:
            raise AssemblyError(
                f"nvlink for {chip} ended with status {done.returncode} and said: "
                f"{said.strip()[:500]}"
            )
        return target.read_bytes(), int(found[1])
