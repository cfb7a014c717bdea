"""Rammer: one static schedule of rTasks over all execution units of a device.

Pure Python and numpy. The data model is in `graph` (what is scheduled) and `program` (what a
schedule is); `policy` makes schedules, `plan_memory` gives values their bytes, `validate` proves a
schedule right before it may run, `simulate` times it, `encode` turns it into runtime tables. Tests
also run schedules in numpy on hostile memory: `test/oracles/interpret`.
"""

from rcompiler.rammer.graph import Graph, Operator, Value
from rcompiler.rammer.kernel import Access, DimAccess, Kernel
from rcompiler.rammer.program import (
    Barrier,
    Buffer,
    Instruction,
    Program,
    Run,
    Signal,
    Wait,
)

__all__ = [
    "Access",
    "Barrier",
    "Buffer",
    "DimAccess",
    "Graph",
    "Instruction",
    "Kernel",
    "Operator",
    "Program",
    "Run",
    "Signal",
    "Value",
    "Wait",
]
