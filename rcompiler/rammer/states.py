"""State: a tensor that a launch finds as the one before has left it.

Its last value is an input of the programs, its next one an output. Both lie in one place where the
schedule lets them: where every read of the last value is over before the next one is written to
those bytes, in every execution, as `reuse` proves it. Else there are two, which take turns.
"""

from collections.abc import Sequence
from dataclasses import replace

from rcompiler.errors import ScheduleError
from rcompiler.rammer.graph import Graph
from rcompiler.rammer.order import happens_before
from rcompiler.rammer.placement import Placement, place_runs
from rcompiler.rammer.program import Program
from rcompiler.rammer.reuse import Clash, check_last_value

Pair = tuple[int, int]
"""The numbers of the input and of the output of a state."""


def updates(programs: Sequence[Program]) -> dict[int, int]:
    """Outputs that lie over inputs: the input by the output."""
    return {b.index: b.over for p in programs for b in p.buffers if b.over >= 0}


def check_updates(programs: Sequence[Program]) -> None:
    """Check that all buffers agree which output lies over which input, and that no two do over one.

    Raises ScheduleError.
    """
    over = updates(programs)
    for program in programs:
        for buffer in program.buffers:
            if buffer.kind == "output" and buffer.over != over.get(buffer.index, -1):
                raise ScheduleError(
                    f"program {program.name}, buffer {buffer.name}: output {buffer.index} lies "
                    f"over input {over[buffer.index]}, and not over it; say the same in all its "
                    "buffers",
                    "buffer",
                )
    taken: dict[int, int] = {}
    for output, place in over.items():
        if taken.setdefault(place, output) != output:
            raise ScheduleError(
                f"outputs {taken[place]} and {output} both lie over input {place}: an input has "
                "one next value",
                "buffer",
            )


def check_updates_in_place(placement: Placement) -> None:
    """Check that operators which write only a part of a result find the rest there: the result lies
    where the operand does. Raises ScheduleError.
    """
    graph, place = placement.graph, placement.place
    for op, runs in placement.runs.items():
        for read, write in runs.kernel.updates:
            names = runs.operator.inputs[read], runs.operator.outputs[write]
            (one, a), (two, b) = map(graph.root, names)
            if one not in place:  # which is not run
                continue
            (space, start), (other, begin) = place[one], place[two]
            if (space, start + a) != (other, begin + b):
                raise ScheduleError(
                    f"operator {op} (rKernel {runs.kernel.name}) writes a part of {names[1]} and "
                    f"leaves the rest as it is in {names[0]}, which lies elsewhere: let it lie "
                    "over that",
                    "buffer",
                )


def update_in_place(
    graph: Graph, programs: Sequence[Program], states: Sequence[Pair]
) -> tuple[tuple[Program, ...], dict[Pair, str]]:
    """The programs with the next values of states in the place of the last ones, where they may be.

    states: of which that is asked. Returns also why not, of those that are in two places.
    """
    if not states:
        return tuple(programs), {}
    placement = place_runs(programs, graph, happens_before(programs))
    reasons = {pair: why for pair in states if (why := _obstacle(placement, *pair))}
    over = {output: place for place, output in states if (place, output) not in reasons}
    placed = (
        replace(
            program,
            buffers=tuple(
                replace(b, over=over[b.index]) if b.kind == "output" and b.index in over else b
                for b in program.buffers
            ),
        )
        for program in programs
    )
    return tuple(placed), reasons


def _obstacle(placement: Placement, place: int, output: int) -> str:
    """Why the value of an output may not lie in the place of an input; nothing where it may."""
    graph = placement.graph
    last = [v.name for v in graph.values if (v.kind, v.index) == ("input", place)]
    roots = [root for root, home in graph.homes.items() if home == ("output", output)]
    for old in last:
        for new in roots:
            try:
                check_last_value(placement, old, new)
            except Clash as clash:
                reader, writer = clash.operators
                if reader == writer:
                    return f"operator {writer} reads it while it writes"
                return f"operator {writer} may write it before operator {reader} has read it"
    return ""
