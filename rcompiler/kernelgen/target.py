"""What the body of an rKernel asks of the execution unit that it is written for.

`KernelWriter` writes tasks, tiles, pieces and stages of every rKernel. What differs from one kind
of unit to another is a `Target`, made for the code of one kernel. A core (`cpu`) has vectors and
computes a task alone; a multiprocessor (`simt.target`) has threads that share a task, memory of
their own, and matrix units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from torch_mlir import ir

from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.slabs import Slabs
from rcompiler.kernelgen.stages import Stage
from rcompiler.kernelgen.task import TaskWriter
from rcompiler.kernelgen.tiling import Range, Tiling
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.pieces import Piece


class TileWriter(Protocol):
    """Writes boxes of results, or of a stage."""

    def write(
        self, piece: Piece, ranges: list[Range], results: list[ir.Value], outputs: list[Buffer]
    ) -> None:
        """The coordinates `ranges` of `results`, which lie in `piece`."""


class Meeting:
    """Where those who compute the stages of a task together wait for each other. Who computes a
    task alone never waits: nothing is written.
    """

    def begin(self) -> None:
        """Before the first stage of a task, or of a step of one."""

    def before(self, stage: Stage) -> None:
        """Before a stage is computed."""

    def before_results(self) -> None:
        """Before the results are, when all stages are written."""

    def end(self) -> None:
        """Behind them."""


class Target(Protocol):
    """An execution unit, for the code of one kernel.

    evaluator: reads elements of the kernel's tensors, and knows what computes sums (`Reducer`); its
    emitter is where the code is written, its buffers are those that the kernel puts there.
    meeting: where those who compute a task wait for each other.
    shares_products: whether all threads compute a product together, so that the extents of tiles
    must be known in the code.
    """

    @property
    def evaluator(self) -> Evaluator: ...

    @property
    def meeting(self) -> Meeting: ...

    @property
    def shares_products(self) -> bool: ...

    def head(self, name: str, *, vectorise: bool) -> str:
        """The function up to its body, which may use %first, %count and %stride, i64, and the
        pointer %workspace.

        Args:
            name: of the kernel.
            vectorise: whether LLVM had better look for vectors in the loops.
        """

    def body(self, lines: list[str]) -> list[str]:
        """The body of the function, from the lines that compute its tasks."""

    def guarded(self, guards: Sequence[tuple[int, bool]], lines: list[str]) -> list[str]:
        """The lines of a body that does nothing unless operands, which are conditions, are what
        they have to be. Raises CompilerError where the target has no such bodies.
        """

    def operand(self, index: int, value: ir.Value, *, readonly: bool, pinned: bool) -> Buffer:
        """Where an operand or a result lies.

        Args:
            index: among the operands and, behind them, the results.
            value: the operand or result.
            readonly: whether it is an operand.
            pinned: whether it lies in memory of the unit's own.

        Raises:
            CompilerError: the unit has no such memory.
        """

    def task_number(self, number: Linear, tasks: int) -> Linear:
        """The number of a task, which is below `tasks`, as the unit computes with it best."""

    def in_order(self, write: Callable[[], None]) -> None:
        """Write what `write` does so that its steps run one after the other, and once."""

    def write_slabs(self, slabs: Slabs, ranges: Sequence[Range]) -> None:
        """Write iterations that do not depend on each other: of each loop those of a range."""

    def task_writer(
        self, kernel: ir.Operation, outputs: Sequence[Buffer], operands: Sequence[Buffer]
    ) -> TaskWriter:
        """What writes the tasks of a kernel whose body is that of one.

        Raises CompilerError for a body that tasks of the unit cannot have.
        """

    def tile_writer(self, name: str, tiling: Tiling) -> TileWriter:
        """What writes the tiles of the results, or of a stage.

        Args:
            name: of the kernel and the stage, for errors.
            tiling: how tiles are cut into register tiles.

        Raises:
            CompilerError: the unit cannot cut tiles so.
        """
