"""The factors of a product on their way through shared memory in boxes, a part at a time.

One thread of the block's first warp asks for boxes. Counters of a buffer (mbarrier): `full`, until
all bytes of a part are there, and `free`, until all warps are done with it. They are made at the
start and unmade at the end, so that other tasks find plain memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rcompiler.kernelgen.simt.box_wait import WAIT_TEXT
from rcompiler.kernelgen.simt.boxed import ADDRESS, Boxed
from rcompiler.kernelgen.simt.emitter import SHARED, SimtEmitter
from rcompiler.kernelgen.simt.evaluator import SimtEvaluator
from rcompiler.kernelgen.simt.operand import unfold
from rcompiler.kernelgen.simt.program import written
from rcompiler.kernelgen.simt.tensor_maps import TensorMaps
from rcompiler.kernelgen.simt.warpgroup import address
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear

_COUNTER = 8  # bytes
_WORD = 8
_PROXY = "#nvvm.proxy_kind"
# The sums after a part whose first byte is at an address, an i32.
Multiply = Callable[[list[Val], str], list[Val]]


class BoxRing:
    """Brings the factors of one product and calls who multiplies them."""

    COUNTERS = 2 * _COUNTER  # bytes for each buffer

    def __init__(
        self,
        evaluator: SimtEvaluator,
        emitter: SimtEmitter,
        sides: Sequence[Boxed],
        chunks: int,
        slots: int,
        offset: int,
        maps: TensorMaps,
    ) -> None:
        """chunks: of a part; slots: buffers, the first of which is at byte `offset` of the
        workspace.
        """
        self._evaluator, self._e, self._maps = evaluator, emitter, maps
        self._sides, self._chunks, self._slots = sides, chunks, slots
        self._offset = offset
        self._bytes = chunks * sum(side.bytes for side in sides)

    def run(
        self,
        starts: Sequence[Linear],
        parts: int,
        sums: list[Val],
        multiply: Multiply,
        wait: Callable[[int], None],
    ) -> list[Val]:
        """The sums after all parts. starts: of the tile; wait: until no more than so many parts are
        still being multiplied.
        """
        e = self._e
        first = e.in_first_warp()
        self._fence_shared()
        e.barrier()  # who still reads what was in the workspace before
        self._fill()
        e.by_one(first, self._create)
        e.barrier()

        def ask_first() -> None:
            # boxes read what other threads have stored to global memory
            e.line(f"nvvm.fence.proxy {{kind = {_PROXY}<async.global>}}")
            for part in range(min(self._slots, parts)):
                self._ask(starts, Linear(part), Linear(part))

        e.by_one(first, ask_first)

        def body(part: Linear, carried: list[Val]) -> list[Val]:
            turn, slot = self._turn(part)
            self._wait(slot, 0, self._parity(turn))
            carried = multiply(carried, self._start(slot))
            if parts > 1:
                wait(1)
                self._next(starts, part, parts, first)
            return carried

        sums = e.loop(Linear(0), Linear(parts), 1, sums, body)
        wait(0)
        e.barrier()
        e.by_one(first, self._remove)
        return sums

    # -- shared memory
    def _pointer(self, byte: Linear) -> str:
        e = self._e
        return e.address(e.workspace, "i8", byte)

    def _start(self, slot: Linear) -> str:
        """Address of a buffer."""
        return address(self._e, self._pointer(slot * self._bytes + self._offset))

    def _counter(self, slot: Linear, which: int) -> str:
        """`full` (0) or `free` (1) of a buffer."""
        behind = self._offset + self._slots * self._bytes
        return self._pointer(slot * self.COUNTERS + (behind + which * _COUNTER))

    def _fill(self) -> None:
        """Zeros at positions that are multiplied and no box brings."""
        e = self._e
        zero, workspace = e.constant(0, "i64"), e.workspace
        for slot in range(self._slots):
            at = self._offset + slot * self._bytes
            for _ in range(self._chunks):
                for side in self._sides:
                    first, last = side.loaded, side.filled * side.chunks.size * side.item
                    words = (last - first) // _WORD

                    def store(k: Linear, _: list[Val], begin: int = at + first) -> None:
                        e.store(zero, workspace, k + begin // _WORD)

                    if words > 0:
                        e.loop(Linear.of(e.thread), Linear(words), e.threads, [], store)
                    at += side.bytes
        if any(side.filled > side.positions for side in self._sides):
            self._fence_shared()

    def _fence_shared(self) -> None:
        """Orders ordinary accesses to shared memory with those of copies and products. A fence of
        all memory waits for stores to global memory as well.
        """
        kind = f"{_PROXY}<async.shared>"
        self._e.line(f"nvvm.fence.proxy {{kind = {kind}, space = #nvvm.shared_space<cta>}}")

    # -- counters
    def _create(self) -> None:
        e = self._e
        counts = (1, e.threads // e.warp)
        for slot in range(self._slots):
            for which, count in enumerate(counts):
                number = e.constant(count, "i32").name
                counter = self._counter(Linear(slot), which)
                e.line(f"nvvm.mbarrier.init {counter}, {number} : {SHARED}, i32")
        e.line("nvvm.fence.mbarrier.init")
        self._fence_shared()

    def _remove(self) -> None:
        for slot in range(self._slots):
            for which in (0, 1):
                self._e.line(f"nvvm.mbarrier.inval {self._counter(Linear(slot), which)} : {SHARED}")

    def _turn(self, part: Linear) -> tuple[Linear, Linear]:
        """How often the buffer of a part was used before, and which one it is."""
        if part.is_constant:
            turn, slot = divmod(part.constant, self._slots)
            return Linear(turn), Linear(slot)
        return self._evaluator.split(part, self._slots)

    def _parity(self, turn: Linear) -> str:
        """Of the phase of a counter that ends with a turn, an i32."""
        e = self._e
        if turn.is_constant:
            return e.constant(turn.constant % 2, "i32").name
        _, odd = self._evaluator.split(turn, 2)
        return e.word(odd).name

    def _wait(self, slot: Linear, which: int, parity: str) -> None:
        """Until a counter has ended its phase."""
        e = self._e
        names = {"COUNTER": self._counter(slot, which), "PARITY": parity}
        names |= {name: e.fresh("b") for name in ("READY", "YES", "LATE")}
        for line in written(WAIT_TEXT, names, e.vendor).strip().splitlines():
            e.line(line)

    def _next(self, starts: Sequence[Linear], part: Linear, parts: int, first: str) -> None:
        """Give back the buffer of the part before, and ask for what comes into it."""
        e = self._e
        following = part + (self._slots - 1)
        if parts <= self._slots or (part.is_constant and part.constant == 0):
            return  # every part has a buffer of its own
        turn, slot = self._turn_before(part)
        positive = None if part.is_constant else self._compared("sgt", part, Linear())
        there = None if following.is_constant else self._compared("slt", following, Linear(parts))
        if following.is_constant and following.constant >= parts:
            return
        condition = e.all_of([positive, there])

        def give_back() -> None:
            counter = self._counter(slot, 1)
            _, lane = self._evaluator.split(Linear.of(e.thread), e.warp)
            own = self._compared("eq", lane, Linear())

            def arrive() -> None:
                name = e.define(e.fresh())
                e.line(f"{name} = nvvm.mbarrier.arrive {counter} : {SHARED} -> i64")

            e.only(own, arrive)

            def ask() -> None:
                self._wait(slot, 1, self._parity(turn))
                self._ask(starts, following, slot)

            e.by_one(first, ask)

        e.only(condition, give_back)

    def _turn_before(self, part: Linear) -> tuple[Linear, Linear]:
        """`_turn` of the part before, whose number is at least 0 where it is used."""
        if part.is_constant:
            return self._turn(part + -1)
        turn, slot = self._evaluator.split(part + (self._slots - 1), self._slots)
        return turn + -1, slot

    def _compared(self, how: str, a: Linear, b: Linear) -> str:
        return self._e.compare(how, a, b).name

    # -- boxes
    def _ask(self, starts: Sequence[Linear], part: Linear, slot: Linear) -> None:
        """Ask for all boxes of a part."""
        e = self._e
        counter = self._counter(slot, 0)
        total = e.constant(self._chunks * sum(side.loaded for side in self._sides), "i32").name
        e.line(f"nvvm.mbarrier.arrive.expect_tx {counter}, {total} : {SHARED}, i32")
        at = slot * self._bytes + self._offset
        for k in range(self._chunks):
            outer, step = self._chunk(part * self._chunks + k)
            for side in self._sides:
                own = side.loaded // side.units
                for unit in range(side.units):
                    self._ask_box(side, starts, outer, step, unit, at + unit * own, counter)
                at = at + side.bytes

    def _chunk(self, number: Linear) -> tuple[list[Linear], Linear]:
        """Coordinates along the outer loops of the reduction, and the first step, of a chunk."""
        chunks, sizes = self._sides[0].chunks, self._sides[0].form.root.sizes
        count = -(-sizes[chunks.loop] // chunks.size)
        outer = [sizes[j] for j in chunks.outer]
        *at, last = unfold(number, [*outer, count], self._evaluator.split)
        return at, last * chunks.size

    def _ask_box(
        self,
        side: Boxed,
        starts: Sequence[Linear],
        outer: Sequence[Linear],
        step: Linear,
        unit: int,
        place: Linear,
        counter: str,
    ) -> None:
        e = self._e
        [along, *rows], before = side.corner(starts, outer, step, unit)
        map_ = self._maps.address(side.strides.buffer, side.tile())
        base = e.div_unsigned(Linear.of(self._maps.offset(side.strides.buffer)), ADDRESS).symbol
        of = ADDRESS // side.item
        steps = Linear(before.constant // of, tuple((s, c // of) for s, c in before.terms))
        names = [e.word(where).name for where in (along, base + steps, *rows)]
        target = self._pointer(place)
        e.line(
            f"nvvm.cp.async.bulk.tensor.shared.cluster.global {target}, {map_}, {counter}, "
            f"box[{', '.join(names)}] {{isCTAOnly = true}} : {SHARED}, !llvm.ptr"
        )
