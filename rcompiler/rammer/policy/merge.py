"""Launches merged two by two, greedily: what Rammer's published code does beyond waves, made safe.

Each operator starts as a launch of its own and joins an earlier launch if both together are
estimated to take less time than one after the other. Launches in between stay where they are, so an
operator that needs one of those may not join what is before them: the first -> between -> the
operator would go round in a circle. Its rKernel is chosen anew for each launch that it may join.
"""

from collections.abc import Sequence
from functools import partial

from rcompiler.device.model import Costs
from rcompiler.rammer.graph import Graph, Operator, waves
from rcompiler.rammer.layout import plain_layout
from rcompiler.rammer.policy.dependences import Dependences
from rcompiler.rammer.policy.draft import Draft, Time, emit, estimated
from rcompiler.rammer.policy.kernels import Choice, select_kernels
from rcompiler.rammer.program import Program

FAR = 8  # launches back that an operator may join


def schedule_merge(
    graph: Graph,
    eus: int,
    costs: Costs,
    *,
    kernels: str = "select",
    time: Time = estimated,
    name: str = "main",
) -> list[Program]:
    """Programs of operators that pay off together, not necessarily neighbours.

    time: ns of one launch of a draft; by default the estimate. It may measure.
    """
    links = Dependences(graph)
    drafts: list[Draft] = []
    for op in (op for wave in waves(graph) for op in wave):
        alone = Draft.empty(graph, eus, costs, links)
        _add(alone, op, kernels, time)
        if alone.shares and not _joined(drafts, op, kernels, time(alone), time):
            drafts.append(alone)
    layout = plain_layout(graph)
    return [emit(draft, f"{name}_{i}", layout) for i, draft in enumerate(drafts)]


def _joined(drafts: Sequence[Draft], op: Operator, mode: str, apart: float, time: Time) -> bool:
    """Add an operator to the latest launch that takes less time with it than both in turn.

    apart: time of the operator alone.
    """
    for draft in reversed(drafts[-FAR:]):
        mark, before = draft.mark(), time(draft)
        _add(draft, op, mode, time)
        if time(draft) < before + apart:
            return True
        draft.rewind(mark)
        if any(producer in draft.shares for producer in draft.graph.predecessors[op.name]):
            return False  # it comes after this launch, and so after all that are before it
    return False


def _add(draft: Draft, op: Operator, mode: str, time: Time) -> None:
    """Append an operator to a launch, with the rKernel that is right for this one."""
    profile = partial(_profile, draft, op, time)
    [kernel] = select_kernels([op], draft.graph, len(draft.free), profile, mode)
    draft.add(op, kernel)


def _profile(draft: Draft, op: Operator, time: Time, choice: Choice) -> float:
    """Time of a launch with an operator that runs the only rKernel of `choice`."""
    mark = draft.mark()
    draft.add(op, choice[0])
    found = time(draft)
    draft.rewind(mark)
    return found
