"""One launch per wavefront: what the published code of Rammer does."""

from collections.abc import Sequence

from rcompiler.device.model import Costs
from rcompiler.rammer.graph import Graph, Operator, waves
from rcompiler.rammer.kernel import Kernel
from rcompiler.rammer.layout import plain_layout
from rcompiler.rammer.policy.dependences import Dependences
from rcompiler.rammer.policy.draft import Draft, emit
from rcompiler.rammer.policy.kernels import select_kernels
from rcompiler.rammer.program import Program


def fresh(
    graph: Graph,
    eus: int,
    costs: Costs,
    links: Dependences,
    wave: Sequence[Operator],
    kernels: Sequence[Kernel],
) -> Draft:
    """A draft of one wave alone."""
    draft = Draft.empty(graph, eus, costs, links)
    for op, kernel in zip(wave, kernels, strict=True):
        draft.add(op, kernel)
    return draft


def wave_kernels(
    graph: Graph,
    eus: int,
    costs: Costs,
    links: Dependences,
    wave: Sequence[Operator],
    mode: str,
) -> list[Kernel]:
    """The rKernels of a wave, by the time of a launch of it alone; mode: see `select_kernels`."""

    def profile(choice: list[Kernel]) -> float:
        return fresh(graph, eus, costs, links, wave, choice).makespan

    return select_kernels(wave, graph, eus, profile, mode)


def schedule_wave(
    graph: Graph, eus: int, costs: Costs, *, kernels: str = "select", name: str = "main"
) -> list[Program]:
    """Each wave is one program; its rTasks go to the EU that finishes them first."""
    layout = plain_layout(graph)
    links = Dependences(graph)
    programs: list[Program] = []
    for wave in waves(graph):
        chosen = wave_kernels(graph, eus, costs, links, wave, kernels)
        draft = fresh(graph, eus, costs, links, wave, chosen)
        if draft.shares:
            programs.append(emit(draft, f"{name}_{len(programs)}", layout))
    return programs
