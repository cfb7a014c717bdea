"""Wheels of pure Python: the files and what the metadata says of them, as one archive.

Equal files make equal bytes: entries are sorted, and bear the earliest date there is.
"""

from __future__ import annotations

import base64
import hashlib
import re
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from io import BytesIO
from typing import Any

import rcompiler
from rcompiler.errors import ToolError
from rcompiler.support.installed import HOME


@dataclass(frozen=True)
class Facts:
    """What a wheel says of itself.

    requires: as in metadata, with "; extra == ..." behind what an extra brings. scripts: the
    functions that programs run, by the names of these.
    """

    name: str
    summary: str
    version: str
    requires: Sequence[str]
    extras: Sequence[str]
    scripts: Mapping[str, str]
    python: str
    license: str
    license_text: str


def package_facts(
    name: str,
    summary: str,
    packages: Sequence[str],
    extras: Sequence[str],
    scripts: Mapping[str, str],
) -> Facts:
    """Of a wheel with a part of this package, which needs some of what that needs, and has some of
    its extras, all in the same versions.

    Raises ToolError where neither its sources nor its metadata are there.
    """
    python, license_name, license_text, all_needed, of_extras = _of_sources() or _of_metadata()
    needed = [text for text in all_needed if text.startswith(tuple(packages))]
    needed += [f'{text}; extra == "{extra}"' for extra in extras for text in of_extras[extra]]
    version = rcompiler.__version__
    return Facts(
        name, summary, version, needed, extras, scripts, python, license_name, license_text
    )


_Facts = tuple[str, str, str, list[str], dict[str, list[str]]]


def _of_sources() -> _Facts | None:
    path = HOME / "pyproject.toml"
    project: dict[str, Any] = tomllib.loads(path.read_text())["project"] if path.exists() else {}
    if project.get("name") != "rcompiler":
        return None
    return (
        project["requires-python"],
        project["license"],
        (HOME / project["license-files"][0]).read_text(),
        project["dependencies"],
        project["optional-dependencies"],
    )


def _of_metadata() -> _Facts:
    try:
        found = metadata.distribution("rcompiler")
    except metadata.PackageNotFoundError:
        raise ToolError(
            "neither the sources nor the metadata of rcompiler are here; install it"
        ) from None
    needed: list[str] = []
    extras: dict[str, list[str]] = {}
    for text in found.requires or ():
        requirement, _, condition = (part.strip() for part in text.partition(";"))
        if of := re.search(r"extra == ['\"](\w+)['\"]", condition):
            extras.setdefault(of[1], []).append(requirement)
        else:
            needed.append(text)
    said = found.metadata
    return (
        said["Requires-Python"],
        said["License-Expression"],
        found.read_text("licenses/LICENSE") or "",
        needed,
        extras,
    )


def wheel_name(facts: Facts) -> str:
    """Of the file."""
    return f"{_stem(facts)}-py3-none-any.whl"


def wheel(facts: Facts, files: Mapping[str, bytes]) -> bytes:
    """The bytes of a wheel that installs these files, by path."""
    info = f"{_stem(facts)}.dist-info"
    scripts = "".join(f"{name} = {what}\n" for name, what in facts.scripts.items())
    described = {
        "METADATA": _metadata(facts),
        "WHEEL": "Wheel-Version: 1.0\nGenerator: rcompiler\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
        "entry_points.txt": f"[console_scripts]\n{scripts}",
        "licenses/LICENSE": facts.license_text,
    }
    entries = {**dict(sorted(files.items()))}
    entries |= {f"{info}/{name}": text.encode() for name, text in described.items()}
    rows = [f"{path},{_digest(data)},{len(data)}\n" for path, data in entries.items()]
    entries[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\n"]).encode()
    made = BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in entries.items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)
    return made.getvalue()


def _stem(facts: Facts) -> str:
    return f"{facts.name.replace('-', '_')}-{facts.version}"


def _metadata(facts: Facts) -> str:
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {facts.name}",
        f"Version: {facts.version}",
        f"Summary: {facts.summary}",
        f"License-Expression: {facts.license}",
        "License-File: LICENSE",
        f"Requires-Python: {facts.python}",
        *(f"Provides-Extra: {extra}" for extra in facts.extras),
        *(f"Requires-Dist: {text}" for text in facts.requires),
    ]
    return "\n".join(lines) + "\n"


def _digest(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    return f"sha256={digest}"
