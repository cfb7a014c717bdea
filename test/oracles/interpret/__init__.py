"""Run schedules in numpy, on memory and in an order as hostile as the semantics allow.

What `validate` proves, this finds in practice: `machine` interleaves the EUs of a launch phase by
phase, `memory` lets every EU see stores as late or as early as it may, `races` keeps vector clocks,
`adversary` makes the choices, `tasks` holds the bytes of each rTask, `bodies` what rTasks compute.
Nothing here is shared with the proof but the data of graph and program.
"""

from oracles.interpret.adversary import ORDERS, STORES, Adversary
from oracles.interpret.bodies import Body, digest
from oracles.interpret.machine import Execution, ScheduleInterpreter

__all__ = ["ORDERS", "STORES", "Adversary", "Body", "Execution", "ScheduleInterpreter", "digest"]
