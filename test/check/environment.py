"""Where the check runs: its folder, its virtual environment, and what of the machine counts."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .steps import Step
from .tree import Tree

# What is installed of a checkout, and what says how.
PRODUCT = ("rcompiler", "dialects", "pipelines", "tools")
_PACKAGED = ("pyproject.toml", "README.md", "LICENSE")
# Variables that may change what a test finds. Those that choose this run's turns or folders are
# not among them: RC_TURNS counts where turns are taken.
_VARIABLES = (
    *("RC_", "PYTHON", "PYTEST", "HYPOTHESIS", "LANG", "LC_", "LD_", "TZ", "TMPDIR", "CI"),
    *("OPENBLAS", "OMP", "MKL", "BLIS", "NVPL", "KMP", "ORT_", "TORCH", "CUDA", "NVIDIA"),
    *("CC", "CXX", "CFLAGS", "COLUMNS", "TERM", "NO_COLOR", "FORCE_COLOR"),
)
_OWN = {"RC_CHECK_CACHE", "RC_CACHE_DIR", "RC_TURNS", "PYTHONDONTWRITEBYTECODE"}
# Programs that tests use where they are there.
_PROGRAMS = ("cc", "gcc", "g++", "clang", "objdump", "chromium", "ptxas", "nvdisasm", "git")
_INSTALL = ("pip", "install", "--quiet", "--disable-pip-version-check")
OBJECTS = 2 << 30  # bytes of them that are kept
Run = Callable[[str, list[str]], None]


@dataclass(frozen=True)
class Environment:
    """home: the folder of what is kept between runs. python: whose virtual environment it is."""

    home: Path
    python: str = sys.executable

    @property
    def bin(self) -> Path:
        return self.home / "venv" / "bin"

    def variables(self, given: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Those of the steps: the environment's programs come first, modules stay compiled, and
        the code of kernels is kept where the caller says no other folder.
        """
        gone = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE", "RC_CHECK_CACHE")
        kept = {name: value for name, value in given.items() if name not in gone}
        return {
            "RC_CACHE_DIR": str(self.home / "objects"),
            "RC_CACHE_MODELS": "0",  # what is checked is the compiler, not what it made earlier
            **kept,
            "PATH": os.pathsep.join([str(self.bin), given.get("PATH", os.defpath)]),
        }

    def make(self, tree: Tree, run: Run) -> None:
        """The virtual environment with all packages; kept while pyproject.toml and Python are the
        same.
        """
        mark = self.home / "venv" / "made-for"
        about = f"{_digest(tree.root / 'pyproject.toml')} {sys.version} {self.python}"
        if _text(mark) != about:
            shutil.rmtree(self.home / "venv", ignore_errors=True)
            run("environment", [self.python, "-m", "venv", str(self.home / "venv")])
            self._forget_build(tree)
            run("packages", [str(self.bin / "python"), "-m", *_INSTALL, ".[test]"])
            self._package.write_text(_sources(tree))
            mark.write_text(about)

    def package(self, tree: Tree) -> Step | None:
        """What installs the package as users get it; None: it is installed with these files."""
        if _text(self._package) == _sources(tree):
            return None
        self._package.unlink(missing_ok=True)
        self._forget_build(tree)
        command = shlex.join(["python", "-m", *_INSTALL, "--no-deps", "--force-reinstall", "."])
        return Step("package", command, needed=True)

    def has_package(self, tree: Tree) -> None:
        """The step has passed."""
        self._package.write_text(_sources(tree))

    @property
    def _package(self) -> Path:
        return self.home / "venv" / "package"

    def _forget_build(self, tree: Tree) -> None:
        """setuptools would put files that are long gone into the package."""
        shutil.rmtree(tree.root / "build" / "lib", ignore_errors=True)

    def trim(self, most: int = OBJECTS) -> None:
        """Remove the oldest compiled objects above a number of bytes: nothing else does."""
        found = []
        for path in (self.home / "objects").rglob("*"):
            with suppress(OSError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    found.append((status.st_mtime, status.st_size, path))
        total = 0
        for _, size, path in sorted(found, reverse=True):
            total += size
            if total > most:
                with suppress(OSError):
                    path.unlink()

    def key(self, tree: Tree) -> str:
        """A hash of all that may change what a step finds and is no file of the checkout, and of
        what runs the steps.
        """
        own = (p for p in tree.hashes if p.startswith((".ci/", "test/check/")))
        runs = tree.digest(p for p in own if "/test_" not in p)
        settings = tree.hashes.get("pyproject.toml", "")
        found = [runs, settings, sys.version, *self.packages(), *machine(), *variables()]
        return hashlib.sha256("\0".join(found).encode()).hexdigest()

    def packages(self) -> list[str]:
        """What is installed, with versions, but for the package itself: its files count."""
        folders = (self.home / "venv" / "lib").glob("python*/site-packages/*.dist-info")
        return sorted(f.name for f in folders if not f.name.startswith("rcompiler-"))


def machine() -> list[str]:
    """What tests may depend on: the CPU, how many and how much of them, the user, programs."""
    lines = _text(Path("/proc/cpuinfo")).splitlines()
    wanted = ("vendor_id", "cpu family", "model", "model name", "stepping", "cache size", "flags")
    cpu = {line for line in lines if line.partition(":")[0].strip() in wanted}
    cgroup = ("cpu.max", "memory.max", "cpuset.cpus.effective")
    limits = [_text(Path("/sys/fs/cgroup") / name).strip() for name in cgroup]
    memory = [line for line in _text(Path("/proc/meminfo")).splitlines() if "MemTotal" in line]
    caches = sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"))
    return [
        *sorted(cpu),
        *(_text(path).strip() for path in caches),
        *limits,
        *memory,
        platform.platform(),
        repr(sorted(os.sched_getaffinity(0))),
        str(os.geteuid() == 0),
        *(f"{name}={shutil.which(name)}" for name in _PROGRAMS),
        str(Path("/dev/nvidia0").exists()),
    ]


def variables(given: Mapping[str, str] = os.environ) -> list[str]:
    """The variables that count, with their values."""
    counting = (n for n in sorted(given) if n.startswith(_VARIABLES) and n not in _OWN)
    return [f"{name}={given[name]}" for name in counting]


def installer(tree: Tree) -> Run:
    """Runs one command of the making, and raises for one that fails: nothing can run without."""

    def run(name: str, command: list[str]) -> None:
        print(f"-- {name}: {' '.join(command)}", flush=True)
        apart = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        subprocess.run(command, cwd=tree.root, env=apart, check=True)

    return run


def _sources(tree: Tree) -> str:
    """A hash of all that the installed package is made of."""
    return tree.digest(
        path for path in tree.hashes if path.split("/")[0] in PRODUCT or path in _PACKAGED
    )


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
