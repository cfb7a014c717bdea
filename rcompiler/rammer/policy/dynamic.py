"""A work queue: one launch, whose EUs take the next entry whenever they are free.

What static schedules are held against: entries balance EUs that rTasks of uncertain times keep
apart, for the price of taking them, of waits that an EU's own order would have saved, and of not
knowing where an operand was made. Operators come in the order of list scheduling, with the same
choice of rKernels.
"""

from rcompiler.device.model import Costs
from rcompiler.rammer.graph import Graph
from rcompiler.rammer.policy.listing import schedule_listing
from rcompiler.rammer.policy.taken import TakenDraft
from rcompiler.rammer.program import Program


def schedule_dynamic(
    graph: Graph, eus: int, costs: Costs, *, kernels: str = "select", name: str = "main"
) -> list[Program]:
    """One dynamic program of all operators, by estimate the shortest of a few orders."""
    return schedule_listing(TakenDraft, graph, eus, costs, kernels, name)
