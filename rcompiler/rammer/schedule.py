"""From a graph to validated programs: policy, memory plan, proof."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rcompiler.device.model import Costs
from rcompiler.errors import ScheduleError
from rcompiler.rammer.checkpoints import paced
from rcompiler.rammer.graph import Graph
from rcompiler.rammer.layout import place_programs, plain_layout
from rcompiler.rammer.plan_memory import MemoryPlan, plan_memory, plan_within
from rcompiler.rammer.policy.base import schedule_base
from rcompiler.rammer.policy.bsp import schedule_bsp
from rcompiler.rammer.policy.dynamic import schedule_dynamic
from rcompiler.rammer.policy.interface import Policy
from rcompiler.rammer.policy.kernels import check_mode
from rcompiler.rammer.policy.list import schedule_list
from rcompiler.rammer.policy.merge import schedule_merge
from rcompiler.rammer.policy.rammer import schedule_rammer
from rcompiler.rammer.policy.wave import schedule_wave
from rcompiler.rammer.program import Program, Wait
from rcompiler.rammer.states import Pair, update_in_place
from rcompiler.rammer.validate import Certificate, validate

POLICIES: dict[str, Policy] = {
    "base": schedule_base,
    "wave": schedule_wave,
    "bsp": schedule_bsp,
    "merge": schedule_merge,
    "rammer": schedule_rammer,
    "list": schedule_list,
    "dynamic": schedule_dynamic,
}
_MEETING = ("base", "wave", "bsp")  # those whose EUs never wait for a single other one
WORTH = 0.8  # part of the temp arena that checkpoints must make do with to be kept
# Bytes of a temp arena for which no checkpoints are planned: caches hold it anyway, and the second
# plan took a tenth of the schedule of LSTM-TC. A choice for every device: programs depend on costs
# alone, not on caches.
CACHED = 1 << 20
MEMORY = ("auto", "reuse", "apart")


def policies(costs: Costs) -> tuple[str, ...]:
    """The policies that a device of these costs can run."""
    return tuple(POLICIES) if costs.signals else _MEETING


@dataclass(frozen=True)
class Schedule:
    """Programs to launch one after the other, and what is known about them. double_buffered: why
    states are not updated in place, by their inputs and outputs.
    """

    programs: tuple[Program, ...]
    memory: MemoryPlan
    certificate: Certificate
    double_buffered: Mapping[Pair, str]


def schedule(
    graph: Graph,
    eus: int,
    costs: Costs | None = None,
    *,
    policy: str | Policy = "rammer",
    kernels: str = "auto",
    memory: str = "auto",
    name: str = "main",
    states: Sequence[Pair] = (),
) -> Schedule:
    """Schedule a graph on `eus` EUs.

    policy: "rammer" (the paper), "list" (critical path), "merge" (launches merged two by two),
    "bsp" (a barrier after each wave), "wave" (one launch per wave), "base" (one per operator),
    "dynamic" (a work queue); or a function, see `rcompiler.rammer.policy`. kernels: which rKernels
    run, "fast", "efficient" or "select" (see `select_kernels`), or "auto", what suits the policy:
    "fast" for base, whose operators have all EUs for themselves, else "select". memory: "reuse",
    values share bytes where the schedule lets them; "auto", and EUs wait for one another now and
    then where that saves a fifth of the bytes; "apart", each value has bytes of its own, for which
    nobody waits and which nobody finds in a cache. states: inputs and outputs that are the last and
    the next values of states, which are updated in place where the schedule lets them.
    Deterministic. Raises ScheduleError.
    """
    costs = costs or Costs()
    if isinstance(policy, str) and policy not in POLICIES:
        raise ScheduleError(f"policy {policy!r} is none of {', '.join(POLICIES)}")
    if isinstance(policy, str) and policy not in policies(costs):
        raise ScheduleError(
            f"policy {policy!r} makes EUs wait for one another, and those of this device meet in "
            f"barriers only; use {', '.join(policies(costs))}"
        )
    if eus < 1:
        raise ScheduleError(f"cannot schedule for {eus} EUs: give one or more")
    check_mode(kernels)
    if memory not in MEMORY:
        raise ScheduleError(f"memory {memory!r} is none of {', '.join(MEMORY)}")
    mode = {} if kernels == "auto" else {"kernels": kernels}
    if isinstance(policy, str):
        programs = POLICIES[policy](graph, eus, costs, name=name, **mode)
    else:
        programs = _written(lambda: policy(graph, eus, costs, name=name, **mode))
        _check_written(update_in_place(graph, programs, states)[0], graph, eus, costs)
    placed, plan = _planned(graph, programs, costs, memory)
    placed, reasons = update_in_place(graph, placed, states)
    return Schedule(placed, plan, validate(placed, graph, max_eus=eus), reasons)


def _written(write: Callable[[], list[Program]]) -> list[Program]:
    """What somebody else's policy returns. Raises ScheduleError for whatever goes wrong there."""
    try:
        programs = write()
    except ScheduleError:
        raise
    except Exception as error:
        raise ScheduleError(f"the policy failed: {type(error).__name__}: {error}") from error
    if not isinstance(programs, list) or not all(isinstance(p, Program) for p in programs):
        raise ScheduleError(f"the policy returned {programs!r}: return a list of Programs")
    return programs


def _check_written(programs: Sequence[Program], graph: Graph, eus: int, costs: Costs) -> None:
    """Refuse what may not be launched, before values are placed: that takes the order of programs
    for right, and would only show what follows from a fault.
    """
    names = [program.name for program in programs]
    if len(set(names)) != len(names):
        raise ScheduleError(f"the policy returned two programs of one name: {', '.join(names)}")
    steps = (step for program in programs for queue in program.queues for step in queue)
    if not costs.signals and any(isinstance(step, Wait) for step in steps):
        raise ScheduleError(
            "the policy makes EUs wait for one another, and those of this device meet in barriers "
            "only: return a launch for each wave"
        )
    validate(programs, graph, max_eus=eus)


def _planned(
    graph: Graph, programs: Sequence[Program], costs: Costs, memory: str
) -> tuple[tuple[Program, ...], MemoryPlan]:
    """Programs with their bytes; for "auto" with checkpoints if those save enough of them."""
    free = plan_memory(graph, programs)
    if memory == "apart":
        plan, layout = free[1], plain_layout(graph)
        return place_programs(graph, layout, programs), replace(plan, peak=plan.plain, in_place=0)
    if memory == "reuse" or free[1].peak <= CACHED:
        return free
    in_step = paced(programs, graph, costs)
    if in_step == [*programs]:
        return free
    most = WORTH * free[1].peak
    bound = plan_within(graph, in_step, most)
    return bound if bound is not None and bound[1].peak <= most else free
