"""RammerBase: one launch per operator, over all EUs. The baseline that every claim needs."""

from rcompiler.device.model import Costs
from rcompiler.rammer.graph import Graph
from rcompiler.rammer.layout import plain_layout
from rcompiler.rammer.policy.dependences import Dependences
from rcompiler.rammer.policy.draft import Draft
from rcompiler.rammer.policy.emit import emit
from rcompiler.rammer.policy.kernels import select_kernel
from rcompiler.rammer.program import Program
from rcompiler.rammer.waves import waves


def schedule_base(
    graph: Graph, eus: int, costs: Costs, *, kernels: str = "fast", name: str = "main"
) -> list[Program]:
    """Each operator is one program; its rTasks are split evenly over the EUs."""
    layout = plain_layout(graph)
    links = Dependences(graph)
    programs: list[Program] = []
    for wave in waves(graph):
        for op in wave:
            draft = Draft.empty(graph, eus, costs, links)
            draft.add(op, select_kernel(op, graph, eus, kernels))
            if draft.shares:
                programs.append(emit(draft, f"{name}_{len(programs)}", layout))
    return programs
