"""Programs of the CUDA toolkit that are used where they are found; none is needed to compile."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from rcompiler.errors import ToolError

# The wheel of each, as it is called on PyPI.
_WHEELS = {
    "ptxas": "nvidia-cuda-nvcc",
    "nvlink": "nvidia-cuda-nvcc",
    "nvdisasm": "nvidia-cuda-nvdisasm",
    "compute-sanitizer": "nvidia-cuda-sanitizer-api",
}
_HOMES = ("CUDA_HOME", "CUDA_PATH")


def find_tool(name: str) -> Path | None:
    """Where a program is: on PATH, in its wheel, in the toolkit that CUDA_HOME names; or None."""
    return next(iter(tools(name)), None)


def tools(name: str) -> list[Path]:
    """All places where a program is, each once, in that order."""
    return list(dict.fromkeys(_places(name)))


def needed_tool(name: str) -> Path:
    """The same. Raises ToolError where there is none."""
    path = find_tool(name)
    if path is None:
        raise ToolError(
            f"{name} is not found on PATH or below CUDA_HOME; install it with "
            f"'pip install {_WHEELS[name]}'"
        )
    return path


def run_tool(
    command: list[str], timeout_s: float, folder: str | None = None
) -> subprocess.CompletedProcess[str]:
    """What the program says. folder: where it runs, here if not given.

    Raises ToolError when it cannot be run, or runs for too long.
    """
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False, cwd=folder
        )
    except subprocess.TimeoutExpired:
        raise ToolError(
            f"{command[0]} was not done after {timeout_s:.0f} s; make the module smaller, with "
            "fewer kernels or less unrolling"
        ) from None
    except OSError as error:
        raise ToolError(f"{command[0]} cannot be run: {error.strerror}") from None


def _places(name: str) -> Iterator[Path]:
    if on_path := shutil.which(name):
        yield Path(on_path)
    try:
        files = metadata.files(_WHEELS[name]) or []
    except metadata.PackageNotFoundError:
        files = []
    candidates = [Path(str(file.locate())) for file in files if file.name == name]
    candidates += [Path(os.environ[home], "bin", name) for home in _HOMES if home in os.environ]
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            yield candidate
