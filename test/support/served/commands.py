"""The commands, and how one is run in a fork of a process that has imported what they import."""

import atexit
import os
import pkgutil
import runpy
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

COMMANDS = {
    "filecheck": "filecheck.main",
    **{f"rc-{tool}": f"rcompiler.tools.rc_{tool}"
       for tool in ("bench", "compile", "opt", "run", "tune", "viz")},
}  # fmt: skip
WORKER = "rc-opt-worker"
# Measurements of the checkout, and what has PyTorch and its threads: no command needs them.
_NOT_IMPORTED = ("rcompiler.tools.bench", "rcompiler.torch_backend")
NAMES = (*COMMANDS, WORKER, "python")
# The modules that MLIR's bindings import when they meet an operation of theirs.
_DIALECTS = ("affine", "arith", "builtin", "cf", "func", "gpu", "linalg", "llvm", "math", "memref",
             "nvvm", "rocdl", "scf", "tensor", "transform", "vector")  # fmt: skip


def prepare(folder: Path) -> None:
    """Import what the commands do, as far as it is installed. folder: that of the clients."""
    rcompiler = import_module("rcompiler")
    ours = [module.name for module in pkgutil.walk_packages(rcompiler.__path__, "rcompiler.")]
    for name in (*COMMANDS.values(), *ours, *(f"torch_mlir.dialects.{each}" for each in _DIALECTS)):
        if name.startswith(_NOT_IMPORTED) or name.endswith(".__main__"):
            continue
        try:
            import_module(name)
        except ImportError:  # of an optional package; a command that needs it says so
            continue
    # The second process of rc-opt is served, too.
    vars(import_module("rcompiler.tools._guard"))["_WORKER"] = (str(folder / WORKER),)


def serves(name: str, arguments: Sequence[str]) -> bool:
    """Whether it is one of the commands, or `python -m` with a module of ours."""
    if name == "python":
        return arguments[:1] == ["-m"] and "".join(arguments[1:2]).split(".")[0] == "rcompiler"
    return name in COMMANDS or name == WORKER


def run(name: str, arguments: Sequence[str], folder: str, environment: dict[str, str]) -> NoReturn:
    """Become the command."""
    enter(folder, environment)
    if name == WORKER:
        worker = import_module("rcompiler.tools._rc_opt_worker")
        become(worker._main, [name, *arguments])
    if name != "python":
        sys.path[0] = str(Path(sys.executable).parent)
        become(import_module(COMMANDS[name]).main, [name, *arguments])
    module = arguments[1]
    sys.path[0] = folder
    if not hasattr(sys.modules.get(module), "__path__"):  # of a package, its __main__ runs
        sys.modules.pop(module, None)  # it runs as __main__, and not twice
    become(lambda: runpy.run_module(module, run_name="__main__", alter_sys=True), arguments[1:])


def enter(folder: str, environment: dict[str, str]) -> None:
    """Begin where the client is."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # found anew


def become(main: Callable[[], Any], argv: Sequence[str]) -> NoReturn:
    """Run it on streams 0, 1 and 2, and end this process as Python does, but that objects are not
    taken apart."""
    sys.argv = [*argv]
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", buffering=1 if os.isatty(1) else -1, closefd=False)
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    code: Any = 1
    try:
        code = main()
    except SystemExit as error:
        code = error.code
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or 120
    os._exit(code if isinstance(code, int) else 0)
