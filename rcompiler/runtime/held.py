"""What all models have, on whatever they run: the artifact that holds them, its stages and file."""

from __future__ import annotations

from pathlib import Path

from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.closing import Closable


class HeldModel(Closable):
    """A model that an artifact holds."""

    _artifact: Artifact

    @property
    def artifact(self) -> Artifact:
        """What is run, and all that is known of it."""
        return self._artifact

    def stage(self, name: str) -> str:
        """The text of a compilation stage (see `Artifact.stage`).

        Args:
            name: of the stage.

        Raises:
            ArtifactError: the artifact does not carry it.
        """
        return self.artifact.stage(name)

    def save(self, path: str | Path) -> None:
        """Write the artifact (see `Artifact.save`).

        Args:
            path: of the file.

        Raises:
            ArtifactError: it cannot be written.
        """
        self.artifact.save(path)
