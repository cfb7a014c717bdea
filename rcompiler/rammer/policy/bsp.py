"""One launch of all waves with a barrier of all EUs between them: bulk-synchronous supersteps.

What a device without signals between EUs can run (Rammer §5.5: IPU), and what fine-grained waits
are held against (Rammer §5.4).
"""

from rcompiler.device.model import Costs
from rcompiler.rammer.graph import Graph
from rcompiler.rammer.layout import make_program, plain_layout
from rcompiler.rammer.policy.wave import schedule_wave
from rcompiler.rammer.program import Barrier, Instruction, Program


def schedule_bsp(
    graph: Graph, eus: int, costs: Costs, *, kernels: str = "select", name: str = "main"
) -> list[Program]:
    """The launches of `schedule_wave` as one program; waves without rTasks need no barrier."""
    queues: list[list[Instruction]] = [[] for _ in range(eus)]
    steps = schedule_wave(graph, eus, costs, kernels=kernels, name=name)
    for number, step in enumerate(steps):
        for queue, more in zip(queues, step.queues, strict=True):
            queue += [Barrier()] if number else []
            queue += more
    return [make_program(f"{name}_0", graph, plain_layout(graph), queues)] if steps else []
