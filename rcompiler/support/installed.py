"""What is installed: the compiler or its runtime alone, its version, what it requires, and what its
extras bring."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import NoReturn

from rcompiler.errors import ToolError

PACKAGE = Path(__file__).resolve().parents[1]
HOME = PACKAGE.parent  # where Python finds the package
RUNTIME = "rcompiler-runtime"  # the distribution without the compiler
_WHOLE = "PATH, where PATH is a checkout of rcompiler or its wheel"
# What is imported, also by tests, by the package that has it, where their names differ.
_MODULES = {"torch-mlir": "torch_mlir", "pyelftools": "elftools", "cuda-bindings": "cuda.bindings"}
_PROGRAMS = ("nvidia-cuda-nvcc",)  # packages that hold no module
_NEEDED = ("torch-mlir", "llvmlite", "onnx", "ml_dtypes", "rich")
_REQUIREMENT = re.compile(r"([\w.-]+)([^;]*?)\s*(?:;.*\bextra == ['\"](\w+)['\"])?")


@dataclass(frozen=True)
class Requirement:
    """A package that this one needs, or that an extra brings ("": needed).

    bounds: which versions will do, such as "==20261001"; "" for any.
    """

    package: str
    bounds: str = ""
    extra: str = ""

    @property
    def remedy(self) -> str:
        """The command that installs it."""
        return install_command(self.extra)


def runtime_alone() -> bool:
    """Whether only what compiled models need is installed, without the compiler's own modules."""
    return not (PACKAGE / "compile.py").exists()


def install_command(extra: str = "") -> str:
    """What brings everything that compiling needs, or what an extra brings, by packages that an
    index has: it need not have this one. Of sources that nobody has installed, their folder.
    """
    if version("rcompiler") is None and (HOME / "pyproject.toml").exists():
        return f"pip install '{HOME}[{extra}]'" if extra else f"pip install {HOME}"
    if runtime_alone() and not extra:
        return f"pip install {_WHOLE}"
    wanted = [each for each in requirements() if each.extra == extra]
    return "pip install " + " ".join(shlex.quote(each.package + each.bounds) for each in wanted)


def own_version() -> str:
    """Of rcompiler, or of its runtime; "unknown" for sources that nobody has installed."""
    return version(_own_name()) or "unknown"


def _own_name() -> str:
    return RUNTIME if runtime_alone() else "rcompiler"


def version(package: str) -> str | None:
    """None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def requirements() -> list[Requirement]:
    """What the installed metadata says; of sources that nobody has installed, what they import."""
    try:
        texts = metadata.requires(_own_name()) or []
    except metadata.PackageNotFoundError:
        texts = ["numpy", *_NEEDED]
    matches = [found for text in texts if (found := _REQUIREMENT.fullmatch(text))]
    return [Requirement(name, bounds.strip(), extra or "") for name, bounds, extra in
            (match.groups() for match in matches)]  # fmt: skip


def importable(package: str) -> bool:
    """Whether Python finds what is in it, which is not imported."""
    if package in _PROGRAMS:
        return version(package) is not None
    try:
        return importlib.util.find_spec(_MODULES.get(package, package)) is not None
    except ImportError:
        return False


def is_compilers(module: str | None) -> bool:
    """Whether a module is of a package that compiling needs and running does not, or, where the
    runtime is alone, one of our own that it does not have.
    """
    top = (module or "").partition(".")[0]
    own = top == "rcompiler" and runtime_alone()
    return own or top in {_MODULES.get(package, package) for package in _NEEDED}


def require_compiler(what: str) -> None:
    """ToolError where the compiler is not installed, which `what` needs."""
    missing = [package for package in _NEEDED if not importable(package)]
    if missing or runtime_alone():
        raise ToolError(f"{what} {without(missing)}")


def refusing(what: str, missing: str) -> Callable[..., NoReturn]:
    """A function in the place of one that needs the compiler: a call of it raises ToolError.

    missing: the module that could not be imported.
    """

    def refuse(*_: object, **__: object) -> NoReturn:
        raise ToolError(f"{what} {without([missing])}")

    return refuse


def without(packages: Iterable[str]) -> str:
    """The reason and the remedy, for a message that begins with what cannot be done."""
    missing = (
        "this is its runtime alone" if runtime_alone() else f"there is no {', '.join(packages)}"
    )
    return (
        f"needs the compiler, which is not installed here ({missing}; "
        f"compiled .rcx files run without it): {install_command()}"
    )
