"""Executes the programs of an S4 module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy_linalg.elements import tensor_dtype
from numpy_linalg.kernel import Kernel
from torch_mlir import ir

from numpy_schedule.memory import Memory, Tensor
from numpy_schedule.order import rtasks
from rcompiler.passes.ir.operators import kernels_by_name
from rcompiler.passes.schedule.tables import Tables, read_tables, write_constants
from rcompiler.rammer import kernel as rammer
from rcompiler.rammer.program import Program, Run
from rcompiler.rammer.states import updates

Box = tuple[slice, ...]


@dataclass(frozen=True)
class Results:
    """outputs: of the model, and behind them counts and checks. tasks: how many rTasks have run
    that are tiled bodies. whole: the operators whose rTasks are still parts of a body of the whole
    operator.
    """

    outputs: list[np.ndarray]
    tasks: int
    whole: frozenset[str]


def program_results(
    module: ir.Module,
    inputs: Sequence[np.ndarray],
    constants: Mapping[str, np.ndarray] | None = None,
    seed: int = 0,
) -> Results:
    """What a model computes, rTask by rTask.

    Args:
        module: of stage S4.
        inputs: of the model, in the types of storage.
        constants: the arrays of dense_resource by key.
        seed: decides what may be in any order.

    Raises:
        IndexError, ValueError: a body takes or writes elements that are not there, or EUs wait for
            what never comes.
        NotImplementedError: an op that is not known here.
    """
    execution = _Execution(module, inputs, constants or {}, np.random.default_rng(seed))
    for program in execution.tables.programs:
        execution.launch(program)
    return execution.results()


@dataclass
class _Whole:
    """The last results of a body of the whole operator, and of which operands."""

    operands: list[np.ndarray]
    results: list[np.ndarray]


@dataclass
class _Execution:
    """The state of one call."""

    module: ir.Module
    inputs: Sequence[np.ndarray]
    constants: Mapping[str, np.ndarray]
    rng: np.random.Generator
    tasks: int = 0
    whole: dict[tuple[str, tuple[str, ...]], _Whole] = field(default_factory=dict)
    operators: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.tables: Tables = read_tables(self.module.operation)
        self.memory = Memory(self.tables.programs, self.inputs)
        if len(self.memory.constants):
            write_constants(self.module.operation, self.constants, self.memory.constants)
        found = kernels_by_name(self.module.operation)
        self.bodies = {n: Kernel(op, self.constants, self.rng) for n, op in found.items()}

    def launch(self, program: Program) -> None:
        for eu, run, number in rtasks(program, self.rng):
            self._task(program, eu, run, number)

    def results(self) -> Results:
        tables, over = self.tables, updates(self.tables.programs)
        told = (*tables.outputs, *tables.counts, *tables.checks)
        types = [ir.RankedTensorType(t) for t in _result_types(self.module)]
        tensors = [Tensor(tuple(t.shape), tensor_dtype(t)) for t in types]
        outputs = [self.memory.output(k, over.get(k, -1), tensors[k]) for k in range(len(told))]
        return Results(outputs, self.tasks, frozenset(self.operators))

    def _task(self, program: Program, eu: int, run: Run, number: int) -> None:
        """One rTask, on the bytes as they are when it begins."""
        body, kernel = self.bodies[run.kernel], self.tables.kernels[run.kernel]
        if kernel.asks:
            return
        types = [ir.RankedTensorType(t) for t in (*body.operands, *body.results)]
        tensors = [Tensor(tuple(t.shape), tensor_dtype(t)) for t in types]
        places = [
            self.memory.view(program.buffer[name], tensor, eu)
            for name, tensor in zip(run.buffers, tensors, strict=True)
        ]
        operands, results = places[: len(body.operands)], places[len(body.operands) :]
        if body.is_task:
            self.tasks += 1
            for place, made in zip(results, body.task(operands, results, number), strict=True):
                place[...] = made
            return
        self.operators.add(run.operator)
        boxes = [_box(kernel.grid, access, number) for access in kernel.reads]
        made_whole = self._whole(run, body, operands, boxes)
        for place, made, access in zip(results, made_whole, kernel.writes, strict=True):
            box = _box(kernel.grid, access, number)
            place[box] = made[box]

    def _whole(
        self, run: Run, body: Kernel, operands: list[np.ndarray], boxes: list[Box]
    ) -> list[np.ndarray]:
        """The results of the whole operator; made anew where what a task reads has changed since.

        boxes: of the operands, what the task says that it reads.
        """
        last = self.whole.get((run.kernel, run.buffers))
        if last is None or not all(map(_same_bytes, last.operands, operands, boxes)):
            kept = [each.copy() for each in operands]
            last = self.whole[run.kernel, run.buffers] = _Whole(kept, body.whole(kept))
        return last.results


def _same_bytes(a: np.ndarray, b: np.ndarray, box: Box) -> bool:
    return a[box].tobytes() == b[box].tobytes()


def _box(grid: Sequence[int], access: rammer.Access, task: int) -> Box:
    """The elements of a tensor that a task touches."""
    at = np.unravel_index(task, tuple(grid)) if grid else ()
    found = []
    for dim, size in zip(access.dims, access.shape, strict=True):
        start = 0 if dim.axis == rammer.WHOLE else dim.scale * int(at[dim.axis]) + dim.offset
        end = size if dim.axis == rammer.WHOLE else start + dim.extent
        found.append(slice(max(0, start), max(0, min(size, end))))
    return tuple(found)


def _result_types(module: ir.Module) -> list[ir.Type]:
    """The types of the results of @main, counts and checks among them."""
    main = ir.SymbolTable(module.operation)["main"].operation
    return [
        ir.TypeAttr(ir.DictAttr(entry)["type"]).value for entry in main.attributes["rtask.outputs"]
    ]
