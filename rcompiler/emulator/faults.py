"""What a program can do wrong, and where it was done."""

from __future__ import annotations

from dataclasses import dataclass

from rcompiler.errors import DeviceError

KINDS = (
    "out-of-bounds",
    "misaligned",
    "uninitialised-read",
    "read-only-write",
    "barrier-deadlock",
    "barrier-misuse",
    "shared-race",
    "global-race",
    "late-async-copy",
    "missing-proxy-fence",
    "missing-map-fence",
    "missing-init-fence",
    "missing-wgmma-fence",
    "nc-load",
    "partial-warp",
    "trap",
    "timeout",
)

Coordinates = tuple[int, int, int]


class UnsupportedPtx(DeviceError):
    """PTX that the emulator does not understand: not PTX, or a form that it does not have."""

    def __init__(self, reason: str, line: int = 0, text: str = "") -> None:
        where = f"PTX line {line}: " if line else ""
        what = f" in '{text}'" if text else ""
        super().__init__(f"{where}{reason}{what}")
        self.line = line


@dataclass(frozen=True)
class Site:
    """One instruction of one thread. text, line: as in the PTX."""

    block: Coordinates
    thread: Coordinates
    instruction: str
    line: int

    def __str__(self) -> str:
        return f"block {self.block} thread {self.thread} at '{self.instruction}' (line {self.line})"


class EmulationFault(DeviceError):
    """A fault of the program that ran, not of its use.

    kind: one of KINDS. site: who did what. address: that was accessed, or None; of shared and local
    memory the offset in it. allocation: what lies there, in words. other: the access it collides
    with, of a race; of several readers one of their warps. waiting: of a timeout, who asks for
    which address in vain.
    """

    def __init__(
        self,
        kind: str,
        site: Site,
        detail: str,
        *,
        address: int | None = None,
        allocation: str = "",
        other: Site | None = None,
        waiting: tuple[tuple[Site, int], ...] = (),
    ) -> None:
        where = "" if address is None else f" address {address:#x}"
        lies = f" ({allocation})" if allocation else ""
        against = f"; the other side: {other}" if other else ""
        super().__init__(f"{kind}: {detail}:{where}{lies} {site}{against}")
        self.kind, self.site, self.address = kind, site, address
        self.allocation, self.other, self.waiting = allocation, other, waiting

    @property
    def block(self) -> Coordinates:
        return self.site.block

    @property
    def thread(self) -> Coordinates:
        return self.site.thread

    @property
    def instruction(self) -> str:
        return self.site.instruction

    @property
    def line(self) -> int:
        return self.site.line
