"""How many bytes programs of one model take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.image import Image

_LEAST = 1 << 19  # of any program: what Python, the loader and the kernel keep of it
_THREAD = 1 << 20


def kept_bytes(models: Sequence[Any]) -> int:
    """Bytes of code, texts, temporary tensors and threads; of weights those beyond the largest
    block, as the model has one anyway.

    Args:
        models: compiled models, whose equal weights are in memory once.
    """
    blocks: dict[int, int] = {}
    total = 0
    for model, artifact in _artifacts(models):
        blocks[artifact.constants.ctypes.data] = artifact.constants.size
        image = artifact.image
        code = len(image.content) if isinstance(image, Image) else len(image.ptx)
        texts = sum(map(len, artifact.stages.values()))
        total += max(code + texts, _LEAST) + artifact.arena_bytes
        total += _THREAD * (int(getattr(model, "eus", 1)) - 1)
    return total + sum(blocks.values()) - max(blocks.values(), default=0)


def _artifacts(models: Sequence[Any]) -> Iterator[tuple[Any, Artifact]]:
    for model in models:
        for part in getattr(model, "parts", [model]):
            yield part, part.artifact
