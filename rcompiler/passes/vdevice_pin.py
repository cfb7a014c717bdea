"""vdevice-pin: S4 -> S4, tiles of weights that EUs read again and again stay in their memory.

Before, for each EU that runs a task of every step:
    "vdevice.repeat"() ({ wait ; "vdevice.run"() {kernel = @k, operator = "step{0+i}", first = 3,
        buffers = [@"h{0+i}", @w, @"h{1+i}"], ...} ; signal }) {count = 100}
After:
    "vdevice.run"() {kernel = @pin, operator = "w.pin", first = 3, buffers = [@w, @w.pinned], ...}
    "vdevice.repeat"() ({ wait ; "vdevice.run"() {kernel = @k_pinned, operator = "step{0+i}",
        first = 3, buffers = [@"h{0+i}", @w.pinned, @"h{1+i}"], ...} ; signal }) {count = 100}
@pin copies the tile of its task to @w.pinned, of which each EU has its tiles alone, in the shared
memory of its block; @k_pinned is @k that reads it there. It costs one read of the weights, while
the first EUs begin and the others wait, and each step then takes them from a memory that is an EU's
own. The proof of a schedule follows the tiles as it follows all values, and EU by EU where they
lie (`rcompiler.rammer.pinned_boxes`).

Left alone: products that tiles of both factors are shared in (they stream through the same memory);
tasks that run elsewhere than the others that read a tile; what does not fit beside the workspaces;
what bringing it costs more than the steps would save.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.device.model import Device
from rcompiler.dialects import vdevice
from rcompiler.dialects.attributes import Symbol, to_attribute
from rcompiler.dialects.rtask import PREFETCH
from rcompiler.kernelgen.simt.target import SimtFeatures
from rcompiler.linalg.generic import generics_of
from rcompiler.linalg.product import is_product
from rcompiler.linalg.values import integer, string
from rcompiler.options import Precision
from rcompiler.passes import OptionalPass, PassFailure
from rcompiler.passes.ir.module_device import attached
from rcompiler.passes.ir.operators import kernels_by_name, ops_in_module
from rcompiler.passes.schedule.pinned_kernels import PinnedKernels
from rcompiler.passes.schedule.program_ir import ProgramParts
from rcompiler.passes.schedule.readers import Group, groups_of
from rcompiler.passes.vdevice_to_gpu import features_of, function_of
from rcompiler.rammer.kernel import Access
from rcompiler.rammer.pinned_boxes import may_pin
from rcompiler.rammer.pinning import Slot, Tiles, Use, bring_ns, pin, pinned_ns

_LEAST = 1 << 12  # bytes of a tile: of fewer, an instruction costs more than the way to them
# Of the memory of an EU, the most that is tried first. The factors of products can do with the rest
# of a half (`rcompiler.roller.staged.kept_room`), and are faster in more.
_SHARES = (0.75, 0.5)
_UNIT = 1 << 10  # bytes; behind the tiles is the workspace, where TMA wants a multiple of it

_Key = tuple[str, Access]
"""A constant by its buffer, and how tasks cut it."""


@dataclass(frozen=True)
class VdevicePin(OptionalPass):
    """Keep tiles of weights that EUs read again and again in their own memory."""

    def run(self, module: ir.Operation) -> None:
        on = attached(module)
        device = on.device
        programs = ops_in_module(module, "vdevice.program")
        kernels = kernels_by_name(module)
        if not device.is_nvidia or not programs:
            return
        made = PinnedKernels(kernels, device)
        for program in programs:
            _Program(program, kernels, device, on.precision).run(made)
        made.erase_unused(programs)


class _Program(ProgramParts):
    """One program."""

    def __init__(
        self,
        program: ir.Operation,
        kernels: dict[str, ir.Operation],
        device: Device,
        precision: Precision,
    ) -> None:
        super().__init__(program, kernels)
        self._device, self._precision = device, precision
        self._pinnable = {name: tuple(self._operands(name)) for name in kernels}

    def _operands(self, name: str) -> Iterator[int]:
        """Operands of an rKernel of which each task reads a tile by itself, and no product does."""
        op, kernel = self._kernels[name], self._plain[name]
        generics = generics_of(op.regions[0].blocks[0])
        if string(op, "kind") in (PREFETCH, "sequential") or any(map(is_product, generics)):
            return
        for number, access in enumerate(kernel.reads):
            if access.task_bytes >= _LEAST and may_pin(kernel, access):
                yield number

    def run(self, made: PinnedKernels) -> None:
        eus = sum(integer(op, "last") - integer(op, "first") + 1 for op in self._lists)
        if not 0 < eus <= self._device.eus:  # several blocks share the memory of an EU
            return
        groups = groups_of(self._lists, frozenset(self._constants), self._pinnable)
        tiles = self._tiles(groups)
        features = self._features()
        for share in _SHARES:
            slots = pin(tiles, int(features.shared * share))
            chosen = self._profitable_operands(groups, slots)
            used = {key: slots[key] for own in chosen.values() for key in own.values()}
            pinned = -(-max((slot.end for slot in used.values()), default=0) // _UNIT) * _UNIT
            if used and self._fit(pinned):
                with self._program.location:
                    self._program.attributes["pinned"] = to_attribute(pinned)
                    self._apply(groups, chosen, used, made)
                return

    def _profitable_operands(
        self, groups: list[Group], slots: dict[_Key, Slot]
    ) -> dict[int, dict[int, _Key]]:
        """By group the operands that it had better read where they are pinned: what that saves is
        more than what it takes to bring them, unless a larger group needs them there anyway.
        """
        found: dict[int, dict[int, _Key]] = {}
        brought: set[_Key] = set()
        for number in sorted(range(len(groups)), key=lambda n: -len(groups[n].operators)):
            group, keys = groups[number], self._keys(groups[number])
            own = {k: key for k, key in keys.items()
                   if key in slots and number in slots[key].groups}  # fmt: skip
            kernel = self._plain[group.kernel]
            ns, _ = pinned_ns(kernel, tuple(own), self._device)
            tasks = max(count for _, _, count in group.places) * len(group.operators)
            saved = (kernel.estimated_ns - ns) * tasks
            left = set(own.values()) - brought
            sizes = [slots[key].end - slots[key].offset for key in left]
            if saved > sum(bring_ns(size, self._device) for size in sizes):
                found[number] = own
                brought |= left
        return found

    def _tiles(self, groups: list[Group]) -> dict[_Key, Tiles]:
        """What could be pinned."""
        uses: dict[_Key, list[Use]] = {}
        for number, group in enumerate(groups):
            for key in dict.fromkeys(self._keys(group).values()):
                own = Use(number, len(group.operators), group.places)
                uses.setdefault(key, []).append(own)
        return {key: Tiles(key[1].task_bytes, tuple(own)) for key, own in uses.items()}

    def _keys(self, group: Group) -> dict[int, _Key]:
        """By operand."""
        reads = self._plain[group.kernel].reads
        found = {k: (group.buffers[k], reads[k]) for k in self._pinnable[group.kernel]}
        return {k: key for k, key in found.items() if key[0] in self._constants}

    def _features(self, pinned: int = 0) -> SimtFeatures:
        return features_of(self._device, self._precision, self._device.persistent_threads, pinned)

    def _fit(self, pinned: int) -> bool:
        """Whether what the rKernels of the program need fits beside so many bytes."""
        features = self._features(pinned)
        for name, kernel in self._plain.items():
            if kernel.workspace > features.shared:
                return False
            op = self._kernels[name]
            if self._pinnable[name] or string(op, "kind") == PREFETCH:
                continue
            try:
                function_of(op, features)
            except PassFailure:
                return False
        return True

    def _apply(
        self,
        groups: list[Group],
        chosen: dict[int, dict[int, _Key]],
        slots: dict[_Key, Slot],
        made: PinnedKernels,
    ) -> None:
        """Declare the buffers, fill them at the beginning of each list, and read them."""
        names = _names(slots)
        for key, slot in slots.items():
            self._declare(key, names[key], slot)
        lists = [[*unit.regions[0].blocks[0].operations] for unit in self._lists]
        begins = {unit: views[0].operation for unit, views in enumerate(lists) if views}
        filled: set[tuple[int, _Key]] = set()
        for number, own in sorted(chosen.items()):
            kernel = made.reading(groups[number].kernel, tuple(own))
            for unit, run in groups[number].runs:
                buffers = [*ir.ArrayAttr(run.attributes["buffers"])]
                for k, key in own.items():
                    if (unit, key) not in filled:
                        filled.add((unit, key))
                        self._fill(begins[unit], run, key, names[key], made)
                    buffers[k] = to_attribute(Symbol(names[key]))
                run.attributes["kernel"] = to_attribute(Symbol(kernel))
                run.attributes["buffers"] = ir.ArrayAttr.get(buffers)

    def _declare(self, key: _Key, name: str, slot: Slot) -> None:
        with ir.InsertionPoint(self._lists[0]), self._program.location:
            source = self._constants[key[0]]
            type_ = ir.TypeAttr(source.attributes["type"]).value
            vdevice.BufferOp.build(name, "pinned", slot.offset, key[1].bytes, type_)

    def _fill(
        self, start: ir.Operation, run: ir.Operation, key: _Key, name: str, made: PinnedKernels
    ) -> None:
        """Each EU of a list brings the tile that `run` reads; start: what the list begins with."""
        kernel = made.writing(ir.TypeAttr(self._constants[key[0]].attributes["type"]).value, key[1])
        first, count, step = (integer(run, name) for name in ("first", "count", "eu_step"))
        with ir.InsertionPoint(start), run.location:
            vdevice.RunOp.build(kernel, f"{name}.pin", first, count, 1, step, [key[0], name])


def _names(slots: dict[_Key, Slot]) -> dict[_Key, str]:
    """Of the buffers; a constant may be cut in several ways."""
    found: dict[_Key, str] = {}
    for key in slots:
        same = sum(other[0] == key[0] for other in found)
        found[key] = f"{key[0]}.pinned{'.' * bool(same)}{same or ''}"
    return found
