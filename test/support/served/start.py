"""Start the server of commands: see this package."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from served import commands

_SUPPORT = Path(__file__).parents[1]
_LONGEST = 80  # of a folder: the name of a socket is of at most 107 bytes
_CLIENT = f"""#!{sys.executable} -IS
import sys
sys.path.insert(0, {str(_SUPPORT)!r})
from served.client import main
main()
"""


_open: list["Served"] = []  # of which nobody may lose one: its pipe would close, and the server end


class Served:
    """A folder for $PATH, whose commands a process runs that has imported what they import.

    folder: of this user alone, as its socket is; removed at the end. It ends with `close`, and
    where this process ends in whatever way.
    """

    def __init__(self, environment: Mapping[str, str], module: ModuleType = commands) -> None:
        """Returns at once: a command that comes early waits until the server has imported.

        environment: that of the commands, which `module` has.
        """
        base = None if len(tempfile.gettempdir()) < _LONGEST else "/tmp"
        self.folder = Path(tempfile.mkdtemp(prefix="rc-served-", dir=base))
        for name in module.NAMES:
            (self.folder / name).write_text(_CLIENT)
            (self.folder / name).chmod(0o700)
        with (
            socket.socket(socket.AF_UNIX) as listener,
            (self.folder / "log").open("wb") as log,
        ):
            listener.bind(str(self.folder / "socket"))
            listener.listen(64)
            number = listener.fileno()
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "served.server",
                    *map(str, (number, os.getpid())),
                    module.__name__,
                ],
                **{"stdin": subprocess.PIPE, "stdout": log, "stderr": log, "cwd": _SUPPORT},
                **{"env": {**environment}, "pass_fds": [number], "start_new_session": True},
            )

        _open.append(self)

    @property
    def process(self) -> int:
        """Its number."""
        return self._process.pid

    def close(self) -> None:
        """Waits until the server has ended; commands that run go on."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        _open.remove(self)


def wanted() -> bool:
    """Whether commands are to be served."""
    return os.environ.get("RC_SERVE") != "0"
