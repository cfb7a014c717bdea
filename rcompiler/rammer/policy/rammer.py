"""The policy of the paper (Rammer, OSDI'20, Algorithm 1).

Waves join the current program as long as that is estimated to be no slower than a launch of their
own: time(P1) <= time(P) + time(P2). Beyond the paper, shares depend on the shares their tiles need,
not on whole operators.
"""

from math import inf

from rcompiler.device.model import Costs
from rcompiler.rammer.graph import Graph, waves
from rcompiler.rammer.layout import plain_layout
from rcompiler.rammer.policy.dependences import Dependences
from rcompiler.rammer.policy.draft import Draft, Time, emit, estimated
from rcompiler.rammer.policy.wave import fresh, wave_kernels
from rcompiler.rammer.program import Program


def schedule_rammer(
    graph: Graph,
    eus: int,
    costs: Costs,
    *,
    kernels: str = "select",
    time: Time = estimated,
    name: str = "main",
) -> list[Program]:
    """Programs of as many waves as pay off.

    time: ns of one launch of a draft; by default the estimate. It may measure: `emit` turns a draft
    into a program.
    """
    links = Dependences(graph)
    drafts: list[Draft] = []
    single: dict[str, float] = {}  # ns of a launch of an operator with an rKernel
    current = Draft.empty(graph, eus, costs, links)
    # of any launch, by estimate; who measures is asked about all
    least = costs.launch_ns if time is estimated else -inf
    for wave in waves(graph):
        chosen = wave_kernels(graph, eus, costs, links, wave, kernels)
        before = time(current) if current.shares else 0.0
        mark = current.mark()
        for op, kernel in zip(wave, chosen, strict=True):
            current.add(op, kernel)
        if not mark[3]:
            continue
        together = time(current)
        if together <= before + least:
            continue  # whatever the wave takes alone
        # of one operator alone, which waits for nothing, the rKernel says all: steps have the same
        known = chosen[0].name if len(wave) == 1 and time is estimated else ""
        if known and together <= before + single.get(known, -inf):
            continue
        alone = fresh(graph, eus, costs, links, wave, chosen)
        taken = time(alone)
        if known:
            single[known] = taken
        if together > before + taken:
            current.rewind(mark)
            drafts.append(current)
            current = alone
    drafts.append(current)
    layout = plain_layout(graph)
    return [emit(d, f"{name}_{i}", layout) for i, d in enumerate(drafts) if d.shares]
