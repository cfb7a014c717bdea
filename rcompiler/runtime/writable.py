"""What is written as one file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from rcompiler.runtime import container
from rcompiler.runtime.container import Bytes
from rcompiler.runtime.memory import room_for


class Writable(ABC):
    """It can be saved."""

    def save(self, path: str | Path) -> None:
        """Write the file, atomically; equal models give equal bytes.

        Args:
            path: of the file, by custom with the suffix `.rcx`.

        Raises:
            ArtifactError: it cannot be written; what was there before is untouched.
        """
        container.write(Path(path), *self.content())

    def to_bytes(self) -> bytes:
        """What `save` would write.

        Raises:
            DeviceError: there is not enough memory.
        """
        with room_for("the bytes of the model"):
            return container.packed(*self.content())

    @abstractmethod
    def content(self) -> tuple[dict[str, Any], dict[str, Bytes]]:
        """Header and sections of the file.

        Returns:
            JSON values, and uint8[size] by the names of sections.
        """
