"""How urgent operators are: what a list scheduler sorts by. Times in nanoseconds."""

from collections.abc import Callable, Mapping

from rcompiler.rammer.graph import Graph, Operator
from rcompiler.rammer.waves import waves

Rank = Mapping[str, float]  # operator -> how urgent it is; a higher rank goes first


def bottom_ranks(graph: Graph, length: Callable[[Operator], float], hand_off: float) -> Rank:
    """The longest chain from the start of each operator to the end of the graph.

    length: of an operator on that chain; hand_off: between two of them.
    """
    followers = graph.followers
    found: dict[str, float] = {}
    for wave in reversed(waves(graph)):
        for op in wave:
            rest = max((found[f] + hand_off for f in followers[op.name]), default=0.0)
            found[op.name] = length(op) + rest
    return found


def wave_ranks(graph: Graph) -> Rank:
    """Earlier waves first; within a wave in graph order."""
    order = [op.name for wave in waves(graph) for op in wave]
    return {name: -float(number) for number, name in enumerate(order)}
