"""What rc-opt says about the death of its worker; the workers here are made to die."""

import sys
from pathlib import Path

import pytest

from rcompiler.errors import CompilerError
from rcompiler.passes import _reproducer
from rcompiler.tools import _guard, rc_opt
from rcompiler.tools._guard import Chunk, chunks

WORKER = """
import json, os, sys
job = json.loads(sys.argv[1])
with open(job["progress"], "a") as file:
    file.write("0 the pass pipeline\\n")
    if job["trace"]:
        file.write("0 'the-pass'\\n")
{death}
"""


@pytest.fixture
def run(monkeypatch, tmp_path, capfd):
    """Run rc-opt with a worker that dies as told; its exit code and standard error."""

    def run(death: str, *arguments: str) -> tuple[int, str]:
        source = tmp_path / "in.mlir"
        source.write_text("module {}\n")
        monkeypatch.setattr(_guard, "_WORKER", (sys.executable, "-c", WORKER.format(death=death)))
        code = rc_opt.main([str(source), "-p", "the-pass,cse", *arguments])
        return code, capfd.readouterr().err

    return run


@pytest.mark.parametrize(
    ("death", "cause"),
    [
        ("os.abort()", "MLIR crashed (SIGABRT)"),
        ("os.kill(os.getpid(), 9)", "MLIR crashed (SIGKILL, perhaps for want of memory)"),
        ("os._exit(1)", "MLIR ended the process"),  # report_fatal_error may call exit
        ("os._exit(0)", "MLIR ended the process"),
    ],
)
def test_a_death_is_one_line_with_a_reproducer(run, tmp_path, death, cause):
    path = tmp_path / "again.mlir"
    code, message = run(death, f"--reproducer={path}")
    assert code == 1
    assert message == (
        f"rc-opt: {tmp_path}/in.mlir:1: {cause} in 'the-pass'; to see it again: "
        f"rc-opt --run-reproducer {path}\n"
    )
    assert _reproducer.read("", path.read_text()) == ("the-pass,cse", False)


def test_without_a_name_the_reproducer_goes_to_the_temporary_folder(run):
    _, message = run("os.abort()")
    path = Path(message.split()[-1])
    assert path.read_text().endswith("module {}\n")
    path.unlink()


def test_a_finished_worker_keeps_its_exit_code(run):
    done = 'open(job["progress"], "a").write("done\\n"); os._exit({})'
    assert run(done.format(0)) == (0, "")
    assert run(done.format(1)) == (1, "")


def test_an_interrupted_worker_is_no_crash(run):
    assert run("os._exit(130)") == (130, "")


def test_reproducers_read_back(tmp_path):
    path = tmp_path / "r.mlir"
    _reproducer.write(str(path), "\n\nmodule {}\n", "cse,\n  rtask-dce", True)
    assert _reproducer.read("r", path.read_text()) == ("cse, rtask-dce", True)
    with pytest.raises(CompilerError, match="r: not a reproducer"):
        _reproducer.read("r", "module {}")


def test_chunks_know_their_lines():
    text = "a\n// -----\nb\nc\n// ----- again\n"
    assert chunks(text, split=True) == [Chunk("a\n", 0), Chunk("b\nc\n", 2), Chunk("", 5)]
    assert chunks(text, split=False) == [Chunk(text, 0)]


@pytest.mark.parametrize("policy", ["=os:getcwd", '="os:getcwd"', " = os.path:join"])
def test_reproducers_import_no_policy(policy):
    with pytest.raises(CompilerError, match="imports and calls a policy"):
        _reproducer.read("m.mlir", f"// pipeline: rammer-schedule{{policy{policy}}}\nmodule {{}}\n")
    assert _reproducer.read("m.mlir", "// pipeline: rammer-schedule{policy=bsp}\n")[0]
