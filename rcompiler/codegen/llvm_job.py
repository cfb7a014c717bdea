"""What LLVM is asked."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property

TRIPLE = "x86_64-unknown-linux-gnu"
LOOPS = "optimised-loops"  # attribute of functions that get vectors of LLVM, see `llvm_worker`
HOST_CPU = b""  # asks for what LLVM says of the CPU of this machine
_OPTIMISED = 4  # times as long (measured: 4.8 million characters for a GPU in 8 s)


@dataclass(frozen=True)
class Job:
    """One module to compile: LLVM IR text, LLVM's names of CPU and features, run O2 (for GPUs: O3)
    or not.
    """

    text: str
    cpu: str
    features: str
    optimize: bool
    assembly: bool = False  # the answer is assembly text instead of an object
    triple: str = TRIPLE

    @property
    def weight(self) -> int:
        """Characters that take as long without being optimised."""
        return len(self.text) * (_OPTIMISED if self.optimised else 1)

    @property
    def optimised(self) -> bool:
        """Whether the job, or a function of the module, asks for the mid-end."""
        return self.optimize or f'"{LOOPS}"' in self.text

    @cached_property
    def digest(self) -> str:
        """Of all that decides the code in this process, where there is one LLVM."""
        rest = json.dumps([self.cpu, self.features, self.optimize, self.assembly, self.triple])
        return hashlib.sha256(f"{rest}\n{self.text}".encode()).hexdigest()
