"""What stands in a vdevice.repeat, iteration by iteration: names and integers that move.

    "vdevice.repeat"() ({ "vdevice.buffer"() {offset = 0, offset_steps = array<i64: 64>,
      sym_name = "h{0+i}", ...} }) {count = 3}

declares h0, h1 and h2 at 0, 64 and 128. Inside of two repeats, "h{0+i+3j}" counts both iterations.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from torch_mlir import ir

from rcompiler.dialects.attributes import integer_or_none

LETTERS = "ijklmnop"  # the iterations of repeats inside of each other, outermost first
MOST = 1 << 22  # ops of a program with its repeats gone through: text may ask for any number

Index: TypeAlias = tuple[int, ...]
"""The iteration of each repeat around an op, outermost first."""

_NUMBER = re.compile(rf"\{{(\d{{1,18}})((?:[+-]\d{{0,18}}[{LETTERS}])+)\}}")
_TERM = re.compile(rf"([+-])(\d*)([{LETTERS}])")


def moving_number(first: int, steps: Sequence[int]) -> str:
    """How a number of a name is written that moves by `steps` in the repeats around it."""
    terms = [
        f"{'-' if step < 0 else '+'}{abs(step) if abs(step) != 1 else ''}{letter}"
        for step, letter in zip(steps, LETTERS, strict=False)
        if step
    ]
    return f"{{{first}{''.join(terms)}}}" if terms else str(first)


@lru_cache(maxsize=1 << 16)
def _parts(name: str) -> tuple[str | tuple[int, tuple[tuple[int, int], ...]], ...]:
    """Text, and numbers with the (repeat, step) pairs they move by, in turn."""
    parts: list[Any] = []
    at = 0
    for match in _NUMBER.finditer(name):
        terms = (
            (LETTERS.index(letter), int(f"{sign}{size or 1}"))
            for sign, size, letter in _TERM.findall(match[2])
        )
        parts += [name[at : match.start()], (int(match[1]), tuple(terms))]
        at = match.end()
    return (*parts, name[at:])


def name_at(name: str, index: Index) -> str:
    """A name in one iteration; outside of repeats every name is itself."""
    if not index or "{" not in name:
        return name
    return "".join(
        part if isinstance(part, str) else str(part[0] + sum(s * index[r] for r, s in part[1]))
        for part in _parts(name)
    )


def name_problems(name: str, depth: int) -> Iterator[str]:
    """What is wrong with a name inside of `depth` repeats."""
    for part in _parts(name) if depth else ():
        if isinstance(part, str):
            if "{" in part or "}" in part:
                yield f"expects numbers like {{4+2i}} in the name '{name}'"
        elif any(repeat >= depth for repeat, _ in part[1]):
            yield f"names the iteration of a repeat that is not around it: '{name}'"


def integer_at(op: Any, name: str, index: Index) -> int:
    """An integer attribute in one iteration."""
    return moving_integer(op, name)(index)


def moving_integer(op: Any, name: str) -> Callable[[Index], int]:
    """An integer attribute by the iteration."""
    value: int = op.attributes[name].value
    key = f"{name}_steps"
    if key not in op.attributes:
        return lambda _: value
    steps = [*op.attributes[key]]
    return lambda index: (
        value + sum(i * step for i, step in zip(index, steps, strict=True)) if index else value
    )


def steps_problems(op: Any, names: Sequence[str], depth: int) -> Iterator[str]:
    """What is wrong with the steps of integer attributes inside of `depth` repeats."""
    for name in names:
        key = f"{name}_steps"
        if key not in op.attributes:
            continue
        steps = op.attributes[key]
        if not isinstance(steps, ir.DenseI64ArrayAttr) or len(steps) != depth or not depth:
            yield f"expects '{key}' to have a step for each of the {depth} repeats around it"


def instances(block: Any, index: Index = ()) -> Iterator[tuple[Any, Index]]:
    """The ops of a block and of the repeats in it, in order, in every iteration."""
    for op in block.operations:
        if op.operation.name != "vdevice.repeat":
            yield op, index
            continue
        for i in range(op.operation.attributes["count"].value):
            yield from instances(op.operation.regions[0].blocks[0], (*index, i))


def size(block: Any) -> int:
    """How many ops `instances` gives, or more than MOST."""
    total = 0
    for op in block.operations:
        inner = 1
        if op.operation.name == "vdevice.repeat":
            inner = integer_or_none(op, "count") or 0
            inner *= size(op.operation.regions[0].blocks[0])
        total = min(total + inner, MOST + 1)
    return total


def written(block: Any, depth: int = 0) -> Iterator[tuple[Any, int]]:
    """The ops of a block and of the repeats in it, each once, with the number of repeats around."""
    for op in block.operations:
        if op.operation.name == "vdevice.repeat":
            yield from written(op.operation.regions[0].blocks[0], depth + 1)
        else:
            yield op, depth
