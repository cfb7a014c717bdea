"""What a measurement has to say about itself: machine, software, commit, time."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from rcompiler.errors import CompilerError

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


def asked(options: argparse.Namespace) -> dict[str, Any]:
    """The options of a tool that have a value, but for paths of the record and of what is measured:
    they say nothing of the measurement, and only about one machine.
    """
    given = {name: value for name, value in vars(options).items() if value not in (None, [])}
    for path in ("json", "folder"):
        given.pop(path, None)
    return given


def unpin_openblas() -> str:
    """Drop the variable that pins OpenBLAS to the kernels of one CPU; what a record says of it.

    To be called before numpy, which loads OpenBLAS.
    """
    pinned = os.environ.pop("OPENBLAS_CORETYPE", None)
    return "unset" if pinned is None else f"unset, was {pinned}"


def provenance() -> dict[str, Any]:
    """device, date (UTC, ISO 8601), versions (None: not installed), commit (None: no checkout)."""
    return {
        "device": device(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version()} | {p: _version(p) for p in _PACKAGES},
        "commit": commit(Path(__file__).resolve().parent),
    }


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
    return {"name": name, "cpus": len(os.sched_getaffinity(0)), "system": platform.platform()}


def commit(folder: Path) -> str | None:
    """Hash of the checkout around ``folder``, with "-dirty" when files differ from it."""
    try:
        found = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--dirty",
             "--exclude=*"],
            capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
