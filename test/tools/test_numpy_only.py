"""The command line on a machine that has numpy and not the compiler."""

import importlib.metadata

import numpy as np
import onnx
import pytest

import rcompiler
from rcompiler.support import installed
from rcompiler.tools import models, rc_compile

RC_RUN = "rcompiler.tools.rc_run"


def test_a_compiled_file_runs(tool, numpy_only):
    tool(rc_compile.main, "two_branch", "-o", "m.rcx")
    x = np.random.default_rng(0).standard_normal((4, 8), dtype=np.float32)
    np.save("x.npy", x)
    code, out, err = numpy_only(RC_RUN, "m.rcx", "x.npy", "--save=y.npy")
    assert (code, err) == (0, "") and "float32  4x8" in out
    (expected,) = rcompiler.load("m.rcx")(x)
    assert np.load("y.npy").tobytes() == expected.tobytes()
    assert numpy_only(RC_RUN, "m.rcx", "--needs")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["m.onnx"], "m.onnx"),
        (["two_branch"], "a built-in model"),
        (["m.mlir"], "m.mlir"),
        (["m.rcx", "--verify", "--onnx=m.onnx"], "--verify"),
    ],
)
def test_what_needs_the_compiler_says_how_to_install_it(numpy_only, tmp_path, arguments, what):
    onnx.save(models.build("two_branch"), tmp_path / "m.onnx")
    (tmp_path / "m.mlir").write_text("module {}")
    code, out, err = numpy_only(RC_RUN, *arguments)
    assert (code, out) == (1, "") and err.count("\n") == 1
    assert err.startswith("rc-run: error: ") and f"{what} needs the compiler" in err
    assert "there is no torch-mlir, llvmlite, onnx" in err and installed.install_command() in err


@pytest.mark.parametrize("name", ["compile", "opt", "tune", "bench", "viz"])
def test_the_other_tools_say_the_same_in_a_line(numpy_only, tmp_path, name):
    onnx.save(models.build("two_branch"), tmp_path / "m.onnx")
    model = "--models=m.onnx" if name == "bench" else "m.onnx"
    code, _, err = numpy_only(f"rcompiler.tools.rc_{name}", model)
    assert code == 1 and err.count("\n") == 1 and err.startswith(f"rc-{name}: ")
    assert "needs the compiler" in err and installed.install_command() in err


@pytest.mark.parametrize("name", ["compile", "run", "opt", "tune", "bench", "viz"])
def test_every_tool_has_a_version(numpy_only, capsys, name):
    tool = importlib.import_module(f"rcompiler.tools.rc_{name}")
    with pytest.raises(SystemExit) as ended:
        tool.main(["--version"])
    expected = f"rc-{name} {importlib.metadata.version('rcompiler')}\n"
    assert ended.value.code == 0 and capsys.readouterr().out == expected
    assert numpy_only(f"rcompiler.tools.rc_{name}", "--version") == (0, expected, "")


def test_versions_of_sources_that_nobody_installed(capsys, monkeypatch, tmp_path):
    from rcompiler.tools import rc_run

    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(installed.metadata, "version", absent)
    with pytest.raises(SystemExit):
        rc_run.main(["--version"])
    assert capsys.readouterr().out == "rc-run unknown\n"
    monkeypatch.setattr(installed, "HOME", tmp_path)  # where sources may be, or site-packages
    assert installed.install_command().startswith("pip install torch-mlir==")
    (tmp_path / "pyproject.toml").touch()
    assert installed.install_command() == f"pip install {tmp_path}"
    assert installed.install_command("cuda") == f"pip install '{tmp_path}[cuda]'"
