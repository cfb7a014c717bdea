"""A processor that nobody builds, as a target of kernels: one lane, one element at a time, a diary.

Its code counts the elements that it asks memory for and those that it stores, into two i64 behind a
pointer of its own. What the compiler asks of it while a kernel is written stands in its diary.
"""

from collections.abc import Callable, Sequence

from torch_mlir import ir

from rcompiler.errors import CompilerError
from rcompiler.kernelgen.accumulators import Accumulators
from rcompiler.kernelgen.boxes import for_each_in
from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.elements import Elements, sources_of
from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.reader import Reader
from rcompiler.kernelgen.reduction import Reducer
from rcompiler.kernelgen.slabs import Slabs
from rcompiler.kernelgen.stages import Stage
from rcompiler.kernelgen.target import Meeting
from rcompiler.kernelgen.tiling import Range, Tiling
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.pieces import Piece
from rcompiler.linalg.values import element_of, shape_of

SIGNATURE = (
    "%operands: !llvm.ptr, %first: i64, %count: i64, %stride: i64, %workspace: !llvm.ptr, "
    "%counts: !llvm.ptr"
)
READ, WRITTEN = 0, 1  # places of the counts


class CountingEmitter(Emitter):
    """Counts each access where it is written, and not where it may be hoisted to."""

    def load(self, pointer: str, element: str, offset: Linear, lanes: int, **more) -> Val:
        self._noted(READ)
        return super().load(pointer, element, offset, lanes, **more)

    def store(self, value: Val, pointer: str, offset: Linear) -> None:
        self._noted(WRITTEN)
        super().store(value, pointer, offset)

    def _noted(self, place: int) -> None:
        address, one = self.address("%counts", "i64", Linear(place)), self.constant(1, "i64")
        before, after = self.define(self.fresh()), self.define(self.fresh())
        self.line(f"{before} = llvm.load {address} : !llvm.ptr -> i64")
        self.line(f"{after} = arith.addi {before}, {one.name} : i64")
        self.line(f"llvm.store {after}, {address} : i64, !llvm.ptr")


class NobodyShares:
    """There is one lane: every sum is its own."""

    def shares(self, generic: Generic) -> bool:
        return False

    def results(self, generic: Generic, positions: list, lanes: int) -> list[list[Val]]:
        raise AssertionError("nobody shares in a sum")


def own_reducer(reader: Reader) -> Reducer:
    return Reducer(reader, Accumulators(reader, None), NobodyShares())


class OneByOne:
    """Writes boxes of results element by element."""

    def __init__(self, name: str, evaluator: Evaluator) -> None:
        self._e, self._elements = evaluator.emitter, Elements(name, evaluator)

    def write(
        self, piece: Piece, ranges: list[Range], results: list[ir.Value], outputs: list[Buffer]
    ) -> None:
        sources = sources_of(piece, results)

        def element(at: list[Linear], lanes: int) -> None:
            values = self._elements.values(sources, at, lanes)
            for value, output in zip(values, outputs, strict=True):
                self._elements.store(value, output, output.offset(at), lanes)

        for_each_in(self._e, ranges, element)


class Diary(Meeting):
    """Notes who would meet when."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    def begin(self) -> None:
        self.pages.append("begin")

    def before(self, stage: Stage) -> None:
        self.pages.append("stage")

    def before_results(self) -> None:
        self.pages.append("results")

    def end(self) -> None:
        self.pages.append("end")


class ToyTarget:
    """The processor, for the code of one kernel."""

    shares_products = False

    def __init__(self) -> None:
        self.evaluator = Evaluator(CountingEmitter(1, has_fma=False), {}, own_reducer)
        self.meeting = Diary()

    def head(self, name: str, *, vectorise: bool) -> str:
        return f"func.func @{name}({SIGNATURE}) "

    def body(self, lines: list[str]) -> list[str]:
        return lines

    def operand(self, index: int, value: ir.Value, *, readonly: bool, pinned: bool) -> Buffer:
        if pinned:
            raise CompilerError("a toy has no memory of its own")
        e = self.evaluator.emitter
        place = e.address("%operands", "i64", Linear(index))
        pointer = e.pure(f"llvm.load {place} : !llvm.ptr -> !llvm.ptr", [place], "p")
        return Buffer(pointer, shape_of(value), element_of(value), readonly)

    def task_number(self, number: Linear, tasks: int) -> Linear:
        return number

    def in_order(self, write: Callable[[], None]) -> None:
        self.meeting.pages.append("in order")
        write()

    def write_slabs(self, slabs: Slabs, ranges: Sequence[Range]) -> None:
        self.meeting.pages.append("slabs")

        def slab(at: list[Linear], lanes: int) -> None:
            slabs.copy(at)
            slabs.write([at])

        for_each_in(self.evaluator.emitter, ranges, slab)

    def tile_writer(self, name: str, tiling: Tiling) -> OneByOne:
        return OneByOne(name, self.evaluator)
