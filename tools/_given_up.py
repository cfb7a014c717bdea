"""What a precision below f32 may change in results, and what it has given up in those at hand.

Weights of 8 or 4 bits are known, so a model of those weights is the reference, and results may
differ from it as in f32. Factors that are rounded to 16 bits are as values that the model itself
rounds on the way: the tolerance is that of the type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rcompiler.errors import CompilerError
from rcompiler.options import CompileOptions, Precision
from rcompiler.tools._reference import reference

if TYPE_CHECKING:
    from onnx import ModelProto

_REMEDY = "name the network that the model was made of"
# A factor of tf32 has as many digits as one of f16.
_ROUNDED = {"bf16": "bfloat16", "f16": "float16", "tf32": "float16"}


def reference_at(model: ModelProto, precision: Precision) -> tuple[ModelProto, frozenset[str]]:
    """The model that results at a precision are compared with, and what else they are rounded to.

    Args:
        model: of f32.
        precision: of CompileOptions.

    Returns:
        The model itself, or with the weights of that precision; types as of `Judge`.
    """
    bits = CompileOptions(precision=precision).weight_bits
    if bits is None:
        return model, frozenset({_ROUNDED[precision]} if precision in _ROUNDED else ())
    from rcompiler.frontend.rounded_weights import with_rounded_weights

    return with_rounded_weights(model, bits)[0], frozenset()


def given_up(
    outputs: Mapping[str, np.ndarray], f32: ModelProto, feeds: Mapping[str, np.ndarray], engine: str
) -> Iterator[str]:
    """A line for each output of floats: how far it is from that of the network in f32.

    Args:
        outputs: of the model, in their order.
        f32: the network; feeds: inputs of the model; engine: as of `reference`.

    Raises:
        CompilerError: its inputs or outputs are those of another network, or no engine runs it.
    """
    constants = {tensor.name for tensor in f32.graph.initializer}
    inputs = [value.name for value in f32.graph.input if value.name not in constants]
    _check_alike("inputs", sorted(feeds), sorted(inputs))
    try:
        name, answers = reference(f32, feeds, engine)
    except CompilerError as error:
        raise CompilerError(f"the network in f32: {error}; {_REMEDY}") from None
    shapes = [[list(a.shape) for a in each] for each in (outputs.values(), answers)]
    _check_alike("outputs", *shapes)
    for (output, ours), theirs in zip(outputs.items(), answers, strict=True):
        if not ours.size or ours.dtype.kind in "bOU":
            continue
        lost, size = (_size(a) for a in (ours.astype(np.float64) - theirs, theirs))
        line = f"{output}: error {lost / size if size else lost:.2%} of f32"
        if ours.ndim and ours.shape[-1] > 1:
            same = ours.argmax(-1) == theirs.argmax(-1)
            line += f", the largest of a row where f32 has it in {same.sum()} of {same.size} rows"
        yield f"{line} (root mean squares, f32 by {name})"


def _check_alike(what: str, ours: list[Any], theirs: list[Any]) -> None:
    if ours != theirs:
        raise CompilerError(
            f"the {what} of the model are {ours}, those of the network in f32 {theirs}; {_REMEDY}"
        )


def _size(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))
