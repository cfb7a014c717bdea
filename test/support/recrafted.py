"""Compiled files that somebody changed, with all hashes right again: what a stranger can do."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rcompiler.runtime import container

Change = Callable[[Any], Any]
_DECISIVE = ("clocks", "code", "tables", "weights")


def split(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header of a file without its hashes, and its sections, which may be written to."""
    header, sections = container.read(path)
    header.pop("sections")
    header.pop("certificate")
    return dict(header), {name: np.array(data) for name, data in sections.items()}


def joined(path: Path, header: Mapping[str, Any], sections: Mapping[str, np.ndarray]) -> None:
    """Write a file of these, with the hashes that belong to them."""
    facts = {name: container.describe(sections[name])["sha256"] for name in _DECISIVE}
    if isinstance(header.get("weights"), dict):  # of which a load makes some
        facts["weights"] = header["weights"].get("sha256")
    undecided = ("provenance", "weights")
    decisive = {name: value for name, value in header.items() if name not in undecided}
    text = json.dumps([decisive, facts], sort_keys=True, separators=(",", ":"))
    certificate = hashlib.sha256(text.encode()).hexdigest()
    container.write(path, {**header, "certificate": certificate}, dict(sorted(sections.items())))


def rewrite(path: Path, change: Change = lambda header: None, words: Change | None = None) -> None:
    """Change header and tables of a file in place."""
    header, sections = split(path)
    if words is not None:
        words(sections["tables"].view("<i8"))
    change(header)
    joined(path, header, sections)


def rewrite_facts(path: Path, change: Change) -> None:
    """Change what a file says of its code."""
    header, sections = split(path)
    data = sections["code"].tobytes()
    [size] = struct.unpack("<Q", data[-8:])
    facts = json.loads(data[-8 - size : -8])
    change(facts)
    text = json.dumps(facts, sort_keys=True).encode()
    packed = data[: -8 - size] + text + struct.pack("<Q", len(text))
    joined(path, header, {**sections, "code": np.frombuffer(packed, np.uint8)})


def with_header(path: Path, text: bytes) -> None:
    """Put another header, of any bytes, into a file, with its own hash right."""
    data = path.read_bytes()
    size = int.from_bytes(data[8:16], "little")
    body = data[-(-(64 + size) // 64) * 64 :]
    prefix = data[:8] + struct.pack("<Q16x", len(text))
    digest = hashlib.sha256(prefix + text).digest()
    path.write_bytes(prefix + digest + text + bytes(-(64 + len(text)) % 64) + body)
