"""RammerBase: one launch per operator, over all EUs. The baseline that every claim needs."""

from rcompiler.device.model import Costs
from rcompiler.rammer.graph import Graph, waves
from rcompiler.rammer.layout import plain_layout
from rcompiler.rammer.policy.dependences import Dependences
from rcompiler.rammer.policy.draft import emit
from rcompiler.rammer.policy.wave import fresh, wave_kernels
from rcompiler.rammer.program import Program


def schedule_base(
    graph: Graph, eus: int, costs: Costs, *, kernels: str = "fast", name: str = "main"
) -> list[Program]:
    """Each operator is one program; its rTasks are split evenly over the EUs.

    kernels: "fast" is right for operators by themselves. "select": those that are best for a whole
    wave, to see what they cost where operators do not share the device (Rammer, figure 17).
    """
    layout = plain_layout(graph)
    links = Dependences(graph)
    programs: list[Program] = []
    for wave in waves(graph):
        chosen = wave_kernels(graph, eus, costs, links, wave, kernels)
        for op, kernel in zip(wave, chosen, strict=True):
            draft = fresh(graph, eus, costs, links, [op], [kernel])
            if draft.shares:
                programs.append(emit(draft, f"{name}_{len(programs)}", layout))
    return programs
