"""Decision: one rKernel as data, which the code generator and the scheduler go by."""

from dataclasses import dataclass, field, replace

from rcompiler.roller.explain import Explanation, RunnerUp


@dataclass(frozen=True)
class Decision:
    """One rKernel: how an operator is cut into rTasks and registers.

    `tile`, `grid`, `register_tile`: per parallel axis; tiles count the padding of results too.
    `vector_dim`: position among the parallel axes, or -1; then `vector_reduction` is the position
    among the reduction axes, or -1 for scalar code. `reduction_unroll`: elements per reduction
    axis. `order`: positions of the parallel axes, outermost loop of a task first. `reduction_tile`:
    () or how many loops of `order` are around the loop over parts of the reduction, and the steps
    of its outermost axis in one part. `estimated_ns`, `measured_ns` (0: not measured), `beside_ns`
    (measured while all other EUs do the same; 0: not), `on_chip_bytes`: of one rTask. `stages`: how
    a task computes what it keeps on chip first, see `roller.staged`.
    """

    tile: tuple[int, ...]
    grid: tuple[int, ...]
    register_tile: tuple[int, ...]
    vector_dim: int
    vector_reduction: int
    lanes: int
    reduction_unroll: tuple[int, ...]
    order: tuple[int, ...]
    reduction_tile: tuple[int, ...]
    tasks: int
    estimated_ns: float
    on_chip_bytes: int
    registers: int
    source: str = "roller"
    stages: "tuple[Decision, ...]" = ()
    # no part of the text that names a kernel: it is another one at each measurement
    measured_ns: float = field(default=0.0, repr=False)
    beside_ns: float = field(default=0.0, repr=False)
    # nor of what a decision is
    explanation: Explanation | None = field(default=None, repr=False, compare=False)

    @property
    def timed_ns(self) -> float:
        """Measured as it will run: beside others if there will be others, else alone."""
        return self.beside_ns or self.measured_ns

    @property
    def reason(self) -> str:
        """The explanation in a line."""
        why = self.explanation
        if why is None:
            return ""
        time, form = self.measured_ns or self.estimated_ns, "x".join(map(str, self.register_tile))
        beside = f" ({self.beside_ns / 1000:.1f} us beside others)" if self.beside_ns else ""
        used, there = why.registers
        how = (
            f"{form or 'scalar'} in registers: {why.alignment.accumulators} accumulators, "
            f"{used} of {there} registers, {why.loads:.2f} loads per operation"
        )
        if why.unit is not None:
            how = (
                f"{why.unit.name}, {why.unit.rows}x{why.unit.columns} at a time: "
                f"{why.unit.padding:.0%} padding, {why.alignment.accumulators} sums of a thread"
            )
        return (
            f"{how}; {self.tasks} tasks of {time / 1000:.1f} us{beside}, bound by {why.limit}, "
            f"{why.saturation:.0%} of the peak" + (f"; {why.note}" if why.note else "")
        )

    def compared(self, second: RunnerUp | None) -> "Decision":
        """The same, which says what came second."""
        assert self.explanation is not None
        return replace(self, explanation=replace(self.explanation, runner_up=second))

    def as_runner_up(self, by: str, ratio: float) -> RunnerUp:
        """This decision as the one that came second; see `RunnerUp`."""
        return RunnerUp(
            tile=self.tile,
            register_tile=self.register_tile,
            tasks=self.tasks,
            estimated_ns=self.estimated_ns,
            by=by,
            ratio=round(ratio, 4),
        )
