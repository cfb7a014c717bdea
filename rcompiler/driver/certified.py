"""A compiled file before it runs: is its certificate one of what will run?

The checker knows nothing of files: here it is given the streams, the notes beside them and the
certificate. Needs numpy only.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from rcompiler.checker import MOST, Facts, Refused, check
from rcompiler.errors import ArtifactError, ScheduleError
from rcompiler.runtime import tables
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.memory import room_for
from rcompiler.runtime.untrusted import integer

_NOTES = ("notes", "stream", "clocks")  # rules that say that a file is none, not that it races
_UNREADABLE = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError)
_MOST_CLOCKS = 1 << 28  # bytes of a certificate


@dataclass(frozen=True)
class CheckedLaunch:
    """A program as the checker is given it, stream by stream, see `Facts`."""

    streams: Sequence[np.ndarray]
    operators: Sequence[Sequence[int]]
    lines: Sequence[int]
    dynamic: bool


def prove(artifact: Artifact) -> None:
    """Check that the programs of an artifact may run.

    Raises:
        ArtifactError: there is no certificate, or it is not of these programs.
        ScheduleError: the schedule has a race or a deadlock, or leaves a result unwritten.
        DeviceError: there is not enough memory.
    """
    if not artifact.proof:
        raise ArtifactError(
            "the compiled model carries no proof of its schedule; compile the model again"
        )
    try:
        with room_for("the proof of the schedule: checking it"):
            check(facts(artifact))
    except Refused as refused:
        if refused.rule in _NOTES:
            raise _unfit(str(refused)) from None
        raise ScheduleError(f"{refused}; compile the model again", refused.rule) from None
    except _UNREADABLE:
        raise _unfit("they cannot be read") from None


def facts(artifact: Artifact) -> Facts:
    """What the checker is given of an artifact."""
    notes: Any = artifact.proof
    noted = [[integer(line) for line in data.get("lines", ())] for data in notes["programs"]]
    lines = [
        own if program.taken_by else [*range(len(program.streams))]
        for program, own in zip(artifact.programs, noted, strict=True)
    ]
    numbers_of, operators = resolved(notes, len(artifact.inputs))
    inputs = [tensor.nbytes for tensor in artifact.inputs]
    outputs = [tensor.nbytes for tensor in artifact.written]
    constants, pinned = int(artifact.constants.size), int(artifact.image.pinned)
    numbers([artifact.arena_bytes, constants, pinned, *inputs, *outputs])
    return Facts(
        boxes=boxes(notes),
        sizes=[(k.tasks, k.operand_bytes, k.outputs, k.pinned) for k in artifact.kernels],
        **operators,
        **flat(
            CheckedLaunch(
                program.streams,
                [[*map(numbers_of.__getitem__, own)] for own in program.operators],
                own,
                program.taken_by > 0,
            )
            for program, own in zip(artifact.programs, lines, strict=True)
        ),
        arena=artifact.arena_bytes,
        constants=constants,
        inputs=inputs,
        outputs=outputs,
        pinned=pinned,
        clocks=unpacked(artifact.clocks, lines),
        updates=[(state.input, state.output) for state in artifact.states if state.in_place],
    )


def flat(launches: Iterable[CheckedLaunch]) -> dict[str, Any]:
    """What `Facts` have of some launches, their streams one behind the other."""
    launches = [*launches]
    streams = [np.zeros(0, np.int64), *(stream for own in launches for stream in own.streams)]
    of = [number for number, own in enumerate(launches) for _ in own.streams]
    lines = [line for own in launches for line in own.lines]
    ends = np.cumsum([len(stream) for stream in streams])[1:]
    runs = [*chain(*(names for own in launches for names in own.operators))]
    return {
        "words": np.concatenate(streams, dtype=np.int64),
        "streams": np.array([*zip(ends, of, lines, strict=True)], np.int64).reshape(-1, 3),
        "dynamic": np.array([own.dynamic for own in launches], bool),
        "runs": np.array(runs, np.int64),
    }


def unpacked(clocks: bytes, lines: Sequence[Sequence[int]]) -> np.ndarray:
    """The table of a certificate, see `rammer.certificate`. lines: of the streams of each program.

    Raises Refused for a certificate that is damaged, or too large.
    """
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(clocks[1:], _MOST_CLOCKS)
    except zlib.error as error:
        raise Refused("clocks", f"the certificate is damaged: {error}") from None
    columns = max([-1, *(line for own in lines for line in own)]) + 2
    size = clocks[0] if clocks else 0
    words = -(-columns * size // 8)
    if not unpacker.eof or size not in (2, 4) or len(raw) % (8 + 8 * words):
        raise Refused("clocks", "the certificate is not of this schedule")
    sums = np.cumsum(np.frombuffer(raw, "<u8").reshape(1 + words, -1), axis=1, dtype="<u8")
    whole = np.empty((sums.shape[1], words), "<u8")
    whole[np.argsort(sums[0], kind="stable")] = sums[1:].T
    table = whole.view(f"<u{size}")[:, :columns]
    table[:, 0] = sums[0]
    return table


def resolved(notes: Any, inputs: int) -> tuple[dict[str, int], dict[str, Any]]:
    """The operators of the notes by name, and what `Facts` have of them: names, kernels, uses and
    operands.

    inputs: how many the model has.
    """
    # columns, and no rows, which the collector would look through
    _, kinds, offsets, sizes, indices, _, _, values = notes["buffers"]
    if (numbers(sizes) < 0).any():
        raise ValueError("a buffer of less than no bytes")
    bases = {
        "temp": tables.ARENA,
        "constant": tables.CONSTANTS,
        "input": tables.EXTERNAL,
        "output": tables.EXTERNAL + inputs,
        "pinned": tables.PINNED,
    }
    base = np.array([bases[kind] for kind in tables.BUFFER_KINDS])[numbers(kinds)]
    base += np.where(base >= tables.EXTERNAL, numbers(indices), 0)
    rows = np.stack([numbers(values), base, numbers(offsets)], axis=1)
    noted = {name: own for data in notes["programs"] for name, own in data["operators"].items()}
    kernels, operands = zip(*noted.values(), strict=True) if noted else ((), ())
    return {name: number for number, name in enumerate(noted)}, {
        "names": [*noted],
        "kernels": numbers(kernels),
        "uses": np.array([*map(len, operands)], np.int64),
        "operands": rows[numbers([*chain(*operands)])],
    }


def boxes(notes: Any) -> list[Any]:
    """What the kernels of the notes touch, with arrays of numbers, see `Facts.boxes`."""
    return [
        [
            numbers(grid),
            [_access(*access) for access in reads],
            [_access(*access) for access in writes],
            [tuple(map(integer, pair)) for pair in pairs],
        ]
        for grid, reads, writes, pairs in notes["kernels"]
    ]


def _access(shape: Sequence[Any], item: Any, dims: Sequence[Sequence[Any]]) -> list[Any]:
    flat = numbers([*shape, item, *(number for dim in dims for number in dim)])
    rank = len(shape)
    return [flat[:rank], int(flat[rank]), flat[rank + 1 :].reshape(-1, 4)]


def numbers(values: Sequence[Any]) -> np.ndarray:
    """Ints of the notes as int64; raises Refused for what is none, or larger than `MOST`."""
    whole = not {*map(type, values)} - {int}
    found = np.array(values if whole else [], np.int64)
    if not whole or ((found > MOST) | (found < -MOST)).any():
        raise Refused("notes", "a number is none")
    return found


def _unfit(what: str) -> ArtifactError:
    return ArtifactError(
        f"the notes for the proof do not fit the schedule: {what}; compile the model again"
    )


__all__ = ["CheckedLaunch", "boxes", "facts", "flat", "numbers", "prove", "resolved", "unpacked"]
