"""Which inputs of a model are state: what a call leaves in an output is what the next one reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from onnx import GraphProto, ValueInfoProto

from rcompiler.errors import CompilerError, ShapeError

from .value import Value

State = Mapping[str, str]
"""The output that has the next value of each state, by the input that has the last one."""


def state_of(graph: GraphProto, patterns: Any, taken: Iterable[str] = ()) -> dict[str, str]:
    """Inputs and outputs that are state.

    Args:
        graph: of the model.
        patterns: an output by an input; a ``*`` stands for any text, the same in both.
        taken: inputs that are none, as their values are given, or the model has them.

    Returns:
        Names, in the order of the inputs.

    Raises:
        CompilerError: the patterns are none, or say two things of one input or output.
        ShapeError: the model has no such input or output.
    """
    if not isinstance(patterns, Mapping) or not all(
        isinstance(name, str) for name in chain(patterns, patterns.values())
    ):
        raise CompilerError(f"state={patterns!r}: give a dict of output names by input names")
    fixed = set(taken)
    inputs = [value.name for value in graph.input if value.name not in fixed]
    outputs = [value.name for value in graph.output]
    found: dict[str, str] = {}
    for pattern, result in patterns.items():
        for name, output in _matches(pattern, result, inputs):
            if output not in outputs:
                raise ShapeError(
                    f"state '{pattern}': the model has no output '{output}' for input '{name}'; it "
                    f"has: {', '.join(outputs) or 'none'}"
                )
            if found.setdefault(name, output) != output:
                raise CompilerError(
                    f"state '{pattern}': input '{name}' is to become output '{found[name]}' and "
                    f"output '{output}'; name one of them"
                )
    of_output: dict[str, str] = {}
    for name, output in found.items():
        if of_output.setdefault(output, name) != name:
            raise CompilerError(
                f"state: output '{output}' is to be the next value of input '{of_output[output]}' "
                f"and of input '{name}'; a state has an output of its own"
            )
    return {name: found[name] for name in inputs if name in found}


def _matches(pattern: str, result: str, inputs: list[str]) -> Iterator[tuple[str, str]]:
    """Inputs of a pattern, with their outputs."""
    stars = pattern.count("*")
    if stars != result.count("*"):
        raise CompilerError(
            f"state '{pattern}': '{result}' has another number of '*'; each stands for the same "
            "text in both"
        )
    form = re.compile("(.*)".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    matches = [match for match in map(form.fullmatch, inputs) if match]
    if not matches:
        raise ShapeError(
            f"state '{pattern}': the model has no such input; it has: {', '.join(inputs) or 'none'}"
        )
    for match in matches:
        parts = result.split("*")
        texts = chain(*zip(parts, [*match.groups(), ""], strict=True))
        yield match.string, "".join(texts)


def last(values: Iterable[ValueInfoProto], state: Iterable[str]) -> list[ValueInfoProto]:
    """Inputs, or outputs, with those that are state behind all others, in its order."""
    values, place = list(values), {name: number for number, name in enumerate(state)}
    return sorted(values, key=lambda value: place.get(value.name, -1))


def check_alike(state: State, inputs: Mapping[str, Value], outputs: Mapping[str, Value]) -> None:
    """Raise ShapeError for a state whose input and output are of two types."""
    for name, output in state.items():
        old, new = inputs.get(name), outputs.get(output)
        if old is None or new is None:  # a gap, which was noted
            continue
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            raise ShapeError(
                f"state '{name}' is {old.dtype} {list(old.shape)}, and output '{output}' "
                f"{new.dtype} {list(new.shape)}: what a call leaves there is what the next one "
                "reads; let both be of one type, or give shapes for which they are"
            )
