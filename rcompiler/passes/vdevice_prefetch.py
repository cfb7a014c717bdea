"""vdevice-prefetch: S4 -> S4, blocks ask for the weights of their next task ahead of time.

Before, for each EU:
    wait ; "vdevice.run"() {kernel = @k_a, operator = "a", buffers = [@x, @w_a, @y], ...}
    signal ; wait ; "vdevice.run"() {kernel = @k_b, operator = "b", buffers = [@y, @w_b, @z], ...}
After:
    "vdevice.run"() {kernel = @p_a, operator = "a.prefetch", buffers = [@w_a], ...}
    "vdevice.run"() {kernel = @p_b, operator = "b.prefetch", buffers = [@w_b], ...}
    wait ; run of "a" ; signal ; wait ; run of "b"
The rTasks of @p_b are those of @k_b, without results: they ask for the boxes of the constants that
@k_b reads, and do not wait for them. They come in front of the waits of the run before, so memory
works while the block waits and computes. The proof of a schedule takes them for what they are:
reads of constants, each rTask exactly once.

Left alone: weights that stay in the last cache from one inference to the next; those that several
operators read (the steps of a recurrent network: only the first would find them in memory);
operators that run in loops, those that nothing comes before, and those that read a large part of
what the cache holds (what streams from memory anyway would only evict the rest).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.device.model import Device
from rcompiler.dialects import rtask, vdevice
from rcompiler.dialects.iterations import instances, name_at
from rcompiler.linalg.values import integer, ops_of, string, symbol, symbols
from rcompiler.passes import OptionalPass
from rcompiler.passes.ir.module_device import device_of
from rcompiler.passes.ir.operators import kernels_by_name, ops_in_module
from rcompiler.passes.schedule.program_ir import ProgramParts
from rcompiler.passes.schedule.schedule_graph import constant_key
from rcompiler.roller.roots import is_cold

_LEAST = 1 << 12  # bytes that a task reads of a constant: fewer come as fast as they are asked for
_SHARE = (
    0.25  # of the last cache is for what all EUs ask for at a time: the next task, and one more
)
_SECTOR_NS = 0.01  # of one sector that a block asks for, all its threads at a time


@dataclass(frozen=True)
class _Ask:
    """That a block asks, in front of the op `before`, for what `run` will read; idle: nothing is
    in between.
    """

    run: ir.Operation
    before: ir.Operation
    idle: bool


@dataclass(frozen=True)
class VdevicePrefetch(OptionalPass):
    """Ask for the weights of each EU's next task before it waits for the task at hand."""

    def run(self, module: ir.Operation) -> None:
        device, kernels = device_of(module), kernels_by_name(module)
        for program in ops_in_module(module, "vdevice.program"):
            size = integer(program, "constants")
            if device.is_nvidia and is_cold(device, size):
                _Program(program, kernels, device).run()


class _Program(ProgramParts):
    """One program."""

    def __init__(
        self, program: ir.Operation, kernels: dict[str, ir.Operation], device: Device
    ) -> None:
        super().__init__(program, kernels)
        self._device = device
        self._room = _SHARE * device.last_cache.capacity
        self._made: dict[tuple[str, tuple[int, ...]], str] = {}
        constants = self._constants.items()
        self._keys = {name: constant_key(op.attributes["value"]) for name, op in constants}
        self._looped: set[str] = set()
        self._readers = Counter(key for key, _ in set(self._reads()))

    def _reads(self) -> Iterator[tuple[str, str]]:
        """Constants and operators that read them; notes what runs in loops."""
        for eu in self._lists:
            for view, index in instances(eu.regions[0].blocks[0]):
                run = view.operation
                if run.name != "vdevice.run":
                    continue
                operator = name_at(string(run, "operator"), index)
                if index:
                    self._looped.add(operator)
                for buffer in symbols(run, "buffers"):
                    if buffer in self._keys:
                        yield self._keys[buffer], operator

    def run(self) -> None:
        found: dict[str, list[_Ask]] = {}
        for ask in self._asks():
            found.setdefault(string(ask.run, "operator"), []).append(ask)
        for operator, asks in found.items():
            # each rTask runs once, so all of an operator are asked for, or none
            wanted = self._wanted(asks[0].run)
            late = all(ask.idle for ask in asks)
            if wanted and not late and operator not in self._looped:
                for ask in asks:
                    self._insert(ask, wanted)

    def _asks(self) -> Iterator[_Ask]:
        for eu in self._lists:
            steps = ops_of(eu.regions[0].blocks[0])
            here = before = 0  # where the waits of the next run begin, and those of the one before
            for number, op in enumerate(steps):
                if op.name == "vdevice.run":
                    yield _Ask(op, steps[before], before == number)
                    before, here = here, number + 1
                elif op.name == "vdevice.repeat":
                    before = here = number + 1
                elif op.name == "vdevice.signal":
                    here = number + 1

    def _insert(self, ask: _Ask, wanted: tuple[int, ...]) -> None:
        run, buffers = ask.run, symbols(ask.run, "buffers")
        key = symbol(run, "kernel"), wanted
        if key not in self._made:
            self._made[key] = self._build(*key)
        first, count, stride, step = (
            integer(run, name) for name in ("first", "count", "stride", "eu_step")
        )
        operator = string(run, "operator") + ".prefetch"
        own = [buffers[k] for k in wanted]
        with ir.InsertionPoint(ask.before), run.location:
            vdevice.RunOp.build(self._made[key], operator, first, count, stride, step, own)

    def _wanted(self, run: ir.Operation) -> tuple[int, ...]:
        """Operands that come from memory, a part for each task, and stay in the cache together."""
        reads = self._plain[symbol(run, "kernel")].reads
        keys = [self._keys.get(buffer) for buffer in symbols(run, "buffers")[: len(reads)]]
        found = tuple(
            k
            for k, (key, access) in enumerate(zip(keys, reads, strict=True))
            if key is not None and self._readers[key] == 1 and access.task_bytes >= _LEAST
        )
        return found if sum(reads[k].bytes for k in found) <= self._room else ()

    def _build(self, name: str, wanted: tuple[int, ...]) -> str:
        """The name of an rKernel that asks for these operands of another."""
        op, kernel = self._kernels[name], self._plain[name]
        reads = [ir.ArrayAttr(op.attributes["reads"])[k] for k in wanted]
        types = [op.regions[0].blocks[0].arguments[k].type for k in wanted]
        text = " ".join(map(str, (kernel.grid, *reads, *types)))
        made = "p_" + hashlib.sha256(text.encode()).hexdigest()[:16]
        if made in self._kernels:
            return made
        sectors = sum(kernel.reads[k].task_bytes for k in wanted) / self._device.sector_bytes
        ones = (1,) * len(kernel.grid)
        with ir.InsertionPoint(op), op.location:
            new = rtask.KernelOp.build(
                sym_name=made, kind=rtask.PREFETCH, grid=kernel.grid, tile=ones, register_tile=ones,
                vector_dim=-1, lanes=1, on_chip_bytes=0, registers=0, source="prefetch", writes=[],
                estimated_ns=round(self._device.costs.step_ns + _SECTOR_NS * sectors, 1), reads=[],
            ).operation  # fmt: skip
            new.attributes["reads"] = ir.ArrayAttr.get(reads)
            with ir.InsertionPoint(new.regions[0].blocks.append(*types)):
                rtask.YieldOp.build(rtask.pack([]))
        self._kernels[made] = new
        return made
