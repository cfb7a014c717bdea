"""One file with a model for several CPUs: the file of each of its levels, equal sections once.

    header      {"levels": [{"header": {...}, "sections": {"code": "0 code", ...}}, ...]}
    sections    "0 code", "0 tables", "0 weights", "1 code", ...

A level has the header and the sections that a file of its own would have; two levels whose weights
are equal byte for byte name one section. The level that needs most of a CPU comes first. What is
said of a level, its own certificate too, is checked as it is of a file with that level alone.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rcompiler.errors import ArtifactError
from rcompiler.runtime import code_section
from rcompiler.runtime.cpu_needs import Needs
from rcompiler.runtime.untrusted import string

LEVELS = "levels"
MOST_LEVELS = 64
_SIGNATURE = ("inputs", "outputs")


class Level(NamedTuple):
    """What a file of one level holds; of one that was read, its header describes its sections."""

    header: Mapping[str, Any]
    sections: Mapping[str, np.ndarray]

    @property
    def needs(self) -> Needs:
        """What its code needs; of a wrong section raises what `container.decoded` catches."""
        return code_section.needs(self.sections["code"])


def ordered(levels: Sequence[Level]) -> list[Level]:
    """Levels by what they need of a CPU: what needs most comes first.

    Args:
        levels: of one model, each for another CPU.

    Raises:
        ArtifactError: their inputs or outputs differ, or they are too many.
    """
    _check_alike([level.header for level in levels])
    if len(levels) > MOST_LEVELS:
        raise ArtifactError(f"artifact: {len(levels)} levels; give at most {MOST_LEVELS}")
    needs = [(-len(each.cpu_flags), each.target) for each in (level.needs for level in levels)]
    return [levels[n] for n in sorted(range(len(levels)), key=needs.__getitem__)]


def merged(levels: Sequence[Level]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and sections of one file with several levels, in whatever order they are given.

    Args:
        levels: of one model, each for another CPU.

    Raises:
        ArtifactError: as `ordered`.
    """
    kept: dict[str, np.ndarray] = {}
    names: dict[tuple[int, str], str] = {}
    described = []
    for number, level in enumerate(ordered(levels)):
        places = {}
        for name, data in level.sections.items():
            content = data.size, hashlib.sha256(data.data).hexdigest()
            places[name] = names.setdefault(content, f"{number} {name}")
            kept.setdefault(places[name], data)
        header = {name: value for name, value in level.header.items() if name != "sections"}
        described.append({"header": header, "sections": places})
    return {LEVELS: described}, dict(sorted(kept.items()))


def parted(header: Mapping[str, Any], sections: Mapping[str, np.ndarray]) -> list[Level]:
    """The levels of a file, in their order; of wrong JSON raises what `container.decoded` catches.

    Args:
        header, sections: of a file that is whole.

    Raises:
        ArtifactError: their inputs or outputs differ.
    """
    found = []
    used = set()
    entries = header[LEVELS]
    if not isinstance(entries, list) or not 1 <= len(entries) <= MOST_LEVELS:
        raise ValueError
    for entry in entries:
        if LEVELS in entry["header"]:
            raise ValueError
        places = {name: string(place) for name, place in entry["sections"].items()}
        described = {name: header["sections"][place] for name, place in places.items()}
        own = {name: sections[place] for name, place in places.items()}
        found.append(Level({**entry["header"], "sections": described}, own))
        used |= {*places.values()}
    if used != {*sections}:
        raise ValueError
    _check_alike([level.header for level in found])
    for level in found:
        code_section.needs(level.sections["code"])
    return found


def _check_alike(headers: Sequence[Mapping[str, Any]]) -> None:
    signatures = [[header[name] for name in _SIGNATURE] for header in headers]
    if any(each != signatures[0] for each in signatures):
        raise ArtifactError(
            "artifact: its levels have different inputs or outputs; compile the model again"
        )
