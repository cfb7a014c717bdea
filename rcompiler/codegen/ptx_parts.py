"""PTX of one module in parts: each rKernel is compiled by itself, as it comes.

    with PtxParts("sm_90a") as parts:
        parts.add(0, llvm_ir(module))
        text = joined(parts.all())

Functions of a part are visible, so that another part may call them, until they are joined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rcompiler.codegen.emit import Emission
from rcompiler.codegen.gpu import without_target
from rcompiler.codegen.llvm_job import Job
from rcompiler.codegen.ptx import TRIPLE, features
from rcompiler.device.cgroups import usable_cpus
from rcompiler.errors import CompilerError

# One statement outside of functions each.
_SHARED = re.compile(r"^\.extern \.shared [^;]*;\n", re.MULTILINE)
_DECLARED = re.compile(
    r"^\.extern \.func (?:\([^)]*\) )?\s*([\w$]+)\s*\([^)]*\)\s*;\n", re.MULTILINE
)
_VISIBLE = re.compile(r"^\.visible (?=\.func)", re.MULTILINE)
_COMMENT = re.compile(r"^\s*//.*\n", re.MULTILINE)
_DEFINED = re.compile(
    r"^(?:\.\w+ )*\.(?:func|entry)\s+(?:\([^)]*\)\s*)?([\w$]+)|"
    r"^(?:\.\w+ )*\.(?:global|const|shared) (?:\.\w+ (?:\d+ )?)*([\w$]+)",
    re.MULTILINE,
)


class PtxParts:
    """Parts that are compiled as they come. A context manager, see `Emission`."""

    def __init__(self, chip: str) -> None:
        """chip: "sm_90a"."""
        self._chip = chip
        self._emission = Emission(usable_cpus())

    def __enter__(self) -> PtxParts:
        return self

    def __exit__(self, *_: object) -> None:
        self._emission.__exit__()

    def add(self, number: int, text: str) -> None:
        """Compile a module of LLVM IR. By one thread at a time."""
        text, chip = without_target(text), self._chip
        job = Job(text, chip, features(chip), optimize=True, assembly=True, triple=TRIPLE)
        self._emission.submit(number, job)

    def all(self) -> list[PtxPart]:
        """In the order of their numbers. Raises CompilerError if LLVM rejects a module, or ends
        its process.
        """
        found = self._emission.results()
        return [PtxPart.of(code.decode()) for _, code in sorted(found.items())]


@dataclass(frozen=True)
class PtxPart:
    """head: version and target; shared: declarations of dynamic shared memory; declared:
    functions that it calls, by name; body: what it defines.
    """

    head: str
    shared: str
    declared: dict[str, str]
    body: str

    @staticmethod
    def of(text: str) -> PtxPart:
        """From the text of a module."""
        text = _COMMENT.sub("", text)
        head, line, body = text.partition(".address_size 64\n")
        if not line:
            raise CompilerError("PTX: a module without .address_size 64 came out of LLVM")
        shared = "".join(_SHARED.findall(body))
        declared = {match[1]: match[0] for match in _DECLARED.finditer(body)}
        body = _DECLARED.sub("", _SHARED.sub("", body))
        return PtxPart(head.lstrip() + line, shared, declared, body)

    def defined(self) -> Iterator[str]:
        """The names of functions and variables."""
        for function, variable in _DEFINED.findall(self.body):
            yield function or variable


def combined(parts: Sequence[PtxPart]) -> PtxPart:
    """One part of several. Raises CompilerError where two define the same name."""
    names: set[str] = set()
    for part in parts:
        for name in part.defined():
            if name in names:
                raise CompilerError(
                    f"PTX: '{name}' is defined by two rKernels; this is a defect of the compiler, "
                    "report it with the model"
                )
            names.add(name)
    shared = next((part.shared for part in parts if part.shared), "")
    declared = {name: text for part in parts for name, text in part.declared.items()}
    left = {name: text for name, text in declared.items() if name not in names}
    return PtxPart(
        parts[0].head, shared, left, "\n".join(part.body.strip("\n") + "\n" for part in parts)
    )


def joined(parts: Sequence[PtxPart]) -> str:
    """The text of one module, where only kernels are visible; a part comes behind those that it
    calls.
    """
    whole = combined(parts)
    body = _VISIBLE.sub("", whole.body)
    return "\n".join([whole.head, whole.shared, *whole.declared.values(), body])
