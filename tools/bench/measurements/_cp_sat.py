"""The best schedule of a graph that CP-SAT finds: an oracle to hold the policies against."""

from dataclasses import dataclass

from rcompiler.device.model import Costs
from rcompiler.errors import CompilerError
from rcompiler.rammer.cost import task_ns
from rcompiler.rammer.graph import Graph

_UNIT = 100  # ns of one step of the solver's clock


@dataclass(frozen=True)
class Optimum:
    """ns: of the schedule found; bound_ns: no schedule is shorter; proved: the two are equal."""

    ns: float
    bound_ns: float
    proved: bool


def optimum(graph: Graph, eus: int, costs: Costs, seconds: float, hint_ns: float) -> Optimum:
    """Every rTask once on one of `eus` EUs, after all rTasks of the operators it reads and a
    hand-off. The first rKernel of each operator. hint_ns: a schedule of that length is known.

    Raises CompilerError without the package.
    """
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise CompilerError("CP-SAT needs the package ortools: pip install ortools") from error

    model = cp_model.CpModel()
    horizon = int(hint_ns // _UNIT) + 1
    hand_off = round(costs.hand_off_ns / _UNIT)
    intervals = []
    ends: dict[str, cp_model.LinearExprT] = {}
    for op in graph.operators:
        kernel = graph.kernel[op.kernels[0]]
        length = round(task_ns(kernel) / _UNIT)
        ready = [ends[p] for p in graph.predecessors[op.name]]
        starts = [model.new_int_var(0, horizon, "") for _ in range(kernel.tasks)]
        for one, two in zip(starts, starts[1:], strict=False):
            model.add(one <= two)  # equal rTasks: any order will do
        for end in ready:
            model.add(starts[0] >= end + hand_off)
        ends[op.name] = starts[-1] + length
        intervals += [model.new_fixed_size_interval_var(s, length, "") for s in starts]
    model.add_cumulative(intervals, [1] * len(intervals), eus)
    makespan = model.new_int_var(0, horizon, "")
    for end in ends.values():
        model.add(makespan >= end)
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 2
    solver.parameters.random_seed = 0
    status = solver.solve(model)
    bound = solver.best_objective_bound * _UNIT
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Optimum(hint_ns, bound, False)
    return Optimum(solver.objective_value * _UNIT, bound, status == cp_model.OPTIMAL)
