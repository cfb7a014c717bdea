"""Cycles of one register tile: the slowest of what works on it at the same time.

An EU takes instructions in order and starts each when it has its operands, so multiply-adds, loads
and stores go on side by side. A chain of operations that wait for one another delays its own tile;
those behind it run meanwhile, as far as the window of instructions in flight reaches.
"""

from dataclasses import dataclass

from rcompiler.device.model import ComputeUnit

_BLEND = 5  # norm of the bounds (measured: half the tiles within 2 to 3 %)
_CONTROL = 8.0  # instructions of loop control and addresses of one register tile


@dataclass(frozen=True)
class InstructionCounts:
    """Vector instructions of one register tile.

    `chain`: operations that wait for one another, in times of a multiply-add; `chains`: how many
    such chains follow one another in the tile.
    """

    arithmetic: float
    loads: float
    stores: float
    chain: float
    chains: int = 1

    @property
    def instructions(self) -> float:
        """All of them, with loop control."""
        return self.arithmetic + self.loads + self.stores + _CONTROL


def bounds(work: InstructionCounts, unit: ComputeUnit) -> tuple[float, ...]:
    """Cycles of arithmetic, loads, stores, issue and waiting, each as if there were nothing else.

    One store and one branch are issued per cycle beside what the ports take.
    """
    in_flight = max(1.0, unit.window * work.chains / work.instructions)  # chains
    return (
        work.arithmetic / unit.fma_ports,
        work.loads / unit.load_ports,
        work.stores,
        work.instructions / (unit.fma_ports + unit.load_ports + 2),
        work.chains * work.chain * unit.fma_latency / in_flight,
    )


def blend(*times: float) -> float:
    """The slowest hides the others, but not perfectly where they are close."""
    return sum(time**_BLEND for time in times) ** (1 / _BLEND)
