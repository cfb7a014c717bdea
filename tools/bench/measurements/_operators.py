"""Operators of the built-in models to judge the cost model by: of every kind, large and small; and
a profiler that runs their kernels on this machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rcompiler.device.model import Device
    from rcompiler.profiler.profile import Profiler, Timer
    from rcompiler.roller.expr import TensorExpr


@dataclass(frozen=True)
class Case:
    """An operator of a built-in model, by what it computes: other operators may come and go.

    sizes: of all axes that are longer than 1. skip: how many of its kind and sizes come before it.
    why: what it stands for. options: of the model; fewer layers, where all are alike.
    """

    model: str
    kind: str
    sizes: str
    why: str
    options: tuple[tuple[str, object], ...] = ()
    skip: int = 0


_ONE = (("layers", 1),)
_SHORT = (("blocks", (2, 1, 1, 1)),)

CASES = (
    Case("resnet50", "convolution", "4x112x112x16x3x7x7", "7x7 stem: 3 channels in, stride 2"),
    Case("resnet50", "pooling", "4x56x56x16x3x3", "3x3 max pooling, overlapping"),
    Case("resnet50", "convolution", "4x56x56x16x4x16", "1x1, 56x56: the weights are small"),
    Case("resnet50", "transform", "6x6x4x14x14x16x6x6", "Winograd's inputs, 56x56"),
    Case("resnet50", "contraction", "6x6x4x14x14x16x4x16", "Winograd's products, 56x56"),
    Case("resnet50", "transform", "4x56x56x16x6x6", "Winograd's outputs, 56x56"),
    Case("resnet50", "convolution", "16x56x56x16x4x16", "1x1, widening, with a residual"),
    Case("resnet50", "convolution", "8x28x28x16x8x3x3x16", "3x3, stride 2, 28x28"),
    Case("resnet50", "convolution", "16x14x14x16x16x3x3x16", "3x3, stride 2, 14x14"),
    Case("resnet50", "convolution", "16x14x14x16x64x16", "1x1, 14x14: long reduction"),
    Case("resnet50", "contraction", "6x16x6x4x4x16x16x16", "Winograd's products, 14x14"),
    Case("resnet50", "convolution", "32x7x7x16x32x3x3x16", "3x3, stride 2, 7x7: 9 MB of weights"),
    Case("resnet50", "contraction", "4x32x4x4x4x16x32x16", "Winograd's products, 7x7"),
    Case("resnet50", "convolution", "128x7x7x16x64x16", "1x1, 7x7, widening"),
    Case("resnet50", "contraction", "1000x2048", "matrix times vector from memory"),
    Case("mobilenet_v2", "convolution", "2x112x112x16x3x3", "depthwise 3x3, 112x112"),
    Case("mobilenet_v2", "convolution", "112x112x16x2x16", "1x1 to 16 channels: one panel"),
    Case("mobilenet_v2", "convolution", "6x56x56x16x3x3", "depthwise 3x3, stride 2"),
    Case("mobilenet_v2", "convolution", "9x56x56x16x3x3", "depthwise 3x3, 56x56"),
    Case("mobilenet_v2", "convolution", "12x28x28x16x2x16", "1x1: short reduction"),
    Case("mobilenet_v2", "convolution", "24x14x14x16x3x3", "depthwise 3x3, 14x14"),
    Case("mobilenet_v2", "reduction", "80x16x7x7", "mean of all pixels"),
    Case("squeezenet1_1", "convolution", "4x111x111x16x3x3x3", "3x3, stride 2: 3 channels in"),
    Case("squeezenet1_1", "contraction", "6x6x4x14x14x16x16", "Winograd's products, 16 channels"),
    Case("squeezenet1_1", "movement", "8x55x55x16", "concatenation of channels"),
    Case("squeezenet1_1", "pooling", "8x27x27x16x3x3", "3x3 max pooling, 27x27"),
    Case("squeezenet1_1", "convolution", "63x13x13x16x32x16", "1x1 classifier: 1000 channels"),
    Case("unet", "transform", "128x128x16x6x6", "Winograd's outputs, 128x128"),
    Case("unet", "pooling", "64x64x16x2x2", "2x2 max pooling"),
    Case("unet", "convolution", "64x2x64x2x16x2x16", "transposed 2x2, stride 2"),
    Case("unet", "movement", "2x130x130x16", "concatenation, 128x128"),
    Case("densenet121", "elementwise", "6x56x56x16", "concatenation, normalised too", _SHORT),
    Case("densenet121", "pooling", "4x28x28x16x2x2", "2x2 mean, normalised too", _SHORT),
    Case("bert_base", "reduction", "128x768", "layer normalisation", _ONE),
    Case("bert_base", "contraction", "12x128x64x768", "projection to heads", _ONE),
    Case("bert_base", "contraction", "128x768x768", "output projection", _ONE, skip=1),
    Case("bert_base", "contraction", "128x3072x768", "feed forward with GELU", _ONE),
    Case("bert_base", "contraction", "128x768x3072", "feed forward, long reduction", _ONE),
    Case("vit_b16", "convolution", "196x48x16x3x16x16", "16x16 patches, stride 16", _ONE),
    Case("vit_b16", "reduction", "197x768", "layer normalisation of 197 rows", _ONE),
    Case("vit_b16", "movement", "12x64x197", "transposition of 197 rows", _ONE),
    Case("vit_b16", "contraction", "197x768x768", "197 rows: no multiple of anything", _ONE),
    Case("gpt2_small", "contraction", "64x2304x768", "64 rows: weights from memory", _ONE),
    Case("gpt2_small", "contraction", "12x64x64x64", "attention scores of 64 rows", _ONE),
    Case("gpt2_small", "reduction", "12x64x64", "softmax", _ONE),
    Case("gpt2_small", "contraction", "64x12x64x64", "attention times values", _ONE),
    Case("gpt2_small", "elementwise", "64x3072", "tanh GELU", _ONE),
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


def sizes_of(expr: TensorExpr) -> str:
    """What `Case.sizes` says of an operator."""
    return "x".join(str(size) for size in expr.sizes if size != 1)
