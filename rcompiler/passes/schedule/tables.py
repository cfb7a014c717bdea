"""S4 text -> what the runtime needs: schedule streams, kernel table, signature, constant arena; and
the proof of it, whoever wrote the text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch_mlir import ir

from rcompiler.dialects.attributes import to_python
from rcompiler.errors import ArtifactError, InvalidModel
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.values import integer, ops_of, string
from rcompiler.passes.constants.fold import constant_of
from rcompiler.passes.ir.module_device import ATTRIBUTE, device_of
from rcompiler.passes.ir.operators import ops_in_module
from rcompiler.passes.schedule.program_ir import read_kernels, read_programs
from rcompiler.rammer.encode import encode, event_ids
from rcompiler.rammer.kernel import Kernel
from rcompiler.rammer.program import Program, Run
from rcompiler.rammer.states import updates
from rcompiler.rammer.validate import validate
from rcompiler.runtime.deferred import Constant, write
from rcompiler.support.extent import Extent, Symbol

_SCALAR = ((), "int64", 8)  # shape, type and bytes of a check, and of a count


@dataclass(frozen=True)
class Indices:
    """Integers from first to last, which the node `reader` takes for indices; what else they are
    `says` says of one that is outside; `bound` is the name in `bounds` that would allow it.
    """

    first: int
    last: int
    reader: str
    says: str = ""
    bound: str = ""


@dataclass(frozen=True)
class TensorInfo:
    """One entry of the signature; dtype is a numpy or ml_dtypes name. indices: what the elements of
    an input are; what those are that a result tells of. extents: along each axis how much is there;
    () where all is. size: the count that it is. state: of which it is the last or the next value;
    double_buffered: why a next value lies not where the last one does.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    indices: Indices | None = None
    extents: tuple[Extent | None, ...] = ()
    size: Symbol | None = None
    state: str | None = None
    double_buffered: str = ""


@dataclass(frozen=True)
class StateInfo:
    """A state: its last value is an input, its next one an output, by their numbers. in_place:
    whether both lie in one place.
    """

    name: str
    input: int
    output: int
    in_place: bool


@dataclass(frozen=True)
class ProgramTables:
    """One launch: a stream per EU or queue, event names by number, operator names of the runs of
    each; taken_by: EUs that take the queues of a dynamic program, else 0.
    """

    name: str
    streams: tuple[np.ndarray, ...]
    events: tuple[str, ...]
    operators: tuple[tuple[str, ...], ...]
    taken_by: int


@dataclass(frozen=True)
class Tables:
    """The schedule of a module as data. counts: results behind the outputs, sizes that the model
    computes; checks: results behind those, which tell of indices whether one is outside of its
    range.
    """

    programs: tuple[Program, ...]
    kernels: dict[str, Kernel]
    launches: tuple[ProgramTables, ...]
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    counts: tuple[TensorInfo, ...]
    checks: tuple[TensorInfo, ...]
    states: tuple[StateInfo, ...]
    eus: int

    def memory(self) -> tuple[int, int]:
        """Bytes of the temp arena and of the constant arena."""
        arenas = [(p.arena, p.constants) for p in self.programs]
        return max((a for a, _ in arenas), default=0), max((c for _, c in arenas), default=0)

    def sizes(self) -> tuple[list[int], list[int]]:
        """Bytes of each input, and of each output, count and check."""
        written = *self.outputs, *self.counts, *self.checks
        return [t.bytes for t in self.inputs], [t.bytes for t in written]


def read_tables(module: ir.Operation) -> Tables:
    """Everything but code and constants; raises InvalidModel for a module that is not S4."""
    functions = ops_in_module(module, "func.func")
    main = next((f for f in functions if "rtask.inputs" in f.attributes), None)
    device = next(iter(ops_in_module(module, "vdevice.device")), None)
    if main is None or device is None:
        raise InvalidModel(
            "the module has no vdevice.device or no @main with rtask.inputs: it is not a "
            "schedule (S4)"
        )
    kernels, programs = read_kernels(module), read_programs(module)
    sides = [main.attributes[n] for n in ("rtask.inputs", "rtask.outputs")]
    symbols = [_symbol(entry["size"]) for s in sides for entry in to_python(s) if "size" in entry]
    inputs, results = (_signature(side, symbols) for side in sides)
    outputs = tuple(r for r in results if r.indices is None and r.size is None)
    checks = tuple(result for result in results if result.indices is not None)
    counts = results[len(outputs) : len(results) - len(checks)]
    if results != (*outputs, *counts, *checks) or any(
        (c.shape, c.dtype, c.bytes) != _SCALAR for c in (*counts, *checks)
    ):
        raise InvalidModel(
            "a result of @main that has 'indices' is an int64 scalar behind all that have none: it "
            "tells of indices whether one is outside; one that has a 'size' is such a scalar "
            "before these; undo the last change of the text"
        )
    sizes = [each for each in inputs if each.size is not None]
    if sizes != [*inputs[len(inputs) - len(sizes) :]] or any(
        (each.shape, each.dtype, each.bytes) != _SCALAR for each in sizes
    ):
        raise InvalidModel(
            "an argument of @main that has a 'size' is an int64 scalar behind all that have none; "
            "undo the last change of the text"
        )
    states = _states(inputs, outputs, updates(programs))
    numbers = {name: k for k, name in enumerate(kernels)}
    launches, shortest = [], _shortest_loop(module)
    for program in programs:
        names = tuple(tuple(i.operator for i in q if isinstance(i, Run)) for q in program.queues)
        streams = tuple(encode(program, numbers, len(inputs), shortest))
        events, taken_by = tuple(event_ids(program)), program.eus if program.dynamic else 0
        launches.append(ProgramTables(program.name, streams, events, names, taken_by))
    eus = integer(device, "eus")
    return Tables(
        tuple(programs), kernels, tuple(launches), inputs, outputs, counts, checks, states, eus
    )


def _states(
    inputs: tuple[TensorInfo, ...], outputs: tuple[TensorInfo, ...], over: Mapping[int, int]
) -> tuple[StateInfo, ...]:
    """The states of a signature. over: inputs by the outputs that lie in their place."""
    last, following = (
        [number for number, tensor in enumerate(side) if tensor.state is not None]
        for side in (inputs, outputs)
    )
    count, pairs = len(last), [*zip(last, following, strict=False)]
    alike = all(
        (a.state, a.shape, a.dtype) == (b.state, b.shape, b.dtype)
        for a, b in ((inputs[i], outputs[j]) for i, j in pairs)
    )
    behind = (
        last == [*range(len(inputs))][len(inputs) - count :]
        and following == [*range(len(outputs))][len(outputs) - count :]
    )
    if not alike or not behind or len({inputs[i].state for i in last}) < count:
        raise InvalidModel(
            "the inputs of @main that have 'state' are the last ones, and so are its outputs: one "
            "of each of the same state and type, in one order; undo the last change of the text"
        )
    if strange := [j for j, i in over.items() if (i, j) not in pairs]:
        raise InvalidModel(
            f"output {strange[0]} lies over input {over[strange[0]]}, and they are not the next "
            "and the last value of one state; leave 'over' out of its buffers"
        )
    return tuple(StateInfo(inputs[i].state or "", i, j, j in over) for i, j in pairs)


def _shortest_loop(module: ir.Operation) -> int:
    """By the device that the module is for; a text that is only proved need not say which."""
    return device_of(module).shortest_loop if ATTRIBUTE in module.attributes else 1


def _signature(attribute: ir.Attribute, symbols: Sequence[Symbol]) -> tuple[TensorInfo, ...]:
    found = []
    for fields in to_python(attribute):
        type_ = fields["type"]
        if not isinstance(type_, ir.RankedTensorType):
            raise InvalidModel(
                f"'type' in a signature of @main is the type of a tensor, not {type_}; undo the "
                "last change of the text"
            )
        size = math.prod(type_.shape) * item_bytes(str(type_.element_type))
        indices = _indices(fields["indices"]) if "indices" in fields else None
        shape = tuple(type_.shape)
        more = {name: fields[name] for name in ("state", "double_buffered") if name in fields}
        if not all(isinstance(text, str) for text in more.values()):
            raise InvalidModel(
                "'state' and 'double_buffered' in a signature of @main are strings; undo the last "
                "change of the text"
            )
        extents = _extents(fields["extents"], len(shape), symbols) if "extents" in fields else ()
        symbol = _symbol(fields["size"]) if "size" in fields else None
        own = fields["name"], shape, fields["dtype"], size
        found.append(TensorInfo(*own, indices, extents, symbol, **more))
    return tuple(found)


def _extents(said: Any, rank: int, symbols: Sequence[Symbol]) -> tuple[Extent | None, ...]:
    try:
        if len(said) == rank:
            return tuple(Extent.from_data(each, symbols) if each else None for each in said)
    except TypeError:
        pass
    raise InvalidModel(
        "'extents' of @main are lists of terms, such as [[3, \"seq\"], [1]], for each axis, made "
        f"of counts that have a 'size', not {said}; undo the last change of the text"
    )


def _symbol(said: Any) -> Symbol:
    match said:
        case {"symbol": str(name), "low": int(low), "high": int(high)} if 0 <= low <= high:
            return Symbol(name, low, high)
    raise InvalidModel(
        "'size' of @main is {symbol, low, high}, a string and two integers from 0 on, not "
        f"{said}; undo the last change of the text"
    )


def _indices(said: Any) -> Indices:
    match said:
        case {"first": int(first), "last": int(last), "reader": str(reader), **more} if not (
            isinstance(first, bool) or isinstance(last, bool)
        ):
            says, bound = more.get("says", ""), more.get("bound", "")
            if isinstance(says, str) and isinstance(bound, str):
                return Indices(first, last, reader, says, bound)
    raise InvalidModel(
        "'indices' of @main is {first, last, reader}, two integers and a string, with strings "
        f"'says' and 'bound' or without, not {said}; undo the last change of the text"
    )


def write_constants(
    module: ir.Operation, constants: Mapping[str, Constant], arena: np.ndarray
) -> dict[int, Constant]:
    """Write every constant buffer of the programs into ``arena`` (uint8), at its offset; the
    constants by these. Raises ArtifactError if one is missing.
    """
    placed: dict[int, Constant] = {}
    for program in ops_in_module(module, "vdevice.program"):
        for op in ops_of(program.regions[0].blocks[0]):
            if op.name == "vdevice.buffer" and "value" in op.attributes:
                array = constant_of(op.attributes["value"], constants)
                offset, size = (integer(op, n) for n in ("offset", "bytes"))
                if array.nbytes != size:
                    name = string(op, "sym_name")
                    raise ArtifactError(
                        f"constant @{name} has {size} bytes in the schedule, but {array.nbytes} "
                        "came with it; pass the weights that were saved with this schedule"
                    )
                place = arena[offset : offset + size].view(array.dtype)
                write(array, place.reshape(array.shape))
                placed[offset] = array
    return placed


def proved_tables(module: ir.Operation) -> Tables:
    """The schedule of a module as data, when it is proved that it may run.

    What the rKernels say of their rTasks is believed here; `tiling.claims` checks it. Raises
    InvalidModel for a module that is not S4, ScheduleError for a schedule that is not right.
    """
    tables = read_tables(module)
    inputs, outputs = tables.sizes()
    validate(
        tables.programs,
        kernels=[*tables.kernels.values()],
        max_eus=tables.eus,
        inputs=inputs,
        outputs=outputs,
    )
    return tables
