"""List scheduling by critical path: one launch, operators in the order of what hangs on them.

Beyond the paper: which EU runs what, and when it waits for whom, is decided for all operators at
once, and not wave by wave.
"""

from rcompiler.device.model import Costs
from rcompiler.rammer.graph import Graph
from rcompiler.rammer.policy.draft import Draft
from rcompiler.rammer.policy.listing import schedule_listing
from rcompiler.rammer.program import Program


def schedule_list(
    graph: Graph, eus: int, costs: Costs, *, kernels: str = "select", name: str = "main"
) -> list[Program]:
    """One program of all operators, by estimate the shortest of a few orders."""
    return schedule_listing(Draft, graph, eus, costs, kernels, name)
