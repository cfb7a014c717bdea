"""The process whose forks run commands: `python -m served.server LISTENER OWNER COMMANDS`.

LISTENER is the number of an open socket that listens, OWNER the process that started it, COMMANDS a
module such as `commands`. It ends, and removes its folder, when its standard input does, which the
owner holds, or when the owner is gone, however that ended. A command ends with its client.
"""

import array
import gc
import os
import select
import shutil
import signal
import socket
import sys
import traceback
import warnings
from importlib import import_module
from pathlib import Path
from types import ModuleType

from served.client import BEGUN, PATIENCE_S, REFUSED
from served.state import start_state

_GLANCE_S = 1.0


def serve(listener: socket.socket, folder: Path, owner: int, commands: ModuleType) -> None:
    """Until the owner ends."""
    state = start_state()
    sys.path[0] = str(Path(sys.executable).parent)  # as of a command, not of this package
    commands.prepare(folder)
    gc.collect()
    gc.freeze()  # forks share what nobody looks at
    warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)  # numpy has threads
    while os.getppid() == owner:
        ready, _, _ = select.select([0, listener], [], [], _GLANCE_S)
        if 0 in ready:
            return
        if listener in ready:
            connection, _ = listener.accept()
            if os.fork() == 0:
                try:
                    listener.close()
                    os.close(0)
                    _answer(connection, state, commands)
                except BaseException:
                    traceback.print_exc()
                finally:  # what is left is the server's to do
                    os._exit(0)
            connection.close()
        _bury()


def _bury() -> None:
    """Those of the children that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _answer(connection: socket.socket, state: str, commands: ModuleType) -> None:
    """Run the command of a client, and tell it the exit code, or minus the signal that ended it."""
    connection.settimeout(PATIENCE_S)
    fields, streams = _received(connection)
    name, count = fields[0], int(fields[1])
    arguments, (folder, asked), variables = (
        fields[2 : count + 1], fields[count + 1 : count + 3], fields[count + 3 :],
    )  # fmt: skip
    if asked != state or not commands.serves(name, arguments):
        connection.sendall(REFUSED)
        return
    connection.sendall(BEGUN)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        for stream in {*streams} - {0, 1, 2}:
            os.close(stream)
        commands.run(name, arguments, folder, dict(each.split("=", 1) for each in variables))
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(child)
    ready, _, _ = select.select([connection, ended], [], [])
    if ended not in ready:  # the client is gone
        _end_group(child)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if connection not in ready:
        connection.sendall(str(code).encode())


def _end_group(child: int) -> None:
    """Of a command with all that it started."""
    for end in (os.kill, os.killpg):  # it is no group yet where it has just been forked
        try:
            end(child, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _received(connection: socket.socket) -> tuple[list[str], list[int]]:
    """The fields of a request, and the streams."""
    streams = array.array("i")
    space = socket.CMSG_LEN(3 * streams.itemsize)
    data, ancillary, _, _ = connection.recvmsg(1 << 16, space)
    for level, kind, found in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            streams.frombytes(found)
    while len(data) < 8 or len(data) < 8 + int.from_bytes(data[:8], "little"):
        if not (more := connection.recv(1 << 16)):
            raise ConnectionError("the client is gone")
        data += more
    return os.fsdecode(data[8:]).split("\0"), [*streams]


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as listening:
        place = Path(listening.getsockname()).parent
        try:
            serve(listening, place, int(sys.argv[2]), import_module(sys.argv[3]))
        finally:
            shutil.rmtree(place, ignore_errors=True)
