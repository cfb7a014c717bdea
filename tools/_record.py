"""What a measurement has to say about itself: machine, software, commit, time."""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from rcompiler.device.cgroups import usable_cpus
from rcompiler.errors import CompilerError

SOURCES = Path(__file__).resolve().parent.parent  # of a checkout; where installed, site-packages
# What a figure depends on: not the tests, the documents, or other figures.
_PRODUCT = ("rcompiler/", "dialects/", "pipelines/", "tools/")
_FIGURES = "tools/bench/results/"
_PACKAGES = (
    *("rcompiler", "numpy", "onnx", "onnxruntime", "openvino", "llvmlite", "torch-mlir"),
    *("cuda-bindings", "torch", "triton"),
)


def write_record(path: str | Path, figures: Mapping[str, Any]) -> None:
    """Write where and when it was measured, then `figures`, as JSON."""
    Path(path).write_text(json.dumps({**provenance(), **figures}, indent=1) + "\n")


def read_record(path: str | Path) -> dict[str, Any]:
    """The figures that `write_record` wrote. Raises CompilerError for what is no record."""
    try:
        found = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise CompilerError(f"'{path}' cannot be read as a record: {error}") from None
    if not isinstance(found, dict) or "commit" not in found:
        raise CompilerError(f"'{path}' is no record: it names no commit")
    return found


def keep(options: argparse.Namespace, **figures: Any) -> None:
    """Write the record that --json asks for, if it does: what was asked for, and the figures."""
    if options.json:
        write_record(options.json, {"options": asked(options), **figures})


def asked(options: argparse.Namespace) -> dict[str, Any]:
    """The options of a tool that have a value, but for paths of records and of what is measured:
    they say nothing of the measurement, and only about one machine.
    """
    return {
        name: value.pattern if isinstance(value, re.Pattern) else value
        for name, value in vars(options).items()
        if value not in (None, []) and name not in ("json", "folder", "python", "against")
    }


def unpin_openblas() -> str:
    """Drop the variable that pins OpenBLAS to the kernels of one CPU; what a record says of it.

    To be called before numpy, which loads OpenBLAS.
    """
    pinned = os.environ.pop("OPENBLAS_CORETYPE", None)
    return "unset" if pinned is None else f"unset, was {pinned}"


def provenance() -> dict[str, Any]:
    """device, date (UTC, ISO 8601), versions (None: not installed), commit and sources (their
    digest; None: no checkout)."""
    return {
        "device": device(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version()} | {p: _version(p) for p in _PACKAGES},
        "commit": commit(SOURCES),
        "sources": sources_here(SOURCES),
    }


def sources_here(checkout: Path) -> str | None:
    """A digest of the product's sources as they lie in `checkout`; None: it is no checkout."""
    listed = _git(checkout, "ls-files", "-z", *_PRODUCT)
    if not listed:
        return None
    blobs = {}
    for path in listed.rstrip("\0").split("\0"):
        file = checkout / path
        link = file.is_symlink()
        data = (
            os.fsencode(os.readlink(file)) if link else file.read_bytes() if file.exists() else b""
        )
        blobs[path] = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    return _digest(blobs)


def sources_at(checkout: Path, commit: str) -> str | None:
    """The same digest of the sources at a commit; None where this checkout does not have it."""
    listed = _git(checkout, "ls-tree", "-r", "-z", commit, "--", *_PRODUCT)
    if not listed:
        return None
    rows = (entry.partition("\t") for entry in listed.rstrip("\0").split("\0"))
    return _digest({path: about.split()[2] for about, _, path in rows})


def _digest(blobs: Mapping[str, str]) -> str:
    """blobs: git's hash of each file by its path."""
    lines = [f"{blobs[p]} {p}\n" for p in sorted(blobs) if not p.startswith(_FIGURES)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def device() -> dict[str, Any]:
    """Model name of the CPU and how many CPUs this process may use."""
    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    except OSError:
        pass  # not Linux: the platform's own name stays
    return {"name": name, "cpus": usable_cpus(), "system": platform.platform()}


def commit(folder: Path) -> str | None:
    """Hash of the checkout around ``folder``, with "-dirty" when files differ from it."""
    found = _git(folder, "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*")
    return found.strip() if found else None


def _git(folder: Path, *command: str) -> str | None:
    """What git prints; None where there is no git, or it fails."""
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *command],
            capture_output=True, text=True, timeout=10, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
