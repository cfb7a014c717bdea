"""Code of one thread among many: who it is, which values differ from thread to thread, exchange
between the threads of a warp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.simt.move_grid import ThreadBlock
from rcompiler.kernelgen.simt.vendor import Vendor
from rcompiler.kernelgen.typed_ops import Operand
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.element_types import BITS, item_bytes

ACCESS = 16  # bytes of the longest access of a thread
GLOBAL, SHARED = "!llvm.ptr<1>", "!llvm.ptr<3>"
# Of words of 64 bits: LLVM takes them to begin at any multiple of 4 bytes, and reads halves.
WHOLE = "{alignment = 8 : i64}"
_BARRIER = "gpu.barrier"
_WORD = 1 << 31  # numbers below it are not negative in 32 bits

_Body = Callable[[Linear, list[Val]], Sequence[Val] | None]


class SimtEmitter(Emitter):
    """Writes the body of a device function that all threads of a block call.

    thread: number of the thread in the block. Groups of `width` consecutive threads work on one
    register tile each; `groups`: of them in a block; group, lane: of this thread. shared: bytes of
    shared memory that the code needs so far. taken: register tiles that groups have got in turn
    since the last barrier, None where they do not take them in turn. sharing: the first so many
    groups have anything to do so far.
    """

    def __init__(self, block: ThreadBlock, width: int, vendor: Vendor) -> None:
        """width: threads of a group, a power of two up to a warp; vendor: of the GPU."""
        super().__init__(1, has_fma=True)
        self.has_libm = False
        threads = block.threads
        self.block, self.warp, self.width, self.groups = block, block.warp, width, threads // width
        # whether a result may take the place of an operand: no thread but that which writes an
        # element may read it
        self.in_place = False
        self.threads, self.shared = threads, 0
        self.taken: int | None = None
        self.sharing = 0
        self.vendor = vendor
        self._varying: set[str] = set()
        self._accesses: dict[str, int] = {}
        index = Val(self.pure("gpu.thread_id x", [], "t"), "index")
        self._thread = self.named("t").convert("index_cast", index, "i32")
        self._varying |= {index.name, self._thread.name}
        self.thread = self._widened(self._thread, threads)
        self.ranges[self.thread] = threads
        self.group, self.lane_number = self._place()

    def _place(self) -> tuple[Linear, Linear]:
        """Group and lane of this thread."""
        if self.width == 1:
            return Linear.of(self.thread), Linear()
        thread = Linear.of(self.thread)
        lane = self.named("lane").rem_unsigned(thread, self.width)
        group = self.named("group").div_unsigned(thread, self.width)
        self.ranges[lane.name], self.ranges[group.name] = self.width, self.groups
        if self.width == self.warp:  # all threads of a warp are in the same group
            self._varying.discard(group.name)
        return group.symbol, lane.symbol

    def bounded(self, value: Linear, limit: int) -> Linear:
        """`value`, which is below `limit` and not negative, so that compilers see it: what is
        computed from it is computed in 32 bits then, which take half of the registers.
        """
        if limit > _WORD:
            return value
        return Linear.of(self._widened(self.word(value), limit))

    def _widened(self, word: Val, limit: int) -> str:
        """An i32 below `limit` as an i64."""
        ops = self.named("t")
        low = ops.bit_and(word, (1 << (limit - 1).bit_length()) - 1)
        return ops.convert("extui", low, "i64").name

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """What is computed from the number of the thread inside is computed here.

        It would be hoisted in front of loops and branches, and take registers from all of them: the
        compiler of the vendor does not see that what it keeps is cheaper to compute again.
        """
        before = self.thread, self.group, self.lane_number
        name = self.define(self.fresh("t"))
        self.line(f"{name} = {self.vendor.copy.format(self._thread.name)}")
        self._varying.add(name)
        self.thread = self._widened(Val(name, "i32"), self.threads)
        self.ranges[self.thread] = self.threads
        self.group, self.lane_number = self._place()
        try:
            yield
        finally:
            self.thread, self.group, self.lane_number = before

    # -- which values differ between the threads of a warp
    def varies(self, *names: str) -> bool:
        """Whether a value may be another one in other threads of the warp."""
        return not self._varying.isdisjoint(names)

    def pure(
        self, text: str, operands: Sequence[str], prefix: str = "v", least_depth: int = 0
    ) -> str:
        """As `Scopes.pure`; what is computed from values that vary varies, too."""
        name = super().pure(text, operands, prefix, least_depth)
        if self.varies(*operands):
            self._varying.add(name)
        return name

    def sized(self, pointer: str, size: int) -> None:
        """Note the bytes of a buffer."""
        self._accesses[pointer] = math.gcd(ACCESS, size)

    def alignment(self, pointer: str, element: str, offset: Linear) -> int:
        """As `Emitter.alignment`: operands of rKernels start at multiples of `ACCESS` bytes, and
        the parts of shared memory, too. No more than what the size of the buffer is a multiple of:
        LLVM makes one access of three elements and of what is behind them, where that is aligned.
        """
        item, most = item_bytes(element), self._accesses.get(pointer, ACCESS)
        known = math.gcd(
            most, *(item * n for n in (offset.constant, *(c for _, c in offset.terms)))
        )
        return max(known, item)

    def load(
        self,
        pointer: str,
        element: str,
        offset: Linear,
        lanes: int,
        *,
        readonly: bool,
        steps: int = 1,
    ) -> Val:
        """As `Emitter.load`."""
        value = super().load(pointer, element, offset, lanes, readonly=readonly, steps=steps)
        if self.varies(*(symbol for symbol, _ in offset.terms)):
            self._varying.add(value.name)
        return value

    def loop(
        self, low: Linear, high: Linear, step: int, carried: Sequence[Val], body: _Body
    ) -> list[Val]:
        """As `Emitter.loop`; carried values count as varying."""
        apart = self.varies(*(symbol for symbol, _ in (*low.terms, *high.terms)))

        def marked(i: Linear, values: list[Val]) -> Sequence[Val] | None:
            self._varying.update(value.name for value in values)
            if apart:
                self._varying.update(symbol for symbol, _ in i.terms)
            return body(i, values)

        results = super().loop(low, high, step, carried, marked)
        self._varying.update(value.name for value in results)
        return results

    def rolled(self, count: int, carried: Sequence[Val], body: _Body) -> list[Val]:
        """A loop that no compiler unrolls: its registers would not do for several iterations."""
        results = self.loop(Linear(0), Linear(count), 1, carried, body)
        if count > 1:
            annotation = "#llvm.loop_annotation<unroll = <disable = true>>"
            self.lines[-1] += f" {{loop_annotation = {annotation}}}"
        return results

    def branch(
        self, condition: str, then: Callable[[], Sequence[Val]], other: Callable[[], Sequence[Val]]
    ) -> list[Val]:
        """As `Emitter.branch`; its results count as varying."""
        results = super().branch(condition, then, other)
        self._varying.update(value.name for value in results)
        return results

    def at_most(self, value: Linear, limit: int, most: int) -> tuple[Linear, str | None]:
        """`value`, which is below `most`, at most limit - 1; and an i1 whether it is below `limit`,
        None if it always is.
        """
        if most <= limit:
            return value, None
        number = self.number(value)
        least = self.min_signed(number, limit - 1)
        self.ranges[least.name] = limit
        return least.symbol, self.compare("slt", number, limit).name

    def select(self, condition: Val | str, then: Operand, other: Operand) -> Val:
        """As `TypedOps.select`; the condition may be the name of an i1."""
        if isinstance(condition, str):
            condition = Val(condition, "i1")
        return super().select(condition, then, other)

    def tf32(self, value: Val) -> Val:
        """The bits of an f32 rounded to 10 bits of the fraction, to nearest, ties away from 0."""
        text = f"nvvm.convert.float.to.tf32 {value.name} {{rnd = #nvvm.fp_rnd_mode<rna>}}"
        return self.op(text, [value], "i32")

    def word(self, value: Linear) -> Val:
        """A linear expression as an i32."""
        return self.convert("trunci", self.number(value), "i32")

    def part(self, name: str, number: int, type_: str) -> str:
        """A field of a struct."""
        return self.pure(f"llvm.extractvalue {name}[{number}] : {type_}", [name])

    def address(self, pointer: str, element: str, offset: Linear) -> str:
        """As `Emitter.address`; what differs from thread to thread is added up before it is added
        to a pointer of 64 bits, as that takes two registers of each.
        """
        apart = tuple(term for term in offset.terms if self.varies(term[0]))
        if len(apart) < 2 or self.pointer_type(pointer) == SHARED:
            return super().address(pointer, element, offset)
        alike = Linear(0, tuple(term for term in offset.terms if term not in apart))
        start = self.pointer(super().address(pointer, element, alike), self.pointer_type(pointer))
        own = Linear.of(self.index(Linear(0, apart)))
        return super().address(start, element, own + offset.constant)

    def is_first(self) -> str:
        """An i1: is this the first thread of the block?"""
        return self.compare("eq", Linear.of(self.thread), 0).name

    # -- one thread
    def by_one(self, of_first_warp: str, write: Callable[[], None]) -> None:
        """What `write` writes, by one thread of the first warp, which must be here as a whole.

        Elected rather than compared with a number: only then does ptxas know that it is one, and
        gives what is asked of the block's copy unit its operands without a loop over the threads
        that might ask. of_first_warp: an i1, see `in_first_warp`.
        """

        def elected() -> None:
            name = self.define(self.fresh())
            self._varying.add(name)
            self.line(f"{name} = nvvm.elect.sync -> i1")
            self.only(name, write)

        self.only(of_first_warp, elected)

    def in_first_warp(self) -> str:
        """An i1: is this thread one of the first warp?"""
        warp = self.div_unsigned(Linear.of(self.thread), self.warp).symbol
        return self.compare("eq", self.uniform(self.word(warp)), 0).name

    def uniform(self, value: Val) -> Val:
        """A value that all threads of a warp have in common, so that ptxas knows it and keeps it in
        a register of the warp.
        """
        return self.broadcast(value, Linear())

    # -- lanes of a group
    def active_lane(self, lanes: int) -> Linear:
        """The lane, in threads beyond the first `lanes` of a group the last of these: what it is
        read by stays in bounds.
        """
        if lanes >= self.width:
            return self.lane_number
        if lanes == 1:
            return Linear()
        lane = self.min_signed(self.lane_number, lanes - 1)
        self.ranges[lane.name] = lanes
        return lane.symbol

    def is_active(self, lanes: int) -> str | None:
        """An i1: is this one of the first `lanes` threads of its group? None: all are."""
        if lanes >= self.width:
            return None
        return self.compare("slt", self.lane_number, lanes).name

    # -- shared memory
    def share_memory(self, pinned: int) -> None:
        """The workspace is shared memory of the block, behind its first `pinned` bytes."""
        if self.vendor.shared:
            start = self.pure(self.vendor.shared, [])
            self.pointer(start, SHARED)
            self.workspace = self.behind(start, SHARED, "i8", pinned) if pinned else start
        self.pointer(self.workspace, SHARED)

    def load_run(self, pointer: str, element: str, offset: Linear, count: int) -> list[Val]:
        """Neighbours, as one access."""
        lanes = count if count > 1 else 0
        value = self.load(pointer, element, offset, lanes, readonly=False)
        return [self.lane(value, k) for k in range(count)]

    def copy(self, target: str, source: str, size: int, there: str | None) -> None:
        """Start to copy `size` bytes of global memory to shared memory; zeros where the i1 `there`
        does not hold.
        """
        operands, types = f"{target}, {source}, {size}", f"{SHARED}, {GLOBAL}"
        cache = "cg" if size == 16 else "ca"  # blocks share lines rather than threads
        if there is None:
            self.line(f"nvvm.cp.async.shared.global {operands}, cache = {cache} : {types}")
            return
        filled = self.select(there, self.constant(size, "i32"), 0)
        self.line(
            f"nvvm.cp.async.shared.global {operands}, cache = {cache}, {filled.name} : {types}, i32"
        )

    def commit_copies(self) -> None:
        """The copies that this thread has started since the last time are a group."""
        self.line("nvvm.cp.async.commit.group")

    def wait_for_copies(self, groups: int) -> None:
        """Until all groups of this thread but the last `groups` are copied."""
        self.line(f"nvvm.cp.async.wait.group {groups}")

    def barrier(self) -> None:
        """All threads of the block meet; what they wrote before is seen by all behind it. See
        `shared_out`.
        """
        self.line(_BARRIER)
        if self.taken is not None:
            self.taken = 0

    def next_group(self, count: int) -> Linear:
        """The first of `count` register tiles that this group takes; the next is `groups` on.

        In turn, groups that have got none since the last barrier are the first: they do not wait
        for the others.
        """
        before = (self.taken or 0) % self.groups
        self.sharing = max(self.sharing, min(before + count, self.groups))
        if self.taken is None:
            return self.group
        ahead = -before % self.groups
        self.taken += count
        if ahead == 0:
            return self.group
        group = self.named("group").rem_unsigned(self.group + ahead, self.groups)
        self.ranges[group.name] = self.groups
        return group.symbol

    def shared_out(self, lines: Sequence[str]) -> list[str]:
        """The lines of a body, by the threads that have anything to do there alone: the first so
        many warps, which meet at a barrier of their own; the others are free until the block meets.
        """
        threads = -(-self.sharing * self.width // self.warp) * self.warp
        barriers = [line for line in lines if line.strip() == _BARRIER]
        if not barriers or not self.vendor.meeting or not 0 < threads < self.threads:
            return [*lines]
        meeting = self.vendor.meeting.format("%meeting", "%meeting_threads")
        return [
            "%meeting = arith.constant 1 : i32",  # number 0 is that of the block
            f"%meeting_threads = arith.constant {threads} : i32",
            "%meeting_thread = gpu.thread_id x",
            f"%meeting_end = arith.constant {threads} : index",
            "%meets = arith.cmpi ult, %meeting_thread, %meeting_end : index",
            "scf.if %meets {",
            *("  " + (meeting if line in barriers else line) for line in lines),
            "}",
        ]

    # -- exchange between the threads of a warp, which must all be here
    def exchange(self, value: Val, distance: int) -> Val:
        """The value of the thread whose lane differs in the bit `distance`."""
        return self._shuffle("xor", value, self.constant(distance, "i32"))

    def broadcast(self, value: Val, lane: Linear) -> Val:
        """The value of the thread in `lane`."""
        return self._shuffle("idx", value, self.word(lane))

    def _shuffle(self, mode: str, value: Val, offset: Val) -> Val:
        """Words of 32 bits travel; narrower and wider values are made of them and back."""
        bits = BITS[value.element]
        if value.element in ("f32", "i32"):
            return self._shuffled(mode, value, offset)
        if value.element[0] != "i":
            moved = self._shuffle(mode, self.bitcast(value, f"i{bits}"), offset)
            return self.bitcast(moved, value.element)
        if bits < 32:
            moved = self._shuffled(mode, self.convert("extui", value, "i32"), offset)
            return self.convert("trunci", moved, value.element)
        halves = []
        for half in (value, self.shift_right_unsigned(value, 32)):
            moved = self._shuffled(mode, self.convert("trunci", half, "i32"), offset)
            halves.append(self.convert("extui", moved, "i64"))
        low, high = halves
        return self.bit_or(low, self.shift_left(high, 32))

    def _shuffled(self, mode: str, value: Val, offset: Val) -> Val:
        """Not `pure`: all threads of the warp must take part, so it stays where it is written."""
        name, valid = self.define(self.fresh("s")), self.define(self.fresh("s"))
        names = f"{value.name}, {offset.name}, {self.constant(self.warp, 'i32').name}"
        self.line(f"{name}, {valid} = gpu.shuffle {mode} {names} : {value.type}")
        if mode != "idx" or self.varies(offset.name):  # else all have the value of one thread
            self._varying.add(name)
        return Val(name, value.element)
