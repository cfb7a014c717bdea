"""Which generics are convolutions: windows of an image times weights."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.linalg.bodies import is_multiply_add
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dim_of, dims_of


def has_windows(generic: Generic) -> bool:
    """Whether some operand is indexed by more than loop dims: what tells most ops of a large model
    from a convolution costs little.
    """
    return not all(map_.is_projected_permutation for map_ in generic.maps)


class Windows:
    """`has_windows` of many ops, of which large models have few kinds."""

    def __init__(self) -> None:
        self._known: dict[ir.Attribute, bool] = {}

    def __call__(self, op: ir.Operation) -> bool:
        maps = op.attributes["indexing_maps"]
        if maps not in self._known:
            self._known[maps] = has_windows(Generic(op))
        return self._known[maps]


@dataclass(frozen=True)
class Convolution:
    """A convolution generic: operand numbers of the image and the weights, channel loop dims."""

    generic: Generic
    image: int
    weights: int
    output_channel: int
    input_channel: int
    grouped: bool

    def position(self, operand: int, dim: int) -> int:
        """Where ``dim`` indexes an operand (0 and 1: inputs, 2: result)."""
        return self.generic.dims[operand].index(dim)


def convolution(op: ir.Operation) -> Convolution | None:
    """``op`` as a convolution over windows of an image with channel mixing, else None."""
    generic = Generic(op)
    if not has_windows(generic) or not is_multiply_add(generic):
        return None
    return _as_convolution(generic, 0, 1) or _as_convolution(generic, 1, 0)


def _as_convolution(generic: Generic, image: int, weights: int) -> Convolution | None:
    reads = list(generic.maps[image].results)
    of_image, of_weights, of_result = (generic.dims[k] for k in (image, weights, 2))
    if -1 in of_weights or -1 in of_result or -1 not in of_image:
        return None
    used = set().union(*(dims_of(e) for e in reads))
    in_window = set().union(*(dims_of(e) for e in reads if dim_of(e) < 0))
    reduced = set(generic.reduction_dims)
    outputs = [d for d in of_weights if d in of_result and d not in used]
    inputs = [d for d in of_weights if d in reduced and d in of_image and d not in in_window]
    if len(inputs) != 1 or of_image.count(inputs[0]) != 1:
        return None
    if len(outputs) > 1:  # phases of a transposed convolution; its channels lie as the image's
        outputs = [d for d in outputs if of_result.index(d) == of_image.index(inputs[0])]
    if len(outputs) != 1:
        return None
    if len(set(of_weights)) != len(of_weights) or len(set(of_result)) != len(of_result):
        return None
    grouped = any(d in of_image for d in of_weights if d in of_result)
    return Convolution(generic, image, weights, outputs[0], inputs[0], grouped)


def depthwise_operand(op: ir.Operation) -> int | None:
    """Operand number of the image if ``op`` is a depthwise convolution: windows of one channel."""
    generic = Generic(op)
    if not has_windows(generic) or not is_multiply_add(generic):
        return None
    for image, weights in ((0, 1), (1, 0)):
        of_image, of_weights = generic.dims[image], set(generic.dims[weights])
        if len(of_image) > 2 and -1 in of_image and of_image[1] in of_weights - {-1}:
            return image
    return None
