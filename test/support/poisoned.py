"""Poison in all elements that are not there, from the moment when a tensor has a size at run time.

It is NaN, or large integers, or true: what reads it, and must not, answers wrong.
"""

from contextlib import contextmanager

from rcompiler.frontend import dtypes
from rcompiler.frontend.core import Core, dims
from rcompiler.frontend.sized import SizedOps


@contextmanager
def poison():
    """While models are imported."""
    plain = SizedOps.sized

    def sized(b, whole, extents):
        extents = tuple(extents)
        return plain(b, _poisoned(b, whole, extents), extents)

    SizedOps.sized = sized
    try:
        yield
    finally:
        SizedOps.sized = plain


def _poisoned(b, whole, extents):
    ends = [(axis, b.number(extent)) for axis, extent in enumerate(extents) if extent is not None]
    if not ends or not whole.size:
        return whole
    if dtypes.is_float(whole.dtype):
        bad = float("nan")
    else:
        bad = dtypes.limits(whole.dtype)[1] // (1 if whole.dtype == "bool" else 3)

    def body(s, a, *sizes):
        for (axis, _), size in zip(ends, sizes, strict=True):
            a = s.select(s.index(axis) < s.cast(size, "index"), a, s.const(bad, a.dtype))
        return a

    reads = [(whole, ", ".join(dims(whole.rank))), *((end, "") for _, end in ends)]
    made = Core.tabulate(b, whole.shape, whole.dtype, body, *reads)
    made.known = whole.known
    return made
