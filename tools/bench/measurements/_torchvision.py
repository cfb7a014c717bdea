"""torchvision's detectors: with the two operators of its C++ library that they call, and with
random weights by which they find something.

A build of torchvision for CUDA cannot load that library beside PyTorch for CPUs. Then both are
functions of PyTorch here, under the names and schemas of torchvision: exporters take an operator by
its name, so the graphs that they write are the same.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
)
_KEPT: list[Any] = []  # PyTorch forgets operators of a library that is no longer there


@cache
def torchvision(module: str = "") -> Any:
    """torchvision, or a module of it. Raises ImportError where it is not installed."""
    import torch

    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        raise ImportError("torchvision is not installed")
    if "torchvision" not in sys.modules:
        if not _loaded(torch, Path(spec.origin).parent):
            _define(torch)
    return import_module("torchvision" + (f".{module}" if module else ""))


def _loaded(torch: Any, folder: Path) -> bool:
    """Whether torchvision's library can be loaded; its name is another one since 0.29."""
    for name in ("_C.so", "_C_stable.so"):
        with suppress(OSError):
            torch.ops.load_library(str(folder / name))
            return True
    return False


def _define(torch: Any) -> None:
    library = torch.library.Library("torchvision", "DEF")
    _KEPT.append(library)
    for schema in _SCHEMAS:
        library.define(schema)
    import_module("torchvision")
    align = sys.modules["torchvision.ops.roi_align"]
    for module in (sys.modules["torchvision.extension"], align):
        module._has_ops = _has_ops  # type: ignore[attr-defined]
    library.impl("nms", _nms, "CPU")
    library.impl("roi_align", align._roi_align.__wrapped__, "CPU")

    @torch.library.register_fake("torchvision::roi_align", lib=library)
    def _(input: Any, rois: Any, scale: Any, height: Any, width: Any, *_: Any) -> Any:
        return input.new_empty((rois.shape[0], input.shape[1], height, width))


def _has_ops() -> bool:
    """What torchvision asks; no lambda, as it is compiled to TorchScript."""
    return True


def _nms(boxes: Any, scores: Any, overlap: float) -> Any:
    """Positions of the boxes that are kept, the best first: of those that overlap a better one by
    more, none is. boxes: [n, 4] as x1, y1, x2, y2."""
    import torch

    order = scores.argsort(descending=True, stable=True)
    ordered = boxes[order]
    area = (ordered[:, 2] - ordered[:, 0]) * (ordered[:, 3] - ordered[:, 1])
    left = torch.ones(len(order), dtype=torch.bool)
    for n in range(len(order)):
        if left[n]:
            low = torch.maximum(ordered[n, :2], ordered[n + 1 :, :2])
            high = torch.minimum(ordered[n, 2:], ordered[n + 1 :, 2:])
            common = (high - low).clamp(min=0).prod(1)
            left[n + 1 :] &= common <= overlap * (area[n] + area[n + 1 :] - common)
    return order[left]


def spread(detector: Any, images: Any) -> None:
    """Scales random weights so that scores differ: else all classes of all boxes are as likely, and
    what is found is a matter of rounding.

    Numbers behind a layer vary by 1, scores before their softmax by 2; norms have the means and
    variances of these images.
    """
    import torch

    def scale(name: str) -> Callable[..., Any]:
        wanted = 2.0 if name.endswith(("cls_logits", "cls_score")) or "classif" in name else 1.0

        def hook(layer: Any, _: Any, made: Any) -> Any:
            if hasattr(layer, "spread"):  # of several images or levels
                return None
            layer.spread = float(wanted / made.std())
            for parameter in layer.parameters(recurse=False):
                parameter.data *= layer.spread
            return made * layer.spread

        return hook

    hooks = []
    for name, layer in detector.named_modules():
        if isinstance(layer, torch.nn.Conv2d | torch.nn.Linear):
            if layer.bias is not None:
                layer.bias.data.zero_()  # RetinaNet's make all scores small
            hooks.append(layer.register_forward_hook(scale(name)))
    detector.eval()
    for layer in detector.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.train().momentum = None  # the mean of what it is given
    with torch.no_grad():
        detector(list(images))
    for hook in hooks:
        hook.remove()
    detector.eval()
