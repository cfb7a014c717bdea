"""A case: the graph of a seed, its inputs, and how it is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto

from rcompiler.rammer.schedule import POLICIES

from . import catalog
from .maker import Maker, Reject

TARGETS = ("cpu", "cuda:emulated", "cuda:emulated-sm_90a")
_OPSETS = (21, 22, 22, 22, 23, 24, 25, 26, 28)
_OLD = (9, 10)
_TRIES = 12  # of a node that is asked for


@dataclass(frozen=True)
class Case:
    """options: keywords of compile_onnx. wished: the operator that the graph was begun with."""

    model: ModelProto
    feeds: dict[str, np.ndarray]
    options: dict[str, Any] = field(default_factory=dict)
    wished: str = ""

    def with_model(self, model: ModelProto) -> Case:
        names = {v.name for v in model.graph.input}
        feeds = {n: a for n, a in self.feeds.items() if n in names}
        return Case(model, feeds, self.options, self.wished)


def case_of(seed: int, targets: Sequence[str] = TARGETS, liked: str = "") -> Case:
    """The case of a seed. liked: of its tensors, as of `Maker`. Raises Reject: the operator that it
    wishes for found no place.
    """
    maker = Maker(seed, liked=liked)
    keys = list(catalog.generators())
    wished = keys[seed % len(keys)]  # in turn, so that none is left out
    opsets = catalog.generators()[wished].opsets
    fitting = [o for o in _OPSETS if o in opsets] or [o for o in _OLD if o in opsets]
    maker.opset = maker.pick(fitting or [max(opsets)])
    grow(maker, wished)
    options = options_of(maker, targets)
    return Case(maker.model(), maker.inputs, options, wished[0])


def grow(maker: Maker, wished: catalog.Key) -> None:
    """Nodes before, the wished operator, and nodes after it."""
    known = catalog.generators()
    rest = [key for key, made in known.items() if maker.opset in made.opsets]
    common = [key for key in rest if not key[1] and key[0] in COMMON]
    for _ in range(maker.pick([0, 0, 1, 2, 4])):
        add(maker, maker.pick(common or rest))
    if not any(add(maker, wished) for _ in range(_TRIES)):
        raise Reject
    for _ in range(maker.pick([0, 1, 2, 3, 5])):
        add(maker, maker.pick(common if common and maker.chance(0.5) else rest))


# What stands between others in networks: more often than the rest.
COMMON = {
    "Add", "Mul", "Sub", "Div", "Relu", "Sigmoid", "Tanh", "MatMul", "Gemm", "Conv", "Reshape",
    "Transpose", "Concat", "Slice", "Softmax", "ReduceSum", "ReduceMax", "ReduceMean", "Cast",
    "Expand", "Squeeze", "Unsqueeze", "Where", "Gather", "Split", "Pad", "Max", "Min", "Clip",
    "Exp", "Sqrt", "LayerNormalization", "Flatten", "Tile", "Neg", "Erf", "QuantizeLinear",
    "DequantizeLinear", "Greater", "Equal",
}  # fmt: skip


def add(maker: Maker, key: catalog.Key) -> bool:
    """One operator more; False, and nothing changed, where it finds no place."""
    mark = maker.mark()
    try:
        if key[0] in ("MatMul", "Conv") and maker.chance(0.15):
            quantised(maker)
        else:
            catalog.generators()[key].write(maker, key[0])
    except Reject:
        maker.back(mark)
        return False
    return True


def quantised(maker: Maker) -> None:
    """A product as quantisers write it."""
    from .ops.quantised import dequantised_product

    dequantised_product(maker)


def options_of(maker: Maker, targets: Sequence[str]) -> dict[str, Any]:
    """Random options of a compilation."""
    target = maker.pick(targets)
    found: dict[str, Any] = {"target": target}
    choices: dict[str, Sequence[Any]] = {
        "eus": (None, 1, 2, 2, 3, 5) if target == "cpu" else (None, 1, 2, 3, 4),
        "policy": [p for p in POLICIES if target == "cpu" or p != "dynamic"],
        "kernels": ("select", "fast", "efficient"),
        "roots": ("direct", "winograd2", "winograd4"),
        "fusion": (False,),
        "normalise": (False,),
        "roller_policy": ("osdi22",),
    }
    for name, items in choices.items():
        if maker.chance(0.5 if name in ("eus", "policy") else 0.2):
            found[name] = maker.pick(items)
    if maker.chance(0.3):
        found["precision"] = maker.pick(["f16", "bf16", *(["tf32"] if target != "cpu" else [])])
    return found


def described(options: dict[str, Any]) -> str:
    return ", ".join(f"{k}={v!r}" for k, v in options.items() if v is not None)


__all__ = ["COMMON", "TARGETS", "Case", "add", "case_of", "described", "grow", "options_of"]
