"""A command that another process runs, in a fork of its own: see `server`.

Its files in the folder for $PATH call `main`. It starts in 10 ms, and so imports little: of
`socket` the part that is in C, as the rest takes as long as the start of Python.
"""

import _socket
import array
import os
import signal
import sys

from served.state import start_state

# Of one step of the server's, which forks at once when it has imported everything.
PATIENCE_S = 120
BEGUN, REFUSED = b"+", b"-"


def main() -> None:
    """Never returns: ends as the command does, by its exit code or by its signal."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the server sees our end, and ends the command
    folder, name = os.path.split(sys.argv[0])
    if name == "python" and sys.argv[1:2] != ["-m"]:
        _really(folder, name)  # of Python's own options, the server knows none
    try:
        connection = _asked(folder, name)
        begun = connection.recv(1)
        if begun == REFUSED:
            _really(folder, name)
        connection.settimeout(None)
        answer = begun and connection.recv(16)
    except OSError as error:
        _lost(folder, str(error))
    if not answer:
        _lost(folder, "it ended")
    code = int(answer)
    if code < 0:
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _asked(folder: str, name: str) -> _socket.socket:
    """A connection on which the server has the command, and our streams."""
    fields = [name, str(len(sys.argv)), *sys.argv[1:], os.getcwd(), start_state()]
    fields += [f"{variable}={value}" for variable, value in os.environ.items()]
    request = os.fsencode("\0".join(fields))
    connection = _socket.socket(_socket.AF_UNIX)
    connection.settimeout(PATIENCE_S)
    # By way of the open folder: the name of a socket is short.
    place = os.open(folder, os.O_PATH)
    connection.connect(f"/proc/self/fd/{place}/socket")
    data = len(request).to_bytes(8, "little") + request
    streams = array.array("i", [0, 1, 2])
    sent = connection.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    if sent < len(data):  # nothing is left to say to a server that has refused and gone
        connection.sendall(data[sent:])
    return connection


def _really(folder: str, name: str) -> None:
    """Become the command itself, as a process that starts anew."""
    for path in os.environ["PATH"].split(os.pathsep):
        if path != folder and os.access(found := os.path.join(path, name), os.X_OK):
            os.execv(found, [found, *sys.argv[1:]])
    _lost(folder, f"{name} cannot run there, and is nowhere else on $PATH")


def _lost(folder: str, why: str) -> None:
    try:
        with open(os.path.join(folder, "log"), errors="replace") as file:
            why += "\n" + file.read()[-2000:]
    except OSError:
        pass
    text = f"{sys.argv[0]}: the server of commands: {why}\n(RC_SERVE=0 does without)\n"
    os.write(2, text.encode(errors="replace"))
    os._exit(1)
