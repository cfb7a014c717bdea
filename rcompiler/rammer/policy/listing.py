"""Operators in the order of what hangs on them, as a draft places them: list scheduling.

An operator that long chains wait for goes before one of an earlier wave, and each runs the rKernel
that keeps both the longest chain and the load of the EUs short. Greedy rules err in different
places, so a few orders are drawn up and the shortest draft is kept.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from rcompiler.device.model import Costs
from rcompiler.rammer.cost import alone_ns, task_ns
from rcompiler.rammer.graph import Graph, Operator, waves
from rcompiler.rammer.kernel import Kernel
from rcompiler.rammer.layout import plain_layout
from rcompiler.rammer.policy.dependences import Dependences
from rcompiler.rammer.policy.draft import Draft, emit
from rcompiler.rammer.policy.kernels import fastest, most_efficient
from rcompiler.rammer.program import Program

Rank = Mapping[str, float]  # operator -> how urgent it is; a higher rank goes first
FEW = 1024  # operators: a larger graph gets one order only, the first


def schedule_listing(
    kind: type[Draft], graph: Graph, eus: int, costs: Costs, kernels: str, name: str
) -> list[Program]:
    """One program of all operators, by estimate the shortest of a few orders; none of no operator.

    kind: of draft; kernels: see `select_kernels`.
    """
    links = Dependences(graph)
    best = shortest_listing(lambda: kind.empty(graph, eus, costs, links), kernels)
    return [emit(best, f"{name}_0", plain_layout(graph))] if best.shares else []


def shortest_listing(empty: Callable[[], Draft], kernels: str) -> Draft:
    """All operators of a graph in one draft. empty: makes drafts without operators."""
    drafts = []
    first = empty()
    for rank, patient in _orders(first.graph, len(first.free), first.costs):
        draft = empty()
        _Listing(draft, rank, patient, kernels).fill()
        drafts.append(draft)
        if len(draft.graph.operators) > FEW:
            break
    return min(drafts, key=lambda draft: draft.makespan)


def _orders(graph: Graph, eus: int, costs: Costs) -> Iterator[tuple[Rank, bool]]:
    """Ranks, each with and without patience: whether an EU may wait for a more urgent operator."""
    wide = bottom_ranks(graph, lambda op: alone_ns(fastest(op, graph, eus), eus), costs.hand_off_ns)
    deep = bottom_ranks(graph, lambda op: task_ns(fastest(op, graph, eus)), costs.hand_off_ns)
    for rank in (wide, deep, wave_ranks(graph)):
        yield rank, False
        yield rank, True


class _Listing:
    """Adds all operators of a graph to a draft, one after the other."""

    def __init__(self, draft: Draft, rank: Rank, patient: bool, kernels: str) -> None:
        self._draft, self._rank, self._patient, self._kernels = draft, rank, patient, kernels
        graph, costs, eus = draft.graph, draft.costs, len(draft.free)
        alone = {op.name: alone_ns(fastest(op, graph, eus), eus) for op in graph.operators}
        chains = bottom_ranks(graph, lambda op: alone[op.name], costs.hand_off_ns)
        self._after = {name: chain - alone[name] for name, chain in chains.items()}
        self._least = {op.name: most_efficient(op, graph).work_ns for op in graph.operators}
        self._open = sum(self._least.values())  # work of the operators that are not placed
        self._place = {op.name: i for i, op in enumerate(graph.operators)}

    def fill(self) -> None:
        """Place every operator once all that it reads is placed."""
        graph = self._draft.graph
        missing = {op.name: len(graph.predecessors[op.name]) for op in graph.operators}
        ready = {name: 0.0 for name, number in missing.items() if not number}
        while ready:
            name = self._next(ready)
            del ready[name]
            self._add(graph.operator[name])
            for follower in graph.followers[name]:
                missing[follower] -= 1
                if not missing[follower]:
                    ready[follower] = self._start(follower)

    def _next(self, ready: dict[str, float]) -> str:
        """The most urgent operator; without patience, of those that can start when an EU is free.

        ready: operators and when their first rTask can start at the earliest.
        """
        names: Iterable[str] = ready
        if not self._patient:
            now = max(float(self._draft.free.min()), min(ready.values()))
            names = (name for name, start in ready.items() if start <= now)
        return max(names, key=lambda name: (self._rank[name], -self._place[name]))

    def _start(self, name: str) -> float:
        """When the first rTask of an operator can start at the earliest."""
        shares = self._draft.shares
        before = (shares[p] for p in self._draft.graph.predecessors[name] if p in shares)
        return max((float(share.finish.min()) for share in before), default=0.0)

    def _add(self, op: Operator) -> None:
        """Append an operator with the rKernel that lets expect the shortest schedule."""
        self._open -= self._least[op.name]
        choice = self._choice(op)
        if len(choice) > 1:
            choice = sorted(choice, key=lambda kernel: self._outlook(op, kernel))
        self._draft.add(op, choice[0])

    def _choice(self, op: Operator) -> list[Kernel]:
        graph = self._draft.graph
        if self._kernels == "fast":
            return [fastest(op, graph, len(self._draft.free))]
        if self._kernels == "efficient":
            return [most_efficient(op, graph)]
        return [graph.kernel[name] for name in op.kernels]

    def _outlook(self, op: Operator, kernel: Kernel) -> tuple[float, float]:
        """What the makespan cannot be below with this rKernel: the chain that follows the operator,
        and the EUs' load; and that load.
        """
        draft = self._draft
        mark = draft.mark()
        draft.add(op, kernel)
        end = float(draft.shares[op.name].finish.max()) if op.name in draft.shares else 0.0
        load = (float(draft.free.sum()) + self._open) / len(draft.free)
        draft.rewind(mark)
        return max(end + self._after[op.name], load), load


def bottom_ranks(graph: Graph, length: Callable[[Operator], float], hand_off: float) -> Rank:
    """The longest chain, in ns, from the start of each operator to the end of the graph.

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
