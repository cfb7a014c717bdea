"""Networks of 16-bit floats: random graphs whose tensors are of f16 or bf16 where they may be."""

from __future__ import annotations

from collections.abc import Sequence

from . import graphs
from .graphs import Case

_KINDS = "float16", "float16", "bfloat16"


def case_of(seed: int, targets: Sequence[str] = graphs.TARGETS) -> Case:
    """The case of a seed. Raises Reject: the operator that it wishes for found no place."""
    return graphs.case_of(seed, targets, _KINDS[seed % len(_KINDS)])
