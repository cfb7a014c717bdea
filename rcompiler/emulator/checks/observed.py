"""What checks ask of the launch and of the threads that they observe."""

from __future__ import annotations

from typing import Protocol

from rcompiler.emulator.checks.clocks import Clocks
from rcompiler.emulator.checks.proxies import Proxies
from rcompiler.emulator.checks.words import Words
from rcompiler.emulator.lanes import Array
from rcompiler.emulator.settings import Checks


class ObservedLaunch(Protocol):
    """now: the moment of the access at hand. progress: grows whenever something happens that a
    spinning thread could notice.
    """

    now: int
    progress: int

    @property
    def checks(self) -> Checks:
        """Which checks are asked for."""

    @property
    def words(self) -> Words:
        """What releases left."""

    @property
    def proxies(self) -> Proxies:
        """Which fences threads have made between what accesses memory in other ways."""


class Observed(Protocol):
    """Threads of some blocks, by lanes."""

    @property
    def launch(self) -> ObservedLaunch:
        """The one that they are threads of."""

    @property
    def threads(self) -> int:
        """Of a block."""

    @property
    def live(self) -> Array:
        """Which lanes have not exited."""

    @property
    def clocks(self) -> Clocks:
        """What has happened before what each of them does now."""

    def threads_of(self, lanes: Array) -> Array:
        """Numbers of the lanes' threads in the launch."""
