"""Check the published search against recorded results: `python -m rcompiler.roller.golden FILE`.

A file is a JSON list of cases, each with the fields

    arch   device of the run, a built-in record ("MI50")
    op     operator by its name in the artifact ("matmul_expr"); shape: its extents
    idx    position of the recorded result among the ten that the search emits, from 0
    L0     its shared tile, a size per axis, spatial axes first; L1: its register tile

Other fields are ignored. Prints `N/M` (cases reproduced, tile and position, of all) after one line
per case that is not. Exit status: 0 all reproduced, 1 not, 2 the file or the device is no good.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rcompiler.device.model import Device
from rcompiler.device.record import builtin_device, builtin_names
from rcompiler.device.target import find_device
from rcompiler.errors import CompilerError
from rcompiler.roller.expr import ExpressionError
from rcompiler.roller.osdi22 import Expression, RProgram, emit, hal_of
from rcompiler.roller.osdi22.operators import operator


class GoldenError(CompilerError):
    """A file of recorded results that cannot be checked."""


@dataclass(frozen=True)
class GoldenCase:
    """One recorded result; `where` names it in messages."""

    where: str
    arch: str
    op: str
    shape: tuple[int, ...]
    index: int
    shared: tuple[int, ...]
    register: tuple[int, ...]
    expression: Expression

    def __str__(self) -> str:
        return f"{self.where}: {self.arch} {self.op} {list(self.shape)}"


@dataclass(frozen=True)
class Mismatch:
    """A case whose recorded tile is not where it was recorded. `got`: everything emitted."""

    case: GoldenCase
    got: tuple[RProgram, ...]

    def __str__(self) -> str:
        case = self.case
        tiles = [(program.shared, program.register) for program in self.got]
        wanted = (case.shared, case.register)
        there = _tiles(*tiles[case.index]) if case.index < len(tiles) else "nothing"
        found = [i for i, tile in enumerate(tiles) if tile == wanted]
        place = f"at index {found[0]}" if found else f"not among the {len(tiles)} emitted"
        return (
            f"{case}: expected index {case.index} {_tiles(*wanted)}; got {there} there, "
            f"and the expected tiles {place}"
        )


def read_cases(path: str | Path) -> list[GoldenCase]:
    """The cases of a file; GoldenError names the case and field that is missing or wrong."""
    try:
        record = json.loads(Path(path).read_text())
    except OSError as error:
        raise GoldenError(f"{path}: cannot read the file: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # also bytes that are no text
        raise GoldenError(f"{path}: not JSON: {error}") from None
    if not isinstance(record, list) or not record:
        raise GoldenError(f"{path}: not a list of cases; write at least one")
    return [_case(case, f"{path}: case {i}") for i, case in enumerate(record)]


def check(case: GoldenCase, device: Device) -> Mismatch | None:
    """None when the search reproduces `case` on `device`, tile and position."""
    got = tuple(emit(case.expression, hal_of(device)))
    if case.index < len(got):
        program = got[case.index]
        if (program.shared, program.register) == (case.shared, case.register):
            return None
    return Mismatch(case, got)


def device_of(case: GoldenCase) -> Device:
    """The built-in record of the case's arch; GoldenError when there is none."""
    name = case.arch.lower()
    if name not in builtin_names():
        known = ", ".join(builtin_names())
        raise GoldenError(f"{case}: arch is none of {known}; give --device")
    return builtin_device(name)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m rcompiler.roller.golden",
        description="Check the published Roller search against recorded results.",
    )
    parser.add_argument("file", help="JSON list of cases: arch, op, shape, idx, L0, L1")
    parser.add_argument("--device", help="name or file of a device record, instead of each arch")
    options = parser.parse_args(arguments)
    try:
        cases = read_cases(options.file)
        given = _given(options.device) if options.device else None
        devices = [given or device_of(case) for case in cases]
    except CompilerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    reproduced = 0
    for case, device in zip(cases, devices, strict=True):
        mismatch = check(case, device)
        if mismatch is None:
            reproduced += 1
        else:
            print(mismatch)
    print(f"{reproduced}/{len(cases)}")
    return 0 if reproduced == len(cases) else 1


def _case(value: Any, where: str) -> GoldenCase:
    if not isinstance(value, dict):
        raise GoldenError(f"{where}: not an object")
    missing = [f for f in ("arch", "op", "shape", "idx", "L0", "L1") if f not in value]
    if missing:
        raise GoldenError(f"{where}: the field {missing[0]!r} is missing")
    for field in ("arch", "op"):
        if not isinstance(value[field], str):
            raise GoldenError(f"{where}: {field} is {value[field]!r}, not a string")
    shape, shared, register = (_sizes(value[f], f"{where}: {f}") for f in ("shape", "L0", "L1"))
    index = value["idx"]
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        raise GoldenError(f"{where}: idx is {index!r}, not an integer from 0")
    try:
        expression = operator(value["op"], shape)
    except ExpressionError as error:
        raise GoldenError(f"{where}: {error}") from None
    for field, tile in (("L0", shared), ("L1", register)):
        axes = len(expression.sizes)
        if len(tile) != axes:
            raise GoldenError(f"{where}: {field} has {len(tile)} sizes for {axes} axes")
    return GoldenCase(where, value["arch"], value["op"], shape, index, shared, register, expression)


def _sizes(value: Any, where: str) -> tuple[int, ...]:
    good = isinstance(value, list) and all(type(size) is int and size > 0 for size in value)
    if not good:
        raise GoldenError(f"{where} is {value!r}, not a list of integers above 0")
    return tuple(value)


def _given(record: str) -> Device:
    name = record.lower()
    return find_device(name if name in builtin_names() else record)


def _tiles(shared: Sequence[int], register: Sequence[int]) -> str:
    return f"L0 {list(shared)} L1 {list(register)}"


if __name__ == "__main__":
    sys.exit(main())
