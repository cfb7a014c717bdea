"""Launches of a model whose weights are those of a mapped file."""

from __future__ import annotations

from rcompiler.runtime.file_watch import FileWatch
from rcompiler.runtime.run_delay import RunDelay
from rcompiler.runtime.stamps import Stamps
from rcompiler.runtime.threads import Launcher
from rcompiler.runtime.turns import Turn


class Watched:
    """A launcher that looks at the file before each launch, and after it: a result is right where
    both find it as it was loaded.
    """

    def __init__(self, launcher: Launcher | Turn, file: FileWatch) -> None:
        self._launcher, self._file = launcher, file

    def run(self, bases: int | bytes) -> None:
        """As `Launcher.run`.

        Args:
            bases: as there.

        Raises:
            ArtifactError: the file has changed.
            DeviceError: as there.
        """
        self._file.check()
        self._launcher.run(bases)
        self._file.check()

    @property
    def closed(self) -> bool:
        """As of `Launcher`."""
        return self._launcher.closed

    def stamps(self) -> Stamps | None:
        """As `Launcher.stamps`."""
        return self._launcher.stamps()

    def run_delay(self) -> RunDelay:
        """As `Launcher.run_delay`."""
        return self._launcher.run_delay()

    def close(self) -> bool:
        """As `Launcher.close`."""
        return self._launcher.close()
