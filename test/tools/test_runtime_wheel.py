"""The runtime as a wheel of its own, installed where numpy is and nothing else."""

import ast
import json
import os
import re
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import rcompiler
from rcompiler.errors import ToolError
from rcompiler.tools import _wheel, rc_compile, runtime_wheel
from rcompiler.tools._wheel import package_facts, wheel, wheel_name

pytest.importorskip("pip")
MOST_BYTES = 400_000
WHOLE = "PATH, where PATH is a checkout of rcompiler or its wheel"
# What functions of it import, or only types are for, and it does not have: parts of the compiler.
ABSENT = {
    *("codegen.assembly", "codegen.cuda_tools", "codegen.toolkit", "compile", "driver.isolate"),
    *(
        "driver.by_shape",
        "driver.kept_bytes",
        "driver.model_source",
        "driver.warm_start",
        "frontend.load",
        "frontend.randomness",
    ),
    *("emulator.driver", "profiler.storage", "rammer.timeline"),
    *("tools._debug_nodes", "tools._given_up", "tools._judge", "tools.models"),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel."""
    folder = tmp_path_factory.mktemp("dist")
    assert runtime_wheel.main([f"--out={folder}"]) == 0
    [path] = folder.iterdir()
    return path


class Machine:
    """A Python environment that has numpy, and what is installed in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        _done([sys.executable, "-m", "venv", "--without-pip", str(folder)])
        self.python = folder / "bin" / "python"
        [self.packages] = folder.glob("lib/python*/site-packages")
        here = Path(np.__file__).parents[1]
        for entry in (*here.glob("numpy"), *here.glob("numpy.libs"), *here.glob("numpy-*")):
            (self.packages / entry.name).symlink_to(entry)

    def pip(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "pip", "--python", str(self.python)]
        return _done([*command, "--no-input", "--disable-pip-version-check", *arguments]).stdout

    def install(self, path: Path) -> None:
        self.pip("install", "--no-index", "--quiet", str(path))

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Of a program of the environment, or of Python."""
        program = self.folder / "bin" / command[0]
        return _ran([str(program), *command[1:]], self.folder)

    def home(self) -> str:
        """The folder that rcompiler is imported from."""
        code = "import rcompiler; print(rcompiler.__file__)"
        return Path(_done([str(self.python), "-c", code], self.folder).stdout).parent.name


def _ran(command: list[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    apart = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        command, capture_output=True, text=True, cwd=folder, timeout=240, check=False,
        env={**apart, "RC_CACHE_DIR": ""},
    )  # fmt: skip


def _done(command: list[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    done = _ran(command, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def machine(built, tmp_path_factory):
    """One with the runtime, and a compiled model m.rcx in its folder."""
    found = Machine(tmp_path_factory.mktemp("machine"))
    found.install(built)
    target = str(found.folder / "m.rcx")
    assert rc_compile.main(["two_branch", "--eus=2", "-o", target]) == 0
    return found


@pytest.fixture
def x(machine):
    data = np.random.default_rng(0).standard_normal((4, 8), dtype=np.float32)
    np.save(machine.folder / "x.npy", data)
    return data


def test_what_is_in_it(built):
    """No part of the compiler; and nothing that is loaded with what is in it is missing."""
    assert built.stat().st_size <= MOST_BYTES
    with zipfile.ZipFile(built) as archive:
        assert archive.testzip() is None
        files = {name: archive.read(name) for name in archive.namelist()}
    tops = {name.split("/")[0] for name in files}
    assert tops == {"rcompiler.py", "rcompiler_runtime", f"{built.name[:-17]}.dist-info"}
    ours = {name.removeprefix("rcompiler_runtime/") for name in files if "_runtime/" in name}
    assert {name.split("/")[0] for name in ours} == {
        *(
            "__init__.py",
            "__main__.py",
            "batching.py",
            "bucketed.py",
            "composite_model.py",
            "errors.py",
            "fallback.py",
            "loading.py",
            "model.py",
            "options.py",
            "packed.py",
            "pool.py",
            "py.typed",
        ),
        *("report.py", "checker", "device", "driver", "runtime", "schedule_text", "session"),
        *("support", "tools", "viz"),
    }
    root = Path(rcompiler.__file__).parent
    for folder in ("checker", "runtime"):
        paths = {path.relative_to(root).as_posix() for path in (root / folder).rglob("*.py")}
        assert paths <= ours
    assert {name for name in ours if name.startswith("viz/")} == {
        "viz/__init__.py", "viz/measured.py"
    }  # fmt: skip
    assert (
        "rc-run = rcompiler.tools.rc_run:main"
        in files[f"{built.name[:-17]}.dist-info/entry_points.txt"].decode()
    )


def test_what_it_imports_late_and_does_not_have_is_known():
    """Each of these is refused with the remedy, or not come to: see below."""
    root, files = Path(rcompiler.__file__).parent, runtime_wheel.runtime_files()
    named = {
        name
        for path, data in files.items()
        if path.endswith(".py")
        for node in ast.walk(ast.parse(data))
        if isinstance(node, ast.ImportFrom) and node.module
        for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    }
    ours = {name.removeprefix("rcompiler.").replace(".", "/") for name in named}
    paths = [(name, path) for name in ours for path in (f"{name}.py", f"{name}/__init__.py")]
    there = {(name, path) for name, path in paths if (root / path).exists()}
    missing = {name for name, path in there if f"rcompiler_runtime/{path}" not in files}
    assert {name.replace("/", ".") for name in missing} <= ABSENT


def test_what_it_requires():
    """As the whole package does, by its sources or by its metadata."""
    sources = [_wheel._of_sources] if _wheel._of_sources() else []
    for said in (*sources, _wheel._of_metadata):
        python, license_name, license_text, needed, extras = said()
        assert python and license_name and [text for text in needed if text.startswith("numpy>=")]
        # `python -m pytest` finds an egg-info beside the sources first, which has no license
        assert license_text or not metadata.distribution("rcompiler").read_text("RECORD")
        assert [text.partition(">=")[0].partition("<")[0] for text in extras["cuda"]] == [
            "cuda-bindings"
        ]
    facts = package_facts("x", "", ("numpy",), ("cuda", "sign"), {})
    first, *others = facts.requires
    assert first.startswith("numpy>=") and [text.split("; ")[1] for text in others] == [
        'extra == "cuda"', 'extra == "sign"'
    ]  # fmt: skip


def test_without_sources_and_metadata_there_is_no_wheel(tmp_path, monkeypatch):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(_wheel, "_of_sources", lambda: None)
    monkeypatch.setattr(_wheel.metadata, "distribution", absent)
    with pytest.raises(ToolError, match="install it"):
        package_facts("x", "", ("numpy",), (), {})


def test_equal_files_make_equal_bytes(built, tmp_path):
    assert runtime_wheel.main([f"--out={tmp_path / 'a' / 'new'}"]) == 0
    assert (tmp_path / "a" / "new" / built.name).read_bytes() == built.read_bytes()


def test_a_model_runs_from_python(machine, x):
    code = """
import sys, numpy as np, rcompiler
model = rcompiler.load("m.rcx")
np.save("y.npy", model(np.load("x.npy"))[0])
print(model.report().makespan_ns > 0, model.stage("schedule").partition("\\n")[0])
print(sorted({name.partition(".")[0] for name in sys.modules} &
      {"onnx", "torch_mlir", "llvmlite", "rich", "ml_dtypes"}))
"""
    assert machine.run("python", "-c", code).stdout == "True schedule 1\n[]\n"
    [expected] = rcompiler.load(machine.folder / "m.rcx")(x)
    assert np.load(machine.folder / "y.npy").tobytes() == expected.tobytes()


def test_a_session_runs_a_compiled_model_alone(machine, x):
    code = """
import numpy as np, rcompiler as ort
[y] = ort.InferenceSession("m.rcx").run(None, {"input": np.load("x.npy")})
np.save("s.npy", y)
try:
    ort.InferenceSession("m.onnx")
except ort.CompilerError as error:
    print(type(error).__name__, error)
"""
    done = machine.run("python", "-c", code)
    assert done.stdout.startswith("ToolError an ONNX model needs the compiler"), done.stderr
    [expected] = rcompiler.load(machine.folder / "m.rcx")(x)
    assert np.load(machine.folder / "s.npy").tobytes() == expected.tobytes()


def test_a_model_runs_by_its_command(machine, x):
    done = machine.run("rc-run", "m.rcx", "x.npy", "--save=z.npy", "--profile=t.json")
    assert (done.returncode, done.stderr) == (0, "") and "float32  4x8" in done.stdout
    [expected] = rcompiler.load(machine.folder / "m.rcx")(x)
    assert np.load(machine.folder / "z.npy").tobytes() == expected.tobytes()
    assert json.loads((machine.folder / "t.json").read_text())["format"].startswith("rcompiler")
    version = f"rc-run {rcompiler.__version__}\n"
    assert machine.run("rc-run", "--version").stdout == version


@pytest.mark.parametrize("name", ["compile_onnx", "compile_schedule"])
def test_compiling_is_refused_with_the_remedy(machine, name):
    code = f"""
import rcompiler
from rcompiler import {name}
try:
    rcompiler.{name}("m.onnx", eus=2)
except rcompiler.CompilerError as error:
    print(type(error).__name__, error)
"""
    done = machine.run("python", "-c", code)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"ToolError rcompiler.{name} needs the compiler, which is not ")
    assert "this is its runtime alone" in done.stdout
    assert done.stdout.endswith(f": pip install {WHOLE}\n")


@pytest.mark.parametrize(
    "arguments", [["m.onnx"], ["two_branch"], ["m.rcx", "--verify", "--onnx=m.onnx"],
                  ["m.onnx", "--debug=nodes"]],
)  # fmt: skip
def test_the_command_refuses_with_the_remedy(machine, arguments):
    (machine.folder / "m.onnx").touch()
    done = machine.run("rc-run", *arguments)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.endswith(f": pip install {WHOLE}\n")


def test_the_assembly_and_the_emulated_device_come_with_the_compiler(machine):
    target = str(machine.folder / "e.rcx")
    assert rc_compile.main(["two_branch", "--target=cuda:emulated", "-o", target]) == 0
    code = """
import numpy as np, rcompiler
try:
    rcompiler.load("e.rcx")(np.zeros((4, 8), np.float32))
except rcompiler.CompilerError as error:
    print(type(error).__name__, error)
try:
    rcompiler.load("m.rcx").stage("asm")
except rcompiler.CompilerError as error:
    print(error)
"""
    emulated, assembly = machine.run("python", "-c", code).stdout.splitlines()
    assert emulated.startswith("DeviceError") and emulated.endswith(f"pip install {WHOLE}")
    assert "the compiler, which is not installed here" in assembly


def test_doctor_says_that_models_run(machine):
    done = machine.run("python", "-m", "rcompiler", "doctor")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search("^absent  compiler .*this is its runtime alone", done.stdout, re.M)
    assert re.search("^ok      executable memory", done.stdout, re.M)
    told = json.loads(machine.run("python", "-m", "rcompiler", "doctor", "--json").stdout)
    remedies = " ".join(str(finding.get("remedy")) for finding in told["findings"])
    assert "pip install 'cuda-bindings" in remedies and "rcompiler[" not in remedies
    listed = machine.run("python", "-m", "rcompiler").stdout
    assert "rc-run" in listed and "doctor" in listed and "rc-compile" not in listed
    assert machine.run("python", "-m", "rcompiler", "--version").stdout == (
        f"rcompiler {rcompiler.__version__}\n"
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A wheel with all of the package, as pip would build it; it asks for numpy alone."""
    root = Path(rcompiler.__file__).parent
    paths = [path for path in root.rglob("*.py") if "bench" not in path.parts]
    for folder in ("tools", "pipelines", "dialects"):  # links, where this is no installed package
        paths += (root / folder).rglob("*.py")
    files = {f"rcompiler/{path.relative_to(root).as_posix()}": path.read_bytes() for path in paths}
    facts = package_facts(
        "rcompiler", "all", ("numpy",), (), {"rc-run": "rcompiler.tools.rc_run:main"}
    )
    path = tmp_path_factory.mktemp("whole") / wheel_name(facts)
    path.write_bytes(wheel(facts, files))
    return path


@pytest.mark.parametrize("first", ["runtime", "whole"])
def test_both_may_be_installed(built, whole, tmp_path, first):
    """In either order the compiler is what is found; each is still whole without the other."""
    machine = Machine(tmp_path / "both")
    for path in (built, whole) if first == "runtime" else (whole, built):
        machine.install(path)
    assert machine.home() == "rcompiler"
    assert machine.run("python", "-m", "rcompiler.tools.rc_compile", "--version").returncode == 0
    gone, left = ("rcompiler", "rcompiler_runtime")[:: 1 if first == "runtime" else -1]
    machine.pip("uninstall", "--yes", "--quiet", gone.replace("_", "-"))
    assert machine.home() == left
    assert machine.run("python", "-m", "rcompiler.tools.rc_run", "--version").returncode == 0
    assert not (machine.packages / gone).exists()
