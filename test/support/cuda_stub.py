"""The CUDA driver's bindings over a library of ours, `cuda_stub.c`: built with the C compiler
of the system from the headers of the wheel nvidia-cuda-runtime.

A child process runs each test's script, as the library stays in the process that loads it.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

SOURCE = Path(__file__).with_name("cuda_stub.c")
_FLAGS = "-std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -shared -fPIC -fvisibility=hidden"


def missing() -> str:
    """Why the stub cannot be used here; "" if it can."""
    if (
        importlib.util.find_spec("cuda") is None
        or importlib.util.find_spec("cuda.bindings") is None
    ):
        return "no cuda-bindings: pip install '.[cuda]'"
    if _compiler() is None:
        return "no C compiler"
    return "" if _headers() else "no cuda.h: pip install nvidia-cuda-runtime"


def build(folder: Path) -> Path:
    """The folder with the library, which is compiled there."""
    command = [_compiler(), *_FLAGS.split(), f"-I{_headers()}", str(SOURCE)]
    command += ["-o", str(folder / "libcuda.so.1"), "-Wl,-soname,libcuda.so.1", "-ldl"]
    subprocess.run(command, check=True)
    return folder


@dataclass(frozen=True)
class Stub:
    """A library in `folder`, which keeps its log there."""

    folder: Path
    scratch: Path

    def run(self, script: str, **settings: object) -> "Outcome":
        """What a script prints and the stub notes; settings: MEMORY=4096 for RC_STUB_MEMORY.

        The script finds a `say`, which prints an exception's type and message in one line.
        """
        log = self.scratch / "log"
        log.write_text("")
        given = {f"RC_STUB_{name}": str(value) for name, value in settings.items()}
        env = {k: v for k, v in os.environ.items() if not k.startswith(("RC_STUB_", "CUDA_"))}
        env |= {"LD_LIBRARY_PATH": str(self.folder), "RC_STUB_LOG": str(log), **given}
        command = [sys.executable, "-c", _HEAD + script]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return Outcome(done.stdout, done.stderr, log.read_text().splitlines())


@dataclass(frozen=True)
class Outcome:
    """said: by the script; warned: the same to stderr; log: of the stub."""

    said: str
    warned: str
    log: list[str]

    def noted(self, start: str) -> list[str]:
        """The lines of the log that begin so."""
        return [line for line in self.log if line.startswith(start)]


_HEAD = """
import os
from rcompiler.errors import CompilerError

def say(work):
    try:
        work()
    except CompilerError as error:
        print(f"{type(error).__name__}: {error}")
    else:
        print("no error")

"""


def _compiler() -> str | None:
    return next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)


def _headers() -> Path | None:
    """The folder of cuda.h."""
    try:
        files = metadata.files("nvidia-cuda-runtime") or []
    except metadata.PackageNotFoundError:
        return None
    found = [Path(str(file.locate())) for file in files if file.name == "cuda.h"]
    return found[0].parent if found else None
