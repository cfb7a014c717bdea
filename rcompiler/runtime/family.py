"""One file with programs of a model for several sizes of its inputs, over one block of weights.

    header      {"buckets": {"symbols": ["batch"], "axes": [[0, null]], "programs":
                     [{"sizes": [[1, 1]], "header": {...}, "sections": {"code": "0 code"}}]}}
    sections    "0 code", "0 tables", "1 code", ..., "weights"

A program has the header and the sections that a file of its own would have, but for the weights,
which all of them share. Equal sections are there once. What is said of a program, its own
certificate too, is checked as it is of a file with that program alone.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rcompiler.errors import ArtifactError, ShapeError
from rcompiler.runtime import artifact as artifacts
from rcompiler.runtime import container
from rcompiler.runtime.artifact import BUCKETS, WEIGHTS, Artifact
from rcompiler.runtime.container import Bytes, MappedFile, shown
from rcompiler.runtime.memory import room_for
from rcompiler.runtime.untrusted import integer, string, strings
from rcompiler.runtime.writable import Writable
from rcompiler.support.extent import count_of
from rcompiler.support.packed_names import LENGTHS, ROWS

MOST_PROGRAMS = 64
FOLLOWS = -1  # in the place of a symbol
_MOST_SYMBOLS = 16

Interval = tuple[int, int]
# Of an axis the number of the symbol; with a factor and a number, where it is that many times the
# size and more; FOLLOWS; or None where all programs have the same size.
Axis = int | tuple[int, int, int] | None


@dataclass(frozen=True, eq=False)
class Family(Writable):
    """Programs of one model.

    Attributes:
        symbols: names of the sizes in which they differ.
        axes: of each input, of each of its axes the number of the symbol; with a factor and a
            number for a multiple of it and more; FOLLOWS for a size that is made of others; None
            where all programs have the same size.
        sizes: of each program, for each symbol the least and the greatest size that it takes.
        programs: all of them have the same weights, inputs and outputs, but for sizes.
        packed: whether they take the rows of several requests, and the lengths of these; the two
            symbols are then that of the rows and that of the longest request.
    """

    symbols: tuple[str, ...]
    axes: tuple[tuple[Axis, ...], ...]
    sizes: tuple[tuple[Interval, ...], ...]
    programs: tuple[Artifact, ...]
    packed: bool = False

    def check(self) -> None:
        """Whether the programs are of one model, and take the sizes that they are said to.

        Raises:
            ArtifactError: naming the first contradiction.
        """
        first = self.programs[0]
        if len(self.axes) != len(first.given):
            raise _fault("its sizes are of other inputs")
        for sizes, program in zip(self.sizes, self.programs, strict=True):
            for one, two in ((first.given, program.given), (first.outputs, program.outputs)):
                if [(t.name, t.dtype) for t in one] != [(t.name, t.dtype) for t in two]:
                    raise _fault("its programs have different inputs or outputs")
            if self.packed:
                self._check_packed(program)
            if program.target != first.target or program.constants is not first.constants:
                raise _fault("its programs have different targets or weights")
            for axes, tensor, other in zip(self.axes, program.given, first.given, strict=True):
                if len(axes) != len(tensor.shape):
                    raise _fault(f"input '{tensor.name}' has another rank than its sizes say")
                for axis, symbol in enumerate(axes):
                    if symbol == FOLLOWS:
                        continue
                    wanted = other.shape[axis]
                    if symbol is not None:
                        number, (factor, more) = _multiple(symbol)
                        wanted = factor * sizes[number][1] + more
                    if tensor.shape[axis] != wanted:
                        raise _fault(f"a program for other sizes of input '{tensor.name}'")

    def _check_packed(self, program: Artifact) -> None:
        """Whether a program takes the lengths of requests."""
        told = [tensor for tensor in program.given if tensor.name == LENGTHS]
        if len(told) != 1 or (len(told[0].shape), told[0].dtype) != (1, "int64"):
            raise _fault("a program takes no lengths of requests")
        if self.symbols[0] != ROWS or told[0].extents[:1] in ((), (None,)):
            raise _fault("a program takes no rows, or any number of requests")

    def size_of(self, shapes: Sequence[tuple[int, ...] | None]) -> tuple[int, ...]:
        """The sizes, in the order of the symbols, that the shapes of all inputs have.

        Args:
            shapes: of the inputs, in order; None for one of which nothing is known.

        Raises:
            ShapeError: a shape has another rank or another fixed size, or two of them disagree.
        """
        found: dict[int, tuple[int, str]] = {}
        for tensor, axes, shape in zip(self.programs[0].given, self.axes, shapes, strict=True):
            if shape is None:
                continue
            if len(shape) != len(axes):
                raise ShapeError(
                    f"input '{tensor.name}' has shape {list(shape)}, the model wants "
                    f"{self.shape_text(tensor.name)}; reshape the argument"
                )
            for axis, (symbol, size) in enumerate(zip(axes, shape, strict=True)):
                if symbol is None or symbol == FOLLOWS:
                    continue
                number, multiple = _multiple(symbol)
                count = count_of(size, multiple)
                if count is None or count < 0:
                    raise ShapeError(
                        f"axis {axis} of input '{tensor.name}' has {size} elements; the model "
                        f"wants '{self._text(symbol)}' of them; cut or pad the argument"
                    )
                known, where = found.setdefault(number, (count, tensor.name))
                if known != count:
                    raise ShapeError(
                        f"'{self.symbols[number]}' is {known} in input '{where}' and {count} in "
                        f"input '{tensor.name}'; give inputs of one size"
                    )
        return tuple(found[n][0] if n in found else -1 for n in range(len(self.symbols)))

    def program_for(self, sizes: Sequence[int]) -> int:
        """The number of the smallest program that takes inputs of these sizes.

        Args:
            sizes: for each symbol; -1 where any will do.

        Raises:
            ShapeError: none does; names the sizes that are there.
        """
        found = smallest(self.sizes, sizes, self.packed)
        if found is None:
            asked = ", ".join(f"{s}={n}" for s, n in zip(self.symbols, sizes, strict=True))
            raise ShapeError(
                f"there is no program for {asked}; the model was compiled for {self.text()}. "
                "Compile it with shapes= that have this size"
            )
        return found

    def grown(self, sizes: Sequence[Interval], program: Artifact) -> Family:
        """The same with one more program.

        Args:
            sizes: that it takes, as of `sizes`.
            program: its block of weights begins with the one of the others, which is extended.

        Raises:
            ArtifactError: as `check`.
        """
        others = (
            replace(each, constants=program.constants, storage=program.storage)
            for each in self.programs
        )
        found = replace(self, sizes=(*self.sizes, tuple(sizes)), programs=(*others, program))
        found.check()
        return found

    def text(self) -> str:
        """The sizes that there are programs for.

        Returns:
            As in ``batch: 1, 4; seq: 1 to 128``.
        """
        parts = []
        for number, symbol in enumerate(self.symbols):
            each = sorted({sizes[number] for sizes in self.sizes})
            exact = [str(low) for low, high in each if low == high]
            spans = [pair for pair in each if pair[0] != pair[1]]
            if spans:
                low, high = min(a for a, _ in spans), max(b for _, b in spans)
                exact = [n for n in exact if not low <= int(n) <= high] + [f"{low} to {high}"]
            parts.append(f"{symbol}: {', '.join(exact)}")
        return "; ".join(parts)

    def shape_text(self, name: str) -> str:
        """The shape of an input, with symbols: ``[batch, 3, 224, 224]``.

        Args:
            name: of the input.
        """
        return f"[{', '.join(map(str, self.sizes_of(name)))}]"

    def sizes_of(self, name: str) -> tuple[int | str, ...]:
        """The shape of an input, with the names of sizes that differ.

        Args:
            name: of the input.
        """
        first = self.programs[0].given
        [number] = [n for n, tensor in enumerate(first) if tensor.name == name]
        return tuple(
            size if symbol is None else "?" if symbol == FOLLOWS else self._text(symbol)
            for size, symbol in zip(first[number].shape, self.axes[number], strict=True)
        )

    def _text(self, axis: int | tuple[int, int, int]) -> str:
        """``32*h + 1``"""
        number, (factor, more) = _multiple(axis)
        times = f"{factor}*" if factor > 1 else ""
        tail = f" {'-' if more < 0 else '+'} {abs(more)}" if more else ""
        return f"{times}{self.symbols[number]}{tail}"

    def content(self) -> tuple[dict[str, Any], dict[str, Bytes]]:
        """Header and sections of the file, see `Artifact.content`.

        Returns:
            JSON values, and uint8[size] by the names of sections.
        """
        readable = self.programs[0].readable_storage()
        if readable is not self.programs[0].storage:
            plain = tuple(replace(program, storage=readable) for program in self.programs)
            return replace(self, programs=plain).content()
        kept: dict[str, Bytes] = {}
        names: dict[str, str] = {}
        described = []
        first = self.programs[0]
        if first.mapped is not None:
            first.mapped.check()
        for number, (sizes, program) in enumerate(zip(self.sizes, self.programs, strict=True)):
            if program.constants is first.constants and program.storage is first.storage:
                program.__dict__["described_weights"] = first.described_weights
            header, sections = program.without_weights()
            places = {}
            for name, data in sections.items():
                digest = hashlib.sha256(data.data).hexdigest()
                places[name] = names.setdefault(digest, f"{number} {name}")
                kept.setdefault(places[name], data)
            described.append({"sizes": sizes, "header": header, "sections": places})
        axes = [list(each) for each in self.axes]
        family: dict[str, Any] = {"symbols": self.symbols, "axes": axes, "programs": described}
        if self.packed:
            family["packed"] = True
        header, weights = first.weights()
        return {BUCKETS: family, **header}, dict(sorted({**kept, **weights}.items()))


def smallest(
    programs: Sequence[Sequence[Interval]], sizes: Sequence[int], packed: bool = False
) -> int | None:
    """The number of the smallest program that takes inputs of these sizes; None where none does.

    Args:
        programs: of each, for each symbol, the least and the greatest size that it takes.
        sizes: for each symbol; -1 where any will do.
        packed: whether they take the rows of several requests, see `Family`.
    """
    found = []
    for number, intervals in enumerate(programs):  # a loop, as new sizes of a call come here
        for n, (a, b) in zip(sizes, intervals, strict=True):
            if n >= 0 and not a <= n <= b:
                break
        else:
            found.append(number)
    if len(found) < 2:
        return found[0] if found else None

    def bound(number: int) -> tuple[int, ...]:
        tops = [top for _, top in programs[number]]
        # the work of a packed program is in its rows, whatever the longest request is
        return tuple(tops) if packed else (math.prod(tops),)

    return min(found, key=lambda number: (bound(number), number))


def load(
    path: str | Path, *, full: bool = False, mapped: bool = True, sha256: str | None = None
) -> Artifact | Family:
    """Read a file, with a model of one size or of several; nothing of it is executed.

    Args:
        path, full, mapped, sha256: as of `Artifact.load`.

    Raises:
        ArtifactError, DeviceError: as `Artifact.load`.
    """
    with (
        room_for(f"{shown(path)}: reading it"),
        container.reading(Path(path), full, mapped, sha256) as (header, sections, file),
    ):
        return checked(path, header, sections, full, file)


def from_bytes(data: bytes) -> Artifact | Family:
    """The same of the bytes of a file.

    Args:
        data: all of them.

    Raises:
        ArtifactError, DeviceError: as `Artifact.from_bytes`.
    """
    return artifacts.of_bytes(data, checked)


def together(
    symbols: Sequence[str],
    axes: Sequence[Sequence[Axis]],
    sizes: Sequence[Sequence[Interval]],
    programs: Sequence[Artifact],
) -> Family:
    """A family of programs that were compiled for one block of weights, which the first one has.

    Args:
        symbols, axes, sizes, programs: as of `Family`.

    Raises:
        ArtifactError: as `Family.check`.
    """
    first = programs[0]
    shared = [
        replace(program, constants=first.constants, storage=first.storage) for program in programs
    ]
    found = Family(tuple(symbols), tuple(map(tuple, axes)), tuple(map(tuple, sizes)), tuple(shared))
    found.check()
    return found


def checked(
    path: str | Path,
    header: Mapping[str, Any],
    sections: Mapping[str, np.ndarray],
    full: bool,
    file: MappedFile | None = None,
) -> Artifact | Family:
    """What a file that is whole holds.

    Args:
        path: what to call it.
        header, sections: what was read.
        full, file: as of `storage.loaded`.

    Raises:
        ArtifactError: it is not consistent.
    """
    if BUCKETS not in header:
        return artifacts.checked(path, header, sections, full, file)
    weights = artifacts.shared_weights(path, header, sections, full, file)

    def parts() -> tuple[Any, ...]:
        said = header[BUCKETS]
        symbols, axes = strings(said["symbols"]), tuple(map(_axes, said["axes"]))
        entries = said["programs"]
        if not isinstance(entries, list) or not 1 <= len(entries) <= MOST_PROGRAMS:
            raise ValueError
        if not 1 <= len(symbols) <= _MOST_SYMBOLS or len({*symbols}) < len(symbols):
            raise ValueError
        for axis in (axis for each in axes for axis in each if axis not in (None, FOLLOWS)):
            number, (factor, _) = _multiple(axis)
            if number not in range(len(symbols)) or factor < 1:
                raise ValueError
        sizes = tuple(_sizes(entry["sizes"], len(symbols)) for entry in entries)
        headers = [entry["header"] for entry in entries]
        if not all(isinstance(each, dict) for each in headers):
            raise ValueError
        places = [
            {string(name): string(place) for name, place in entry["sections"].items()}
            for entry in entries
        ]
        named = {place for each in places for place in each.values()} | {WEIGHTS}
        if named != {*sections} or any(WEIGHTS in each for each in places):
            raise ValueError
        packed = said.get("packed", False)
        if packed not in (False, True) or (packed and len(symbols) != 2):
            raise ValueError
        return symbols, axes, sizes, headers, places, packed

    symbols, axes, sizes, headers, places, packed = container.decoded(str(path), parts)
    programs = []
    for own_header, place in zip(headers, places, strict=True):
        own = {name: sections[section] for name, section in place.items()}
        described = {name: header["sections"][section] for name, section in place.items()}
        programs.append(artifacts.certified(path, own_header, own, described, weights))
    family = Family(symbols, axes, sizes, tuple(programs), packed)
    try:
        family.check()
    except ArtifactError as error:
        raise ArtifactError(f"{path}: {error}") from None
    return family


def _axes(said: Any) -> tuple[Axis, ...]:
    if not isinstance(said, list):
        raise ValueError
    return tuple(None if each is None else _axis(each) for each in said)


def _axis(said: Any) -> Axis:
    if not isinstance(said, list):
        return integer(said)
    number, factor, more = map(integer, said)
    return number, factor, more


def _multiple(axis: int | tuple[int, int, int]) -> tuple[int, tuple[int, int]]:
    """The number of the symbol that an axis is made of, and what of it."""
    return (axis, (1, 0)) if isinstance(axis, int) else (axis[0], axis[1:])


def _sizes(said: Any, count: int) -> tuple[Interval, ...]:
    found = tuple((integer(low), integer(high)) for low, high in said)
    if len(found) != count or any(not 0 <= low <= high for low, high in found):
        raise ValueError
    return found


def _fault(reason: str) -> ArtifactError:
    return ArtifactError(f"artifact: {reason}; compile the model again")
