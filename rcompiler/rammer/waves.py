"""Wavefronts: operators in breadth-first levels (Rammer, Algorithm 1, line 2)."""

from rcompiler.errors import ScheduleError
from rcompiler.rammer.graph import Graph, Operator


def waves(graph: Graph) -> list[list[Operator]]:
    """The operators by breadth-first level (Rammer, OSDI'20, Algorithm 1, line 2).

    Args:
        graph: whose operators they are.

    Returns:
        Waves: each needs only values of earlier ones, and has its operators in the order of the
            graph.

    Raises:
        ScheduleError: operators wait for each other in a circle.
    """
    missing = {op.name: len(graph.predecessors[op.name]) for op in graph.operators}
    followers = graph.followers
    place = {op.name: i for i, op in enumerate(graph.operators)}
    fringe = [op.name for op in graph.operators if not missing[op.name]]
    levels: list[list[Operator]] = []
    done = 0
    while fringe:
        levels.append([graph.operator[name] for name in fringe])
        done += len(fringe)
        ready = []
        for name in fringe:
            for after in followers[name]:
                missing[after] -= 1
                if not missing[after]:
                    ready.append(after)
        fringe = sorted(ready, key=place.__getitem__)
    if done < len(graph.operators):
        stuck = next(op.name for op in graph.operators if missing[op.name])
        raise ScheduleError(f"operator {stuck} needs, through others, its own result")
    return levels
