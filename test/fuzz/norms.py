"""What rounding does to normalizations that the noise of operands does not show: the mean is off.

Of two elements the results are 1 and -1, whatever they are; in f32 they are not, as each is apart
from a mean that was rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto

from . import definitions
from .definitions import Attributes

# Of an operand and the attributes: its groups, as an array of which some axes are one group, and
# those axes; and what is added to the variance.
Groups = tuple[np.ndarray, tuple[int, ...], float]


def _layer(a: Attributes, x: np.ndarray) -> Groups:
    return x, tuple(range(a.get("axis", -1) % x.ndim, x.ndim)), a.get("epsilon", 1e-5)


def _batch(a: Attributes, x: np.ndarray) -> Groups:
    return x, (0, *range(2, x.ndim)), a.get("epsilon", 1e-5)


def _instance(a: Attributes, x: np.ndarray) -> Groups:
    return x, tuple(range(2, x.ndim)), a.get("epsilon", 1e-5)


def _group(a: Attributes, x: np.ndarray) -> Groups:
    return x.reshape(x.shape[0], a["num_groups"], -1), (2,), a.get("epsilon", 1e-5)


def _mean_variance(a: Attributes, x: np.ndarray) -> Groups:
    return x, tuple(a.get("axes", (0, 2, 3))), 0.0


_GROUPS: dict[str, Callable[[Attributes, np.ndarray], Groups]] = {
    "BatchNormalization": _batch,
    "GroupNormalization": _group,
    "InstanceNormalization": _instance,
    "LayerNormalization": _layer,
    "MeanVarianceNormalization": _mean_variance,
}


def takes_means(node: NodeProto) -> bool:
    """Whether a node takes the mean of its first operand from that."""
    trained = node.op_type != "BatchNormalization" or len(node.output) > 1
    return node.op_type in _GROUPS and not node.domain and trained


def moved_by_the_mean(node: NodeProto, operands: Sequence[Any]) -> np.ndarray:
    """By how much the first result moves at most where each mean is off by the mean of |x|."""
    x = operands[0]
    parts, axes, epsilon = _GROUPS[node.op_type](definitions.attributes_of(node), x)
    deviation = np.sqrt(parts.var(axis=axes, keepdims=True) + epsilon)
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = abs(parts).mean(axis=axes, keepdims=True) / deviation
    scale = abs(operands[1]).max(initial=0.0) if len(operands) > 1 else 1.0
    return np.broadcast_to(np.where(deviation > 0, apart, 0.0) * scale, parts.shape).reshape(
        x.shape
    )


__all__ = ["moved_by_the_mean", "takes_means"]
