"""One file with a model for several CPUs: the file of each of its levels, equal sections once.

    header      {"levels": [{"header": {...}, "sections": {"code": "0 code", ...}}, ...]}
    sections    "0 code", "0 tables", "0 weights", "1 code", ...

A level has the header and the sections that a file of its own would have; where two have equal
ones, both name the same. Weights of which a load makes some (`storage`) lie in several sections,
one behind the other, so that levels share the sources of what is made. The level that needs most of
a CPU comes first. What is said of a level, its own certificate too, is checked as it is of a file
with that level alone.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from rcompiler.errors import ArtifactError
from rcompiler.runtime import code_section, recipes
from rcompiler.runtime.container import Bytes
from rcompiler.runtime.cpu_needs import Needs
from rcompiler.runtime.memory import ALIGNMENT
from rcompiler.runtime.pieces import Pieces
from rcompiler.runtime.untrusted import string, strings

LEVELS = "levels"
MOST_LEVELS = 64
_WEIGHTS = "weights"
_SIGNATURE = ("inputs", "outputs")


class Level(NamedTuple):
    """What a file of one level holds: a header, which describes its sections if it was read, and of
    each section the pieces.
    """

    header: Mapping[str, Any]
    sections: Mapping[str, tuple[np.ndarray, ...]]

    @staticmethod
    def of(header: Mapping[str, Any], sections: Mapping[str, Bytes]) -> Level:
        """Of a file of its own; its weights are cut where sources begin and end.

        Args:
            header, sections: what was made to be written.
        """
        made = header.get(_WEIGHTS)
        pieces: dict[str, tuple[np.ndarray, ...]] = {}
        for name, data in sections.items():
            if name == _WEIGHTS and isinstance(made, dict):
                pieces[name] = _cut(data, made["recipes"])
            else:
                pieces[name] = (data[:],)
        return Level(header, pieces)

    @property
    def needs(self) -> Needs:
        """What its code needs; of a wrong section raises what `container.decoded` catches."""
        [code] = self.sections["code"]
        return code_section.needs(code)

    def joined(self) -> dict[str, Any]:
        """Its sections as uint8[size], those in pieces as `Pieces`."""
        return {
            name: pieces[0] if len(pieces) == 1 else Pieces(pieces)
            for name, pieces in self.sections.items()
        }


def _cut(weights: Bytes, made: Sequence[Any]) -> tuple[np.ndarray, ...]:
    cuts = {0, weights.size}
    for recipe in map(recipes.decoded, made):
        end = recipe.source + recipe.form.nbytes
        cuts |= {recipe.source, min(weights.size, -(-end // ALIGNMENT) * ALIGNMENT)}
    return tuple(weights[begin:end] for begin, end in pairwise(sorted(cuts)))


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


def merged(levels: Sequence[Level]) -> tuple[dict[str, Any], dict[str, Bytes]]:
    """Header and sections of one file with several levels, in whatever order they are given.

    Args:
        levels: of one model, each for another CPU.

    Raises:
        ArtifactError: as `ordered`.
    """
    kept: dict[str, Bytes] = {}
    names: dict[tuple[str, int], str] = {}
    described = []
    for number, level in enumerate(ordered(levels)):
        places: dict[str, str | list[str]] = {}
        met: Counter[str] = Counter()  # what is in a level twice is twice in the file
        for name, pieces in level.sections.items():
            found = []
            for part, data in enumerate(pieces):
                digest = hashlib.sha256(data.data).hexdigest()
                own = f"{number} {name}" + (f" {part}" if len(pieces) > 1 else "")
                found.append(names.setdefault((digest, met[digest]), own))
                met[digest] += 1
                kept.setdefault(found[-1], data)
            places[name] = found if len(found) > 1 else found[0]
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
        own, described = {}, {}
        for name, place in entry["sections"].items():
            if isinstance(place, list):
                if name != _WEIGHTS or not isinstance(entry["header"].get(_WEIGHTS), dict):
                    raise ValueError  # the hash of what is joined is not in the file
                places = strings(place)
            else:
                places = (string(place),)
                described[name] = header["sections"][place]
            if not places or len({*places}) < len(places):  # no more than the file has
                raise ValueError
            own[name] = tuple(sections[each] for each in places)
            used |= {*places}
        found.append(Level({**entry["header"], "sections": described}, own))
    if used != {*sections}:
        raise ValueError
    _check_alike([level.header for level in found])
    return found


def _check_alike(headers: Sequence[Mapping[str, Any]]) -> None:
    signatures = [
        [len(header.get("states", [])), *(header[name] for name in _SIGNATURE)]
        for header in headers
    ]
    if any(each != signatures[0] for each in signatures):
        raise ArtifactError(
            "artifact: its levels have different inputs or outputs; compile the model again"
        )
