"""Programs and tensors as the header of a file has them, and back.

What is read is data from a stranger: wrong types raise what `container.decoded` catches.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rcompiler.runtime.program import Program, Tensor
from rcompiler.runtime.untrusted import integer, integers, string, strings
from rcompiler.support.extent import Extent, Symbol


def encoded_program(program: Program) -> dict[str, Any]:
    """What a header says of a program; its streams are in the section "tables"."""
    names = sorted({name for names in program.operators for name in names})
    number = {name: index for index, name in enumerate(names)}
    taken = {"taken_by": program.taken_by} if program.taken_by else {}
    return {
        **taken,
        "name": program.name,
        "events": list(program.events),
        "words": [len(stream) for stream in program.streams],
        "names": names,
        "operators": [[number[name] for name in names] for names in program.operators],
    }


def programs(entries: Any, words: np.ndarray) -> tuple[Program, ...]:
    """Programs from their entries, and the words of all of their streams, int64."""
    found, start = [], 0
    for entry in entries:
        streams = []
        for length in integers(entry["words"]):
            if length < 1:
                raise ValueError
            streams.append(words[start : start + length])
            start += length
        found.append(_program(entry, tuple(streams)))
    if start != len(words):
        raise ValueError
    return tuple(found)


def _program(entry: Any, streams: tuple[np.ndarray, ...]) -> Program:
    names = strings(entry["names"])
    operators = tuple(tuple(names[i] for i in integers(row)) for row in entry["operators"])
    return Program(
        string(entry["name"]),
        streams,
        strings(entry["events"]),
        operators,
        integer(entry.get("taken_by", 0)),
    )


def encoded_tensor(tensor: Tensor) -> list[Any]:
    """Name, shape and type; of what is known at run time extents and size, too."""
    entry = [tensor.name, list(tensor.shape), tensor.dtype]
    if not tensor.extents and tensor.size is None:
        return entry
    size = tensor.size and [tensor.size.name, tensor.size.low, tensor.size.high]
    return [*entry, [e and e.to_data() for e in tensor.extents], size]


def symbol(entry: Any) -> Symbol:
    """A count, from name and range."""
    name, low, high = entry
    return Symbol(string(name), integer(low), integer(high))


def tensors(entries: Any, symbols: Sequence[Symbol]) -> tuple[Tensor, ...]:
    """A signature; symbols: those that its extents may be made of."""
    found = []
    for name, shape, dtype, *rest in entries:
        extents, size = rest or ([], None)
        found.append(
            Tensor(
                *(string(name), integers(shape), string(dtype)),
                tuple(None if e is None else Extent.from_data(e, symbols) for e in extents),
                None if size is None else symbol(size),
            )
        )
    return tuple(found)
