"""Scheduling policies: from a graph to a list of programs. All use the same rKernels and costs.

What who writes a policy needs is imported from here; `docs/policies.md` has an example:

    Policy           what it gets, and must return
    Launch, Tasks    the paper's Append and Wait
    waves            operators by the longest path that leads to them
    fastest, most_efficient, select_kernels
                     which of its rKernels an operator runs
    simulate         the estimated times of programs
    Graph, Operator, Kernel, Costs, Program
                     the data
    ScheduleError    what a policy raises where it cannot go on
"""

from rcompiler.device.model import Costs
from rcompiler.errors import ScheduleError
from rcompiler.rammer.graph import Graph, Operator, waves
from rcompiler.rammer.kernel import Kernel
from rcompiler.rammer.policy.interface import Policy
from rcompiler.rammer.policy.kernels import fastest, most_efficient, select_kernels
from rcompiler.rammer.policy.launch import Launch, Tasks
from rcompiler.rammer.program import Program
from rcompiler.rammer.simulate import simulate

__all__ = [
    "Costs",
    "Graph",
    "Kernel",
    "Launch",
    "Operator",
    "Policy",
    "Program",
    "ScheduleError",
    "Tasks",
    "fastest",
    "most_efficient",
    "select_kernels",
    "simulate",
    "waves",
]
