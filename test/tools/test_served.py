"""What is seen of commands in forks of one process is what is seen of those that start anew."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from served import toys  # noqa: E402
from served.start import Served  # noqa: E402

PATIENCE_S = 120  # what takes longer hangs


@pytest.fixture(scope="module")
def served():
    found = Served(os.environ, toys)
    yield found
    folder = found.folder
    found.close()
    assert not folder.exists()


def run(served, *arguments, **options):
    command = [str(served.folder / "toy"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, **options)


def until(holds):
    """Wait until it does."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def alive(process: int) -> bool:
    """Whether it runs; one that nobody has buried does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_command_has_its_folder_environment_arguments_and_streams(served, tmp_path):
    given = {**os.environ, "RC_TOY": "two\nlines"}
    done = run(served, "copy", "an argument", cwd=tmp_path, env=given, input="in\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path} two\nlines an argument in\n"


def test_exit_codes_signals_and_errors_are_those_of_the_command(served):
    assert run(served, "exit", "7").returncode == 7
    assert run(served, "exit").returncode == 1
    done = run(served, "exit", "a reason")
    assert (done.returncode, done.stderr) == (1, "a reason\n")
    done = run(served, "raise", "what it says")
    assert done.returncode == 1 and done.stderr.endswith("ValueError: what it says\n")
    for number in (signal.SIGABRT, signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
        assert run(served, "signal", str(int(number))).returncode == -number


def test_a_command_ends_with_its_client(served, tmp_path):
    file = tmp_path / "process"
    command = [str(served.folder / "toy"), "wait", str(file)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as client:
        until(lambda: file.exists() and file.read_text())
        command = int(file.read_text())
        assert alive(command) and command != client.pid
        group = [p for p in _processes() if os.getpgid(p) == command]
        assert len(group) == 2
        client.kill()
    until(lambda: not any(map(alive, group)))


def _processes():
    found = []
    for name in os.listdir("/proc"):
        try:
            os.getpgid(int(name))
        except (ValueError, ProcessLookupError):
            continue
        found.append(int(name))
    return found


@pytest.mark.parametrize(
    "change, arguments",
    [
        ({"env": {**os.environ, "PYTHONPATH": "elsewhere"}}, ["copy"]),
        ({"umask": 0o077}, ["copy"]),
        ({"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))}, ["copy"]),
        ({}, ["unknown"]),
    ],
)
def test_what_a_fork_cannot_be_starts_anew(tmp_path, monkeypatch, change, arguments):
    """That command of this name which is next on $PATH."""
    real = tmp_path / "toy"
    real.write_text("#!/bin/sh\necho the real one: $*\n")
    real.chmod(0o755)
    limit = resource.getrlimit(resource.RLIMIT_CORE)
    if limit == (0, 0) and "preexec_fn" in change:
        pytest.skip("the limit is that one already")
    served = Served(os.environ, toys)
    try:
        env = change.get("env", dict(os.environ))
        env = {**env, "PATH": os.pathsep.join([str(served.folder), str(tmp_path), env["PATH"]])}
        done = run(served, *arguments, **{**change, "env": env}, input="in\n")
        assert done.stdout == f"the real one: {arguments[0]}\n"
    finally:
        served.close()


def test_the_server_ends_with_its_owner(tmp_path):
    """Also where that is killed, and can close nothing."""
    text = (
        "import os, sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from served import toys; from served.start import Served\n"
        "served = Served(os.environ, toys)\n"
        "print(served.process, served.folder, flush=True); time.sleep(1e6)"
    )
    support = Path(__file__).parents[1] / "support"
    command = [sys.executable, "-c", text, str(support)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        process, folder = owner.stdout.readline().split()
        assert alive(int(process))
        assert Path(folder).stat().st_mode & 0o777 == 0o700
        owner.kill()
    until(lambda: not alive(int(process)))
    assert not Path(folder).exists()


def test_a_server_that_is_gone_is_told(monkeypatch):
    served = Served(os.environ, toys)
    assert run(served, "exit", "0").returncode == 0
    os.kill(served.process, signal.SIGKILL)
    until(lambda: not alive(served.process))
    done = run(served, "exit", "0")
    assert done.returncode == 1 and "the server of commands" in done.stderr
    assert "RC_SERVE=0" in done.stderr
    served.close()
    for file in served.folder.iterdir():  # it could not
        file.unlink()
    served.folder.rmdir()


def test_commands_of_ours_say_the_same(tmp_path):
    """Beside processes that start anew: what is printed, and how they end."""
    texts = {
        "good": "module { func.func @f() { return } }\n",
        "bad": "module { func.func @f() { retrun } }\n",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.mlir").write_text(text)
    commands = [
        "rc-opt good.mlir",
        "rc-opt bad.mlir",
        "rc-opt good.mlir -p no-such-pass",
        "rc-opt good.mlir | filecheck --check-prefix=NONE bad.mlir",
        "python -m rcompiler.tools.sign",
        "python -m rcompiler doctor --no-such-option",
        "python -c 'import sys; print(sys.argv)' more",
    ]
    served = Served(os.environ)
    try:
        found = []
        for first in ([], [str(served.folder)]):
            path = os.pathsep.join([*first, str(Path(sys.executable).parent), os.environ["PATH"]])
            for command in commands:
                done = subprocess.run(
                    ["bash", "-c", f"set -o pipefail; {command}"],
                    **{"cwd": tmp_path, "env": {**os.environ, "PATH": path}, "text": True},
                    **{"capture_output": True, "timeout": PATIENCE_S},
                )
                found.append((done.returncode, done.stdout, done.stderr))
        assert found[: len(commands)] == found[len(commands) :]
        assert {code for code, _, _ in found} == {0, 1, 2}
    finally:
        served.close()
