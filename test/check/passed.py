"""What has passed, by the contents of all that it may read: that need not run again."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_KEPT = 8  # passes of one unit: those of a few branches


@dataclass
class Passed:
    """The record of one folder of what is kept.

    path: of its file. A unit is a step or a file of tests, its key a hash of all that it may read.
    What cannot be read as a record is none: then everything runs.
    """

    path: Path
    _keys: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._keys = _read(self.path)

    def commit(self, unit: str, key: str) -> str | None:
        """The commit on which a unit passed with this key; None: on none that is known."""
        return self._keys.get(unit, {}).get(key)

    def add(self, unit: str, key: str, commit: str) -> None:
        """The unit has passed."""
        found = self._keys.setdefault(unit, {})
        found.pop(key, None)
        found[key] = commit
        for old in [*found][:-_KEPT]:
            del found[old]

    def remove(self, unit: str, key: str) -> None:
        """The unit has failed: a pass with the same key was luck."""
        self._keys.get(unit, {}).pop(key, None)

    def write(self) -> None:
        """The file is the old record or the new one, whatever happens."""
        try:
            replace_file(self.path, json.dumps(self._keys, indent=1))
        except OSError as error:
            print(f"warning: what has passed is not kept: {error}", flush=True)


def replace_file(path: Path, text: str) -> None:
    """Write a file at once. Raises OSError; then the old one is left."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.replace(name, path)
    except OSError:
        os.unlink(name)
        raise


def _read(path: Path) -> dict[str, dict[str, str]]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if _is_record(found) else {}


def _is_record(found: Any) -> bool:
    return isinstance(found, dict) and all(
        isinstance(keys, dict) and all(isinstance(commit, str) for commit in keys.values())
        for keys in found.values()
    )
