"""Wavefronts: operators in breadth-first levels (Rammer, Algorithm 1, line 2)."""

from graphlib import CycleError, TopologicalSorter

from rcompiler.errors import ScheduleError
from rcompiler.rammer.graph import Graph, Operator


def waves(graph: Graph) -> list[list[Operator]]:
    """Operators by level: a wave needs only values of earlier waves; graph order inside a wave.

    Raises ScheduleError when operators wait for each other in a circle.
    """
    place = {op.name: i for i, op in enumerate(graph.operators)}
    order = TopologicalSorter(graph.predecessors)
    try:
        order.prepare()
    except CycleError as error:
        stuck = min(error.args[1], key=place.__getitem__)
        raise ScheduleError(f"operator {stuck} needs, through others, its own result") from None
    levels: list[list[Operator]] = []
    while order.is_active():
        ready = sorted(order.get_ready(), key=place.__getitem__)
        levels.append([graph.operator[name] for name in ready])
        order.done(*ready)
    return levels
