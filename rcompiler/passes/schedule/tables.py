"""S4 text -> what the runtime needs: schedule streams, kernel table, signature, constant arena."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir

from rcompiler.errors import ArtifactError, InvalidModel
from rcompiler.linalg.dense import dense_array
from rcompiler.linalg.element_types import item_bytes
from rcompiler.passes.ir.module_device import ATTRIBUTE, device_of
from rcompiler.passes.schedule.program_ir import read_kernels, read_programs
from rcompiler.rammer.encode import encode, event_ids
from rcompiler.rammer.kernel import Kernel
from rcompiler.rammer.program import Program, Run
from rcompiler.runtime.deferred import Constant, write

_CHECK = ((), "int64", 8)  # shape, type and bytes


@dataclass(frozen=True)
class Indices:
    """Integers from first to last, which the node `reader` takes for indices."""

    first: int
    last: int
    reader: str


@dataclass(frozen=True)
class TensorInfo:
    """One entry of the signature; dtype is a numpy or ml_dtypes name. indices: what the elements of
    an input are; what those are that a result tells of.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    indices: Indices | None = None


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
    """The schedule of a module as data. checks: results behind the outputs, which tell of indices
    whether one is outside of its range.
    """

    programs: tuple[Program, ...]
    kernels: dict[str, Kernel]
    launches: tuple[ProgramTables, ...]
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    checks: tuple[TensorInfo, ...]
    eus: int

    def memory(self) -> tuple[int, int]:
        """Bytes of the temp arena and of the constant arena."""
        arenas = [(p.arena, p.constants) for p in self.programs]
        return max((a for a, _ in arenas), default=0), max((c for _, c in arenas), default=0)

    def sizes(self) -> tuple[list[int], list[int]]:
        """Bytes of each input, and of each output and check."""
        return [t.bytes for t in self.inputs], [t.bytes for t in (*self.outputs, *self.checks)]


def read_tables(module: ir.Operation) -> Tables:
    """Everything but code and constants; raises InvalidModel for a module that is not S4."""
    operations = [v.operation for v in module.regions[0].blocks[0].operations]
    main = next(
        (o for o in operations if o.name == "func.func" and "rtask.inputs" in o.attributes), None
    )
    device = next((o for o in operations if o.name == "vdevice.device"), None)
    if main is None or device is None:
        raise InvalidModel(
            "the module has no vdevice.device or no @main with rtask.inputs: it is not a "
            "schedule (S4)"
        )
    kernels, programs = read_kernels(module), read_programs(module)
    inputs, results = (_signature(main.attributes[n]) for n in ("rtask.inputs", "rtask.outputs"))
    outputs = tuple(result for result in results if result.indices is None)
    checks = results[len(outputs) :]
    if any(c.indices is None or (c.shape, c.dtype, c.bytes) != _CHECK for c in checks):
        raise InvalidModel(
            "a result of @main that has 'indices' is an int64 scalar behind all that have none: it "
            "tells of indices whether one is outside; undo the last change of the text"
        )
    numbers = {name: k for k, name in enumerate(kernels)}
    launches, shortest = [], _shortest_loop(module)
    for program in programs:
        names = tuple(tuple(i.operator for i in q if isinstance(i, Run)) for q in program.queues)
        streams = tuple(encode(program, numbers, len(inputs), shortest))
        events, taken_by = tuple(event_ids(program)), program.eus if program.dynamic else 0
        launches.append(ProgramTables(program.name, streams, events, names, taken_by))
    eus = ir.IntegerAttr(device.attributes["eus"]).value
    return Tables(tuple(programs), kernels, tuple(launches), inputs, outputs, checks, eus)


def _shortest_loop(module: ir.Operation) -> int:
    """By the device that the module is for; a text that is only proved need not say which."""
    return device_of(module).shortest_loop if ATTRIBUTE in module.attributes else 1


def _signature(attribute: ir.Attribute) -> tuple[TensorInfo, ...]:
    found = []
    for entry in ir.ArrayAttr(attribute):
        fields = ir.DictAttr(entry)
        type_ = ir.RankedTensorType(ir.TypeAttr(fields["type"]).value)
        name, dtype = (ir.StringAttr(fields[n]).value for n in ("name", "dtype"))
        size = math.prod(type_.shape) * item_bytes(str(type_.element_type))
        indices = _indices(fields["indices"]) if "indices" in fields else None
        found.append(TensorInfo(name, tuple(type_.shape), dtype, size, indices))
    return tuple(found)


def _indices(attribute: ir.Attribute) -> Indices:
    try:
        fields = ir.DictAttr(attribute)
        first, last = (ir.IntegerAttr(fields[name]).value for name in ("first", "last"))
        return Indices(first, last, ir.StringAttr(fields["reader"]).value)
    except (KeyError, ValueError):
        raise InvalidModel(
            f"'indices' of @main is {{first, last, reader}}, two integers and a string, not "
            f"{attribute}; undo the last change of the text"
        ) from None


def write_constants(
    module: ir.Operation, constants: Mapping[str, Constant], arena: np.ndarray
) -> dict[int, Constant]:
    """Write every constant buffer of the programs into ``arena`` (uint8), at its offset; the
    constants by these. Raises ArtifactError if one is missing.
    """
    placed: dict[int, Constant] = {}
    for view in module.regions[0].blocks[0].operations:
        if view.operation.name != "vdevice.program":
            continue
        for inner in view.operation.regions[0].blocks[0].operations:
            op = inner.operation
            if op.name == "vdevice.buffer" and "value" in op.attributes:
                array = _constant_of(op.attributes["value"], constants)
                offset, size = (ir.IntegerAttr(op.attributes[n]).value for n in ("offset", "bytes"))
                if array.nbytes != size:
                    name = ir.StringAttr(op.attributes["sym_name"]).value
                    raise ArtifactError(
                        f"constant @{name} has {size} bytes in the schedule, but {array.nbytes} "
                        "came with it; pass the weights that were saved with this schedule"
                    )
                place = arena[offset : offset + size].view(array.dtype)
                write(array, place.reshape(array.shape))
                placed[offset] = array
    return placed


def _constant_of(attribute: ir.Attribute, constants: Mapping[str, Constant]) -> Constant:
    text = "" if isinstance(attribute, ir.DenseElementsAttr) else str(attribute)
    if text.startswith("dense_resource<"):
        key = text.partition("<")[2].partition(">")[0]
        if key not in constants:
            raise ArtifactError(
                f"constant {key} is not among the weights that came with the schedule; "
                "pass its .npz file"
            )
        return constants[key]
    return dense_array(ir.DenseElementsAttr(attribute))
