"""Texts of stages in a file: compressed, and unpacked when they are asked for."""

import zlib
from collections.abc import Iterator, Mapping

import numpy as np

from rcompiler.errors import ArtifactError

_MAX_STAGE = 1 << 30


class PackedTexts(Mapping[str, str]):
    """Compressed texts, unpacked when they are asked for: a load must not pay for them."""

    def __init__(self, packed: Mapping[str, np.ndarray]) -> None:
        self._packed = packed

    def __getitem__(self, name: str) -> str:
        unpacker = zlib.decompressobj()
        try:
            text = unpacker.decompress(self._packed[name].data, _MAX_STAGE)
            if unpacker.eof:
                return text.decode()
        except (zlib.error, UnicodeDecodeError):
            pass
        raise ArtifactError(f"artifact: stage '{name}' is damaged; compile the model again")

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)

    def packed(self, name: str) -> np.ndarray:
        """The compressed text, as it lies in the file."""
        return self._packed[name]


def packed_text(texts: Mapping[str, str], name: str) -> np.ndarray:
    """uint8[size], one of these texts compressed."""
    if isinstance(texts, PackedTexts):
        return texts.packed(name)
    return np.frombuffer(zlib.compress(texts[name].encode(), 6), np.uint8)
