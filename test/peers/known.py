"""The cases that are not right, each with its status and the reason."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

KNOWN = Path(__file__).with_name("known.toml")


@dataclass(frozen=True)
class Known:
    status: str
    reason: str


def read(file: Path) -> dict[str, Known]:
    """By names of cases. Raises ValueError where a name is there twice, or has no reason."""
    found: dict[str, Known] = {}
    for status, groups in tomllib.loads(file.read_text()).items():
        for group in groups:
            for name in group["cases"]:
                if name in found or not group["reason"]:
                    raise ValueError(f"{file}: {name} has two reasons, or none")
                found[name] = Known(status, group["reason"])
    return found
