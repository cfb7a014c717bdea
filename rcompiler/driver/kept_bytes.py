"""How many bytes programs of one model take."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.image import Image

_LEAST = 1 << 19  # of any program: what Python, the loader and the kernel keep of it
_THREAD = 1 << 20
_USUAL, _SHARE = 1 << 30, 8


def usual_bytes() -> int:
    """That may be kept where nothing is said: an eighth of the memory of this machine, at least
    1 GiB."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(_USUAL, physical // _SHARE)


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
