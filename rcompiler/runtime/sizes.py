"""The check of what an artifact says of sizes that are known at run time."""

from collections.abc import Sequence

from rcompiler.errors import ArtifactError
from rcompiler.runtime.program import MAX_BYTES, Tensor
from rcompiler.support.extent import Extent, Symbol


def check_sizes(
    given: Sequence[Tensor],
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    counts: Sequence[Symbol],
) -> None:
    """Refuse extents that the arguments of a call, and what the model counts, do not tell.

    Raises:
        ArtifactError: naming the tensor, or the count.
    """
    sizes = inputs[len(given) :]
    told = [tensor.size for tensor in sizes if tensor.size is not None]
    wrong = ""
    if tuple(inputs[: len(given)]) != tuple(given) or any(
        (tensor.shape, tensor.dtype, tensor.extents) != ((), "int64", ()) for tensor in sizes
    ):
        wrong = "the sizes of inputs are int64 scalars behind all of them"
    symbols = [*told, *counts]
    if len({symbol.name for symbol in symbols}) < len(symbols):
        wrong = "two counts have one name"
    if any(not 0 <= symbol.low <= symbol.high <= MAX_BYTES for symbol in symbols):
        wrong = "a count has an impossible range"
    tell = {e.symbols[0] for t in given for e in t.extents if e and e.multiple}
    if not tell >= set(told):
        wrong = "no input tells a size"
    for tensor in (*given, *outputs):
        if tensor.extents and len(tensor.extents) != len(tensor.shape):
            wrong = f"tensor '{tensor.name}' has extents of another rank"
        known = set(told if tensor in given else symbols)
        if any(e and not set(e.symbols) <= known for e in tensor.extents):
            wrong = f"tensor '{tensor.name}' has sizes that nothing tells"
        if tensor.size is not None and tensor not in sizes:
            wrong = f"tensor '{tensor.name}' is no size"
    if wrong:
        raise ArtifactError(f"artifact: {wrong}; compile the model again")


def is_plain(extent: Extent) -> bool:
    return extent == Extent.of(extent.symbols[0])
