"""How long the tests of each file take, one after the other: what a full run has recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from .passed import replace_file

RECORD = Path(__file__).with_name("seconds.json")


class Durations:
    """Those of the record of the checkout, and newer ones of this machine."""

    def __init__(self, home: Path, record: Path = RECORD) -> None:
        self._kept, self._record = home / "seconds.json", record
        self.seconds = _read(record) | _read(self._kept)

    def add(self, seconds: Mapping[str, float]) -> None:
        """Keep what files took that ran to their end; that it cannot be kept costs time only."""
        self.seconds.update(seconds)
        with suppress(OSError):
            _write(self._kept, _read(self._kept) | {**seconds})

    def record(self, files: list[str]) -> int:
        """Write what is known of these files to the record; how many are known."""
        found = {file: self.seconds[file] for file in files if file in self.seconds}
        _write(self._record, found)
        return len(found)


def _write(path: Path, seconds: Mapping[str, float]) -> None:
    lines = {file: round(seconds[file], 1) for file in sorted(seconds)}
    replace_file(path, json.dumps(lines, indent=0) + "\n")


def _read(path: Path) -> dict[str, float]:
    try:
        found = json.loads(path.read_text())
        return {str(file): float(seconds) for file, seconds in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
