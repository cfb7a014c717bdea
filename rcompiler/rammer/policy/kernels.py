"""Which rKernel an operator runs (Rammer, Algorithm 1, SelectRKernels)."""

from collections.abc import Callable, Sequence

from rcompiler.errors import ScheduleError
from rcompiler.rammer.cost import alone_ns
from rcompiler.rammer.graph import Graph, Operator
from rcompiler.rammer.kernel import Kernel

MODES = ("auto", "select", "fast", "efficient")  # auto: what a policy takes by itself
Choice = list[Kernel]


def check_mode(mode: str) -> None:
    """Refuse an unknown selection mode."""
    if mode not in MODES:
        raise ScheduleError(f"kernel selection {mode!r} is none of {', '.join(MODES)}")


def fastest(op: Operator, graph: Graph, eus: int) -> Kernel:
    """The rKernel of the least time when the operator has all EUs for itself.

    Args:
        op: an operator of the graph.
        graph: has its rKernels.
        eus: how many EUs there are.
    """
    return min((graph.kernel[k] for k in op.kernels), key=lambda k: alone_ns(k, eus))


def most_efficient(op: Operator, graph: Graph) -> Kernel:
    """The rKernel of the least time summed over its rTasks.

    Args:
        op: an operator of the graph.
        graph: has its rKernels.
    """
    return min((graph.kernel[k] for k in op.kernels), key=lambda k: k.work_ns)


def select_kernels(
    wave: Sequence[Operator],
    graph: Graph,
    eus: int,
    profile: Callable[[Choice], float],
    mode: str = "select",
) -> Choice:
    """One rKernel per operator of a wave (Rammer, OSDI'20, Algorithm 1, SelectRKernels).

    Args:
        wave: operators that wait for none of one another.
        graph: has their rKernels.
        eus: how many EUs there are.
        profile: gives the ns of what the wave is part of, with these rKernels.
        mode: "fast" or "efficient" for all of them; "select" for the fastest ones, unless they have
            as many rTasks as there are EUs, or more, and the profile is shorter with the most
            efficient ones.

    Returns:
        The rKernels, in the order of the operators.
    """
    fast = [fastest(op, graph, eus) for op in wave]
    if mode == "fast":
        return fast
    lean = [most_efficient(op, graph) for op in wave]
    if mode == "efficient":
        return lean
    if fast == lean or sum(kernel.tasks for kernel in fast) < eus:
        return fast
    return lean if profile(lean) < profile(fast) else fast
