"""The proof of an S4 module, whoever wrote it."""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.passes.schedule.tables import Tables, read_tables
from rcompiler.rammer.validate import validate


def proved_tables(module: ir.Operation) -> Tables:
    """The schedule of a module as data, when it is proved that it may run.

    What the rKernels say of their rTasks is believed here; `tiling.claims` checks it. Raises
    InvalidModel for a module that is not S4, ScheduleError for a schedule that is not right.
    """
    tables = read_tables(module)
    inputs, outputs = tables.sizes()
    validate(
        tables.programs,
        kernels=[*tables.kernels.values()],
        max_eus=tables.eus,
        inputs=inputs,
        outputs=outputs,
    )
    return tables
