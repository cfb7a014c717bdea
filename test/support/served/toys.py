"""Commands for the tests of the server, which import nothing."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from served.commands import become, enter

NAMES = ("toy",)


def prepare(folder: Path) -> None:
    """Nothing is needed."""


def serves(name: str, arguments: Sequence[str]) -> bool:
    return arguments[0] != "unknown"


def run(name: str, arguments: Sequence[str], folder: str, environment: dict[str, str]) -> NoReturn:
    enter(folder, environment)
    become(lambda: _main(*arguments), [name, *arguments])


def _main(what: str, value: str = "") -> object:
    if what == "copy":  # of standard input, with all that a command is given
        print(os.getcwd(), os.environ.get("RC_TOY"), value, input())
    elif what == "exit":
        raise SystemExit(int(value) if value.isdigit() else value)
    elif what == "signal":
        os.kill(os.getpid(), int(value))
    elif what == "raise":
        raise ValueError(value)
    elif what == "wait":  # for ever; `value` is the file that says who waits
        if os.fork() == 0:
            signal.pause()
        Path(value).write_text(str(os.getpid()))
        time.sleep(1e6)
    return None
