"""Operators of the built-in models to judge the cost model by: of every kind, large and small; and
a profiler that runs their kernels on this machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rcompiler.options import Roots

if TYPE_CHECKING:
    from rcompiler.device.model import Device
    from rcompiler.profiler.profile import Profiler, Timer


@dataclass(frozen=True)
class Case:
    """An operator of a built-in model: its number among the different ones, in their order.

    why: what it stands for. options: of the model; fewer layers, where all are alike. roots: of its
    3x3 convolutions; not those that a device prefers, so that the numbers are the same everywhere.
    """

    model: str
    number: int
    kind: str
    why: str
    options: tuple[tuple[str, object], ...] = ()
    roots: Roots = "direct"


_ONE = (("layers", 1),)
_SHORT = (("blocks", (2, 1, 1, 1)),)

CASES = (
    Case("resnet50", 1, "convolution", "7x7 stem: 3 channels in, stride 2"),
    Case("resnet50", 2, "pooling", "3x3 max pooling, overlapping"),
    Case("resnet50", 3, "convolution", "1x1, 56x56: the weights are small"),
    Case("resnet50", 4, "convolution", "3x3, 56x56"),
    Case("resnet50", 6, "convolution", "1x1, widening, with a residual"),
    Case("resnet50", 9, "convolution", "3x3, stride 2"),
    Case("resnet50", 15, "convolution", "3x3, 14x14"),
    Case("resnet50", 18, "convolution", "1x1, 14x14: long reduction"),
    Case("resnet50", 21, "convolution", "3x3, 7x7: 9 MB of weights"),
    Case("resnet50", 22, "convolution", "1x1, 7x7, widening"),
    Case("resnet50", 27, "contraction", "matrix times vector from memory"),
    Case("resnet50", 4, "transform", "into Winograd's F(4x4), 56x56", roots="winograd4"),
    Case("resnet50", 5, "contraction", "36 products of 196 rows", roots="winograd4"),
    Case("resnet50", 6, "transform", "out of Winograd's F(4x4), 56x56", roots="winograd4"),
    Case("resnet50", 24, "contraction", "36 products of 16 rows", roots="winograd4"),
    Case("mobilenet_v2", 2, "convolution", "depthwise 3x3, 112x112"),
    Case("mobilenet_v2", 3, "convolution", "1x1 to 16 channels: one panel"),
    Case("mobilenet_v2", 5, "convolution", "depthwise 3x3, stride 2"),
    Case("mobilenet_v2", 8, "convolution", "depthwise 3x3, 56x56"),
    Case("mobilenet_v2", 12, "convolution", "1x1: short reduction"),
    Case("mobilenet_v2", 18, "convolution", "depthwise 3x3, 14x14"),
    Case("mobilenet_v2", 31, "reduction", "mean of all pixels"),
    Case("squeezenet1_1", 4, "convolution", "3x3 of 16 channels"),
    Case("squeezenet1_1", 5, "movement", "concatenation of channels"),
    Case("squeezenet1_1", 7, "pooling", "3x3 max pooling, 27x27"),
    Case("squeezenet1_1", 24, "convolution", "1x1 classifier: 1000 channels"),
    Case("unet", 2, "convolution", "3x3 of 16 channels, 128x128"),
    Case("unet", 3, "pooling", "2x2 max pooling"),
    Case("unet", 5, "convolution", "3x3 of 32 channels, 64x64"),
    Case("unet", 24, "movement", "concatenation, 128x128"),
    Case("densenet121", 5, "elementwise", "normalisation and ReLU of 96 channels", _SHORT),
    Case("bert_base", 2, "reduction", "layer normalisation", _ONE),
    Case("bert_base", 4, "contraction", "projection to heads", _ONE),
    Case("bert_base", 7, "contraction", "attention scores", _ONE),
    Case("bert_base", 8, "reduction", "softmax", _ONE),
    Case("bert_base", 9, "contraction", "attention times values", _ONE),
    Case("bert_base", 10, "contraction", "output projection", _ONE),
    Case("bert_base", 11, "contraction", "feed forward with GELU", _ONE),
    Case("bert_base", 12, "contraction", "feed forward, long reduction", _ONE),
    Case("vit_b16", 0, "convolution", "16x16 patches, stride 16", _ONE),
    Case("vit_b16", 2, "reduction", "layer normalisation of 197 rows", _ONE),
    Case("vit_b16", 9, "contraction", "attention scores, 197x197", _ONE),
    Case("vit_b16", 12, "contraction", "197 rows: no multiple of anything", _ONE),
    Case("gpt2_small", 2, "contraction", "64 rows: weights from memory", _ONE),
    Case("gpt2_small", 13, "elementwise", "tanh GELU", _ONE),
)


@contextmanager
def profiler(device: Device, jobs: int | None, timer: Timer | None = None) -> Iterator[Profiler]:
    """One without a lasting index: nothing counts but what it does now."""
    from rcompiler.codegen.cpu import Target
    from rcompiler.device.store import fingerprint
    from rcompiler.profiler.index import ProfileIndex
    from rcompiler.profiler.profile import Profiler

    index = ProfileIndex(None)
    found = Profiler(device, Target.named("host"), fingerprint(device), index, jobs=jobs)
    yield replace(found, timer=timer) if timer else found
    index.close()
