"""Why a tiling won: what bounds its rTasks, how it is aligned, and which one came second."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rcompiler.device.model import Device
from rcompiler.roller.cost import TaskCosts, peak_ns
from rcompiler.roller.expr import TensorExpr
from rcompiler.roller.matrix_unit import UnitProduct
from rcompiler.roller.register import RegisterModel, RegisterTile
from rcompiler.roller.rtile import shape_waste
from rcompiler.roller.unit_cost import cover_of, work_of_tasks


@dataclass(frozen=True)
class Alignment:
    """The four alignments of an rTile (Roller §3.1) on one execution unit.

    `lanes`: share of the vector lanes along the vector axis that hold elements. `accumulators`, and
    how many are `hiding` the latency of a multiply-add. `row_bytes`: of an rTask's result along the
    vector axis, and the `line` it should be a multiple of. `rows_per_set`: rows of one register
    tile in the fullest set of the first level, which has so many `ways`. `waste`: points of whole
    register tiles beyond the axes, per point inside; they are not computed.
    """

    lanes: float
    accumulators: int
    hiding: int
    row_bytes: int
    line: int
    rows_per_set: int
    ways: int
    waste: float


@dataclass(frozen=True)
class RunnerUp:
    """The tiling that came second. `estimated_ns`: of one of its rTasks. `by`: what was compared,
    of which it has `ratio` times as much as the winner.
    """

    tile: tuple[int, ...]
    register_tile: tuple[int, ...]
    tasks: int
    estimated_ns: float
    by: str
    ratio: float


@dataclass(frozen=True)
class UnitShare:
    """What a matrix unit does for an rTask. `name`: of the unit; `rows`, `columns`: what the block
    multiplies at once, those included that are `padding`: their share of its multiply-adds.
    """

    name: str
    rows: int
    columns: int
    padding: float


@dataclass(frozen=True)
class Explanation:
    """Why a tiling was chosen.

    `limit`: the slowest part of an rTask, "compute" or the memory level that it waits for.
    `parts_ns`: how long each part of one rTask takes alone. `saturation`: the time of the rTasks at
    the execution unit's peak, as a share of the time that they take. `registers`: those the
    register tile takes, of so many; what it needs beyond these is spilled, which `note` says.
    `loads`: vector loads per multiply-add. `note`: what else there is to say. `unit`: the matrix
    unit that computes the sums; then `registers` are those of the sums of a thread, `loads` are
    elements from shared memory, and the peak is the unit's.
    """

    limit: str
    parts_ns: tuple[tuple[str, float], ...]
    saturation: float
    registers: tuple[int, int]
    loads: float
    alignment: Alignment
    runner_up: RunnerUp | None = None
    note: str = ""
    unit: UnitShare | None = None

    def plain(self) -> dict[str, Any]:
        """Dicts, numbers, text and tuples of integers; nothing for what there is not."""
        found = {**asdict(self), "parts_ns": dict(self.parts_ns)}
        return {key: value for key, value in found.items() if value not in (None, "")}


def explain(
    model: RegisterModel, register: RegisterTile, tile: Sequence[int], costs: TaskCosts, number: int
) -> Explanation:
    """What the cost model knows of the rTask `tile`, which has that number in `costs`."""
    expr, device = model.expr, model.device
    ns = max(float(costs.ns[number] * costs.tasks[number]), 1e-9)
    times = costs.times[:, number]
    found = Explanation(
        limit=costs.parts[int(costs.limit[number])],
        parts_ns=tuple((p, round(float(t), 1)) for p, t in zip(costs.parts, times, strict=True)),
        saturation=round(peak_ns(expr, device) / ns, 4),
        registers=(register.registers, device.vector_registers),
        loads=round(register.loads / register.macs, 3),
        alignment=_alignment(model, register, tile),
        note=f"{register.spills} registers are spilled" if register.spills else "",
    )
    return found if expr.unit is None else _on_unit(found, expr, expr.unit, device, tile)


def _on_unit(
    found: Explanation,
    expr: TensorExpr,
    unit: UnitProduct,
    device: Device,
    tile: Sequence[int],
) -> Explanation:
    """The explanation with the figures of the unit."""
    work, cover = work_of_tasks(expr, unit, tile), cover_of(expr, unit, tile)
    sums = math.ceil(cover.sums / unit.threads)
    waste = work.padded / max(work.useful, 1) - 1
    rows, columns = cover.covered
    return replace(
        found,
        registers=(sums, device.vector_registers),
        loads=round(work.shared / max(work.useful, 1), 3),
        alignment=replace(found.alignment, accumulators=sums, waste=round(waste, 4)),
        unit=UnitShare(unit.unit.name, rows, columns, round(waste / (1 + waste), 4)),
    )


def _alignment(model: RegisterModel, register: RegisterTile, tile: Sequence[int]) -> Alignment:
    expr, device, vector = model.expr, model.device, model.vector
    first = device.first_level
    sizes = [max(1, expr.axes[p].size) for p in expr.parallel]
    rows = [model.rows_per_set(access, register.sizes) for access in expr.inputs]
    lanes, row = 1.0, expr.outputs[0].itemsize
    if vector.axis >= 0:
        size = max(1, expr.axes[vector.axis].size)
        lanes = size / (math.ceil(size / vector.lanes) * vector.lanes)
        along = dict(zip(expr.parallel, tile, strict=True)).get(vector.axis, size)
        row *= min(along, size)
    waste = math.prod(1 + shape_waste(s, r) for s, r in zip(sizes, register.sizes, strict=True)) - 1
    return Alignment(
        lanes=round(lanes, 4),
        accumulators=register.accumulators,
        hiding=device.compute.accumulators,
        row_bytes=row,
        line=first.line,
        rows_per_set=max(rows, default=0),
        ways=first.ways,
        waste=round(waste, 4),
    )
