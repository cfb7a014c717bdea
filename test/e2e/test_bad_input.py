"""Everything that can be wrong with what a user gives: a typed error with reason and remedy."""

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
import warnings
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rcompiler
from rcompiler.codegen.cpu import CacheWarning
from rcompiler.errors import (
    ArtifactError,
    CompilerError,
    DeviceError,
    InvalidModel,
    ScheduleError,
    ShapeError,
    UnsupportedOp,
)
from rcompiler.model import CompiledModel
from rcompiler.runtime import container
from rcompiler.tools import models, rc_compile, rc_run

F = TensorProto.FLOAT


def graph_model(nodes, inputs=(("x", (2, 3)),), outputs=(("y", (2, 3)),), weights=(), domain=""):
    """A model without any check."""
    ports = [
        [helper.make_tensor_value_info(name, F, shape) for name, shape in side]
        for side in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "g", *ports, initializer=list(weights))
    opsets = [helper.make_opsetid("", 17)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def relu(shape=(2, 3)):
    return graph_model(
        [helper.make_node("Relu", ["x"], ["y"], "act")], [("x", shape)], [("y", shape)]
    )


def external(folder, location="weights.bin"):
    """y = x + w, with w in a file that may be missing."""
    weight = numpy_helper.from_array(np.ones((2, 3), np.float32), "w")
    proto = graph_model([helper.make_node("Add", ["x", "w"], ["y"], "sum")], weights=[weight])
    path = folder / "m.onnx"
    onnx.save(proto, path, save_as_external_data=True, location=location, size_threshold=0)
    return path


@pytest.fixture(scope="module")
def model():
    return rcompiler.compile_onnx(models.build("two_branch", rows=64, width=32), eus=2, cache=False)


@pytest.fixture
def saved(model, tmp_path):
    model.save(tmp_path / "m.rcx")
    return tmp_path / "m.rcx"


def refused(kind, *words, **options):
    """Compiles options["model"] and checks kind and words of the error, here and on the CLI."""
    proto = options.pop("model")
    with pytest.raises(kind) as caught:
        rcompiler.compile_onnx(proto, cache=False, **options)
    for word in words:
        assert word in str(caught.value), (word, str(caught.value))
    return str(caught.value)


# -- models -------------------------------------------------------------------------------------
def test_a_truncated_file(tmp_path):
    data = models.build("two_branch", width=32).SerializeToString()
    for size in (1, 10, len(data) // 2, len(data) - 1):
        (tmp_path / "cut.onnx").write_bytes(data[:size])
        refused(InvalidModel, model=tmp_path / "cut.onnx")
    (tmp_path / "cut.onnx").write_bytes(b"")
    refused(InvalidModel, "graph", model=tmp_path / "cut.onnx")


def test_a_damaged_file_never_ends_in_an_internal_error():
    data = bytearray(models.build("two_branch").SerializeToString())
    rng = np.random.default_rng(0)
    for _ in range(60):
        broken = bytearray(data)
        for position in rng.integers(0, len(data), 3):
            broken[position] = rng.integers(256)
        try:
            from rcompiler.frontend import import_onnx

            import_onnx(bytes(broken))
        except CompilerError:
            pass


def test_what_is_no_model_at_all(tmp_path):
    refused(InvalidModel, "nowhere.onnx", model=tmp_path / "nowhere.onnx")
    refused(InvalidModel, "a path, bytes or onnx.ModelProto", model=3)
    refused(InvalidModel, model=b"\x7fELF" * 100)
    refused(InvalidModel, "directory", model=tmp_path)


def test_a_cycle():
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["b"], "second"),
        helper.make_node("Relu", ["b"], ["y"], "third"),
    ]
    refused(InvalidModel, "first", "cycle", model=graph_model(nodes))


def test_a_dangling_name():
    proto = graph_model([helper.make_node("Add", ["x", "ghost"], ["y"], "sum")])
    refused(InvalidModel, "ghost", model=proto)
    proto = graph_model([helper.make_node("Relu", ["x"], ["z"], "act")])
    refused(InvalidModel, "y", model=proto)


def test_an_unknown_operator_and_an_unknown_domain():
    proto = graph_model([helper.make_node("Frobnicate", ["x"], ["y"], "frob")])
    refused((InvalidModel, UnsupportedOp), "Frobnicate", model=proto)
    node = helper.make_node("Special", ["x"], ["y"], "mine", domain="com.example")
    refused(
        UnsupportedOp,
        "mine",
        "Special",
        "com.example",
        model=graph_model([node], domain="com.example"),
    )


def test_missing_or_short_external_data(tmp_path):
    path = external(tmp_path)
    assert np.array_equal(
        rcompiler.compile_onnx(path, cache=False)(np.zeros((2, 3), np.float32))[0], np.ones((2, 3))
    )
    (tmp_path / "weights.bin").write_bytes(b"123")
    refused(InvalidModel, "m.onnx", "external data", model=path)
    (tmp_path / "weights.bin").unlink()
    refused(InvalidModel, "m.onnx", "weight files beside the model", model=path)


def test_dynamic_dimensions_without_shapes():
    proto = relu(("batch", 3))
    refused(ShapeError, "'x'", "'batch'", "shapes=", model=proto)
    refused(ShapeError, model=proto, shapes={"x": (1, 2, 3)})
    refused(ShapeError, model=proto, shapes={"x": (-1, 3)})
    refused(ShapeError, model=proto, shapes={"x": "abc"})
    refused(ShapeError, "z", model=proto, shapes={"z": (1, 3), "batch": 2})
    assert rcompiler.compile_onnx(proto, shapes={"batch": 4}, cache=False).inputs[0].shape == (4, 3)


@pytest.mark.parametrize("shape", [(1 << 40, 1 << 20), (1 << 62, 8), (2**31, 2**31, 2**31)])
def test_huge_shapes_are_refused_before_anything_is_reserved(shape):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(ShapeError, "'x'", "GiB", model=relu(shape))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_a_huge_intermediate_is_refused():
    nodes = [
        helper.make_node("Reshape", ["x", "column"], ["c"], "column"),
        helper.make_node("Reshape", ["x", "row"], ["r"], "row"),
        helper.make_node("Mul", ["c", "r"], ["p"], "outer"),
        helper.make_node("ReduceSum", ["p"], ["y"], "total", keepdims=0),
    ]
    n = 1 << 19
    shapes = [
        numpy_helper.from_array(np.array(s), k) for k, s in (("column", (n, 1)), ("row", (1, n)))
    ]
    refused(
        ShapeError, "outer", "GiB", model=graph_model(nodes, [("x", (n,))], [("y", ())], shapes)
    )


def test_a_model_larger_than_this_machine(monkeypatch):
    real = os.sysconf
    monkeypatch.setattr(os, "sysconf", lambda name: 1 if name == "SC_PHYS_PAGES" else real(name))
    refused(DeviceError, "bytes of memory", model=relu((1 << 20,)))
    message = refused(
        DeviceError, "bytes of memory", model=models.build("mlp", layers=(64, 128, 64))
    )
    assert "this machine has" in message and "smaller model" in message


# -- options ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "options, kind, word",
    [
        ({"target": "toaster"}, DeviceError, "cpu"),
        ({"target": "h200"}, DeviceError, "CPU"),
        ({"target": "no/such/file.json"}, DeviceError, "file.json"),
        ({"target": 3}, DeviceError, "such as"),
        ({"target": ""}, DeviceError, "such as"),
        ({"policy": "best"}, CompilerError, "rammer"),
        ({"policy": None}, CompilerError, "rammer"),
        ({"eus": 0}, CompilerError, "1 or more"),
        ({"eus": -2}, CompilerError, "1 or more"),
        ({"eus": 2.5}, CompilerError, "1 or more"),
        ({"eus": True}, CompilerError, "1 or more"),
        ({"eus": 1 << 20}, CompilerError, "4096"),
        ({"tune": "full"}, CompilerError, "tune"),
        ({"deterministic": False}, CompilerError, "deterministic"),
        ({"fusion": "no"}, CompilerError, "fusion"),
        ({"cache": 7}, CompilerError, "cache"),
        ({"shapes": 7}, ShapeError, "shapes"),
        ({"progress": 7}, CompilerError, "progress"),
    ],
)
def test_unknown_options(options, kind, word):
    with pytest.raises(kind) as caught:
        rcompiler.compile_onnx(relu(), **{"cache": False, **options})
    assert word in str(caught.value) and "defect" not in str(caught.value)


# -- calls --------------------------------------------------------------------------------------
X = np.linspace(-1, 1, 64 * 32, dtype=np.float32).reshape(64, 32)


@pytest.mark.parametrize(
    "args, kwargs, words",
    [
        ((), {}, "'input' is missing"),
        ((X, X), {}, "2 arguments for 1 inputs"),
        ((), {"z": X}, "no input 'z'"),
        ((X,), {"input": X}, "by position and by name"),
        ((X[:2],), {}, "has shape"),
        ((X.astype(np.float64),), {}, "float64"),
        ((X.astype(">f4"),), {}, ">f4"),
        ((None,), {}, "has shape"),
        (("text",), {}, "has shape"),
        (([[1], [1, 2]],), {}, "input"),
        ((object(),), {}, "has shape"),
    ],
)
def test_wrong_arguments_of_a_call(model, args, kwargs, words):
    with pytest.raises(ShapeError) as caught:
        model(*args, **kwargs)
    assert words in str(caught.value)


def test_views_and_special_values_are_data(model):
    (expected,) = model(X)
    for view in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X[::-1][::-1]):
        assert np.array_equal(model(view)[0], expected)
    odd = X.copy()
    odd[0, 0], odd[1, 0], odd[2, 0] = np.nan, np.inf, -np.inf
    (found,) = model(odd)
    assert np.isnan(found[0]).all() and np.array_equal(found[3:], expected[3:])


# -- compiled files -----------------------------------------------------------------------------
def rewrite(path, change=lambda header: None, words=None):
    """Change header and tables and make all hashes right again: what a stranger can do."""
    header, sections = container.read(path)
    sections = {name: np.array(data) for name, data in sections.items()}
    if words is not None:
        words(sections["tables"].view("<i8"))
    header.pop("sections")
    change(header)
    facts = {
        name: container.describe(sections[name])["sha256"] for name in ("code", "tables", "weights")
    }
    decisive = {k: v for k, v in header.items() if k not in ("certificate", "provenance")}
    text = json.dumps([decisive, facts], sort_keys=True, separators=(",", ":"))
    header["certificate"] = hashlib.sha256(text.encode()).hexdigest()
    container.write(path, header, dict(sorted(sections.items())))


def test_truncated_and_damaged_files(saved):
    good = saved.read_bytes()
    for size in (0, 3, 64, 500, len(good) // 2, len(good) - 1):
        saved.write_bytes(good[:size])
        with pytest.raises(ArtifactError, match="m.rcx: "):
            rcompiler.load(saved)
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(good), 40):
        changed = bytearray(good)
        changed[position] ^= 0x10
        saved.write_bytes(changed)
        try:
            assert np.isfinite(rcompiler.load(saved)(X)[0]).all()  # a byte of padding
        except CompilerError as error:
            assert "m.rcx: " in str(error)


def test_foreign_files(tmp_path):
    with zipfile.ZipFile(tmp_path / "zip.rcx", "w") as archive:
        archive.writestr("model.json", "{}")
    np.save(tmp_path / "array.npy", X)
    onnx.save(relu(), tmp_path / "m.onnx")
    for name in ("zip.rcx", "array.npy", "m.onnx"):
        with pytest.raises(ArtifactError, match=f"{name}: it is no compiled model; "):
            rcompiler.load(tmp_path / name)
    with pytest.raises(ArtifactError, match="cannot be read"):
        rcompiler.load(tmp_path / "nowhere.rcx")
    with pytest.raises(ArtifactError, match="cannot be read"):
        rcompiler.load(tmp_path)
    with pytest.raises(ArtifactError, match="a path"):
        rcompiler.load(None)


def test_another_version_says_so(saved):
    data = saved.read_bytes()
    saved.write_bytes(data[:4] + (99).to_bytes(4, "little") + data[8:])
    with pytest.raises(ArtifactError, match="version 99.*compile the model again"):
        rcompiler.load(saved)


def test_unchanged_content_is_accepted(saved):
    rewrite(saved)
    assert rcompiler.load(saved)(X)[0].shape == (64, 32)


def racing(model):
    """The notes and words of a schedule in which left reads what right writes, without a wait."""
    (program,) = model.artifact.programs
    runs = [w for stream in program.streams for w in [list(stream)] if len(w) > 1]
    return program, runs


def test_a_proof_is_needed(saved):
    rewrite(saved, lambda header: header.update(proof={}))
    with pytest.raises(ArtifactError, match="no proof of its schedule; compile the model again"):
        rcompiler.load(saved)
    rewrite(saved, lambda header: header.pop("proof"))
    with pytest.raises(ArtifactError, match="no proof|not of this content"):
        rcompiler.load(saved)


def test_edited_tables_that_race_are_refused(tmp_path):
    """Two EUs and a wait; the wait becomes one for a signal that comes too early."""
    proto = models.build("tiny_chain", ops=6, width=512)
    chain = rcompiler.compile_onnx(proto, eus=2, cache=False)
    path = tmp_path / "chain.rcx"
    chain.save(path)
    waits = [
        (position, words)
        for program in chain.artifact.programs
        for words in program.streams
        for position in waits_of(words)
    ]
    assert waits, "the schedule of this model is expected to have waits"

    def earlier(words):
        """Every wait waits for the first event only: all later hand-offs are unordered."""
        at = 0
        for program in chain.artifact.programs:
            for stream in program.streams:
                for position in waits_of(stream):
                    words[at + position + 1] = 0
                    words[at + position + 2] = 1
                at += len(stream)

    rewrite(path, words=earlier)
    with pytest.raises((ScheduleError, ArtifactError)) as caught:
        rcompiler.load(path)
    assert "chain.rcx: " in str(caught.value)
    assert isinstance(caught.value, ScheduleError) and caught.value.rule in ("race", "deadlock")


def waits_of(stream):
    from rcompiler.runtime import tables

    return [position for position, code, _ in tables.instructions(stream) if code == tables.WAIT]


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p["buffers"].pop(),
        lambda p: p["buffers"][0].__setitem__(2, 64),
        lambda p: p["buffers"][0].__setitem__(3, -5),
        lambda p: p["buffers"][0].__setitem__(1, "moon"),
        lambda p: p["kernels"].pop(),
        lambda p: p["kernels"][0].__setitem__(0, [7, 7]),
        lambda p: p["kernels"][0][1].pop(),
        lambda p: p["kernels"][0][2][0].__setitem__(0, [1 << 60, 1 << 60]),
        lambda p: p["kernels"][0].__setitem__(3, [[0, 99]]),
        lambda p: p["programs"][0]["operands"].clear(),
        lambda p: p["programs"][0]["buffers"].append(1 << 40),
        lambda p: p["programs"].append({}),
        lambda p: p.update(buffers=None),
        lambda p: p.update(kernels="x"),
    ],
)
def test_notes_that_do_not_fit_are_refused(saved, change):
    rewrite(saved, lambda header: change(header["proof"]))
    with pytest.raises((ArtifactError, ScheduleError), match="m.rcx: "):
        rcompiler.load(saved)


# -- folders ------------------------------------------------------------------------------------
def compile_into(folder):
    """Compiles with a cache that cannot be used: the model works, one warning says why."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = rcompiler.compile_onnx(
            models.build("two_branch", rows=64, width=32), eus=2, cache=folder
        )
    assert [w.category for w in seen if issubclass(w.category, CacheWarning)] == [CacheWarning]
    assert str(folder) in str(seen[0].message)
    return found


def test_a_cache_folder_that_cannot_be_made_or_is_a_file(model, tmp_path):
    (tmp_path / "file").write_text("")
    assert np.array_equal(compile_into(tmp_path / "file")(X)[0], model(X)[0])
    assert np.array_equal(compile_into(tmp_path / "file" / "below")(X)[0], model(X)[0])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_cache_folder(model, tmp_path):
    tmp_path.chmod(0o500)
    assert np.array_equal(compile_into(tmp_path)(X)[0], model(X)[0])


def test_a_read_only_or_full_file_system(model):
    """/proc takes no files, whoever asks."""
    assert np.array_equal(compile_into("/proc/rcompiler-cache")(X)[0], model(X)[0])


_LIMITED = """
import resource, signal, sys, warnings
import numpy as np
import rcompiler
from rcompiler.tools import models
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
proto = models.build("two_branch", rows=64, width=32)
import rcompiler.compile
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))  # a disk with 200 bytes left
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    model = rcompiler.compile_onnx(proto, eus=1, cache=sys.argv[1])
print(len(seen), np.isfinite(model(np.ones((64, 32), np.float32))[0]).all())
try:
    model.save(sys.argv[2])
except rcompiler.CompilerError as error:
    print(type(error).__name__, error)
"""


def test_a_full_disk(tmp_path):
    (tmp_path / "m.rcx").write_text("what was there")
    command = [sys.executable, "-c", _LIMITED, str(tmp_path / "cache"), str(tmp_path / "m.rcx")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == "1 True"
    assert second.startswith("ArtifactError") and "m.rcx: cannot be written" in second
    assert (tmp_path / "m.rcx").read_text() == "what was there"
    assert sorted(os.listdir(tmp_path)) == ["cache", "m.rcx"] and not os.listdir(tmp_path / "cache")


_SAVE_FOREVER = """
import sys
import rcompiler
model = rcompiler.load(sys.argv[1])
print("ready", flush=True)
while True:
    model.save(sys.argv[2])
"""


def test_a_save_that_is_killed_leaves_the_old_file_whole(saved, tmp_path):
    target = tmp_path / "target.rcx"
    for delay in (0.0, 0.003, 0.01, 0.02):
        command = [sys.executable, "-c", _SAVE_FOREVER, str(saved), str(target)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout and process.stdout.readline() == "ready\n"
            deadline = time.monotonic() + 20
            while not target.exists() and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
        assert target.read_bytes() == saved.read_bytes()


# -- the command line ---------------------------------------------------------------------------
def test_the_tools_print_one_line_and_no_traceback(tmp_path, monkeypatch, capsys, saved):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RC_CACHE_DIR", "")
    (tmp_path / "cut.onnx").write_bytes(models.build("two_branch").SerializeToString()[:100])
    onnx.save(relu(("batch", 3)), "dynamic.onnx")
    onnx.save(relu((1 << 40, 1 << 20)), "huge.onnx")
    onnx.save(graph_model([helper.make_node("Frobnicate", ["x"], ["y"], "frob")]), "unknown.onnx")
    (tmp_path / "external").mkdir()
    path = external(tmp_path / "external")
    (tmp_path / "external" / "weights.bin").unlink()
    (tmp_path / "bad.mlir").write_text("module {" * 200_000)
    (tmp_path / "cut.rcx").write_bytes(saved.read_bytes()[:1000])
    np.save("nothing.npy", np.zeros((0, 3)))
    cases = [
        (rc_compile.main, ["cut.onnx"], "cut.onnx"),
        (rc_compile.main, ["dynamic.onnx"], "batch"),
        (rc_compile.main, ["dynamic.onnx", "--shapes=batch=0x"], "shapes"),
        (rc_compile.main, ["huge.onnx"], "GiB"),
        (rc_compile.main, ["unknown.onnx"], "Frobnicate"),
        (rc_compile.main, [str(path)], "external data"),
        (rc_compile.main, ["bad.mlir"], "not valid"),
        (rc_compile.main, ["two_branch", "--emit=torch"], "linalg directly"),
        (rc_compile.main, ["two_branch", "--target=h200"], "CPU"),
        (rc_run.main, ["cut.rcx"], "cut.rcx"),
        (rc_run.main, ["m.rcx", "nothing.npy"], "input"),
        (rc_run.main, ["."], "."),
    ]
    for main, arguments, word in cases:
        code = main(arguments)
        out, err = capsys.readouterr()
        assert code == 1 and word in err, (arguments, code, err)
        assert err.count("\n") == 1 and "Traceback" not in out + err, (arguments, err)


def test_stages_that_do_not_exist(model):
    with pytest.raises(CompilerError, match="linalg directly.*there are: linalg, rtask, rkernel"):
        model.stage("torch")
    with pytest.raises(CompilerError, match="no stage 'ptx'; there are: linalg"):
        model.stage("ptx")


def test_a_defect_is_called_one(monkeypatch):
    """Whatever happens inside leaves as a CompilerError that names the step."""
    from rcompiler import compile as module

    def broken(*_):
        raise KeyError("inside")

    monkeypatch.setattr(module, "read_tables", broken)
    refused(CompilerError, "prove: KeyError", "a defect of the compiler", model=relu())


def test_oversubscription_is_bounded(model):
    start = time.perf_counter()
    many = CompiledModel(model.artifact, eus=2)
    assert np.array_equal(many(X)[0], model(X)[0])
    assert time.perf_counter() - start < 20
