"""The mapping types of DNNFusion (PLDI'21, table 2) and which pairs of them share an rOperator."""

from __future__ import annotations

import enum


class Mapping(enum.Enum):
    """How the elements of an op's result map to those of its inputs."""

    ONE_TO_ONE = "one-to-one"  # elementwise
    ONE_TO_MANY = "one-to-many"  # broadcast, gather
    MANY_TO_MANY = "many-to-many"  # contraction, convolution, reduction, pooling
    REORGANIZE = "reorganize"  # reshape, pad, concat, slice
    SHUFFLE = "shuffle"  # transpose


class Verdict(enum.Enum):
    """A cell of the table: fuse always, never, or if the structure test of `Fusion` passes."""

    FUSE = "fuse"
    NEVER = "never"
    TEST = "test"


_O, _B, _M, _R, _S = Mapping
_F, _N, _T = Verdict.FUSE, Verdict.NEVER, Verdict.TEST
TABLE: dict[tuple[Mapping, Mapping], Verdict] = {  # (producer, consumer)
    **{(_O, _O): _F, (_O, _B): _T, (_O, _M): _T, (_O, _R): _T, (_O, _S): _T},
    **{(_B, _O): _F, (_B, _B): _T, (_B, _M): _N, (_B, _R): _T, (_B, _S): _T},
    **{(_M, _O): _F, (_M, _B): _T, (_M, _M): _T, (_M, _R): _T, (_M, _S): _T},
    **{(_R, _O): _T, (_R, _B): _T, (_R, _M): _N, (_R, _R): _N, (_R, _S): _N},
    **{(_S, _O): _F, (_S, _B): _T, (_S, _M): _T, (_S, _R): _N, (_S, _S): _N},
}
