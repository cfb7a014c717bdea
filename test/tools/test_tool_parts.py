"""The parts that the command-line tools are made of."""

import argparse
import hashlib
import io
import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from measurements import command
from onnx import numpy_helper

from rcompiler.errors import CompilerError, InvalidModel, ShapeError
from rcompiler.support.random_inputs import dtype_of, random_inputs
from rcompiler.tools import _console, _data, _measure, _record, _reference, _sources, models

RECORDS = Path(__file__).parents[2] / "tools" / "bench" / "results"


def tensor(name, shape=(2, 3), dtype="float32"):
    return SimpleNamespace(name=name, shape=shape, dtype=dtype)


# -- console ---------------------------------------------------------------------------------
def test_table_aligns_numbers_right():
    stream = io.StringIO()
    _console.table(("name", "ms"), [("a", "1.5"), ("long", "-"), ("b", "12.25")], stream)
    assert stream.getvalue() == "name     ms\na       1.5\nlong      -\nb     12.25\n"


def test_guard_prints_one_line(capsys):
    def fail():
        raise CompilerError("node 'a'\n  is wrong")

    assert _console.guard("rc-x", fail) == 1
    assert capsys.readouterr().err == "rc-x: error: node 'a' is wrong\n"


def test_guard_lets_bugs_through():
    with pytest.raises(ZeroDivisionError):
        _console.guard("rc-x", lambda: 1 // 0)


# -- inputs ----------------------------------------------------------------------------------
def test_random_inputs_are_reproducible_and_typed():
    wanted = [tensor("x"), tensor("i", (4,), "int64"), tensor("b", (), "bool")]
    wanted += [tensor("h", (5,), "bfloat16"), tensor("q", (64,), "int4")]
    first, second = random_inputs(wanted, 7), random_inputs(wanted, 7)
    for t in wanted:
        assert first[t.name].dtype == dtype_of(t.dtype) and first[t.name].shape == t.shape
        assert first[t.name].tobytes() == second[t.name].tobytes()
    assert set(first["i"]) <= {0, 1} and set(first["q"].astype(int)) == {0, 1}
    assert first["h"].dtype == ml_dtypes.bfloat16


def test_ranges():
    ranges = _data.parse_ranges(["i=5:6", "x=-1:-0.5"])
    data = random_inputs([tensor("x"), tensor("i", (3,), "int64")], 0, ranges)
    assert (data["i"] == 5).all() and (data["x"] <= -0.5).all() and (data["x"] >= -1).all()


@pytest.mark.parametrize("text", ["x", "x=1", "x=2:1", "x=a:b", "=", "x=1:1"])
def test_bad_ranges(text):
    with pytest.raises(ShapeError, match="expected NAME=LOW:HIGH"):
        _data.parse_ranges([text])


def test_range_of_unknown_input():
    with pytest.raises(ShapeError, match="no input 'y'; the inputs are: x"):
        random_inputs([tensor("x")], 0, {"y": (0, 1)})


def test_a_file_that_names_its_arrays_is_given_alone(tmp_path):
    file = tmp_path / "all.npz"
    np.savez(file, x=np.zeros(1, np.float32), y=np.zeros(1, np.float32))
    with pytest.raises(ShapeError, match=f"x={file}: the file names its arrays itself"):
        _data.read_inputs([f"x={file}"], [tensor("x"), tensor("y")])


def test_read_inputs_by_order_and_name(tmp_path):
    a, b, c = (np.full((2,), i, np.float32) for i in range(3))
    np.save(tmp_path / "a.npy", a)
    (tmp_path / "b.pb").write_bytes(numpy_helper.from_array(b).SerializeToString())
    np.savez(tmp_path / "c.npz", c=c)
    files = [str(tmp_path / "c.npz"), f"b={tmp_path / 'b.pb'}", str(tmp_path / "a.npy")]
    given = _data.read_inputs(files, [tensor("a"), tensor("b"), tensor("c")])
    assert {k: v[0] for k, v in given.items()} == {"a": 0, "b": 1, "c": 2}


@pytest.mark.parametrize("suffix", ["npy", "npz", "pb"])
@pytest.mark.parametrize("content", [b"", b"\xff\xff\xffnonsense", b"\x93NUMPY\x01", b"PK\x03\x04"])
def test_damaged_files_are_reported(tmp_path, suffix, content):
    file = tmp_path / f"x.{suffix}"
    file.write_bytes(content)
    with pytest.raises(CompilerError, match=f"x.{suffix}"):
        _data.read_inputs([str(file)], [tensor("x")])


def test_missing_and_surplus_inputs(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(2))
    file = str(tmp_path / "x.npy")
    with pytest.raises(ShapeError, match="no file is given for input 'y'"):
        _data.read_inputs([file], [tensor("x"), tensor("y")])
    with pytest.raises(ShapeError, match="not an input: 'z'"):
        _data.read_inputs([f"z={file}"], [tensor("x")])
    with pytest.raises(ShapeError, match="more files than inputs; the inputs are: x"):
        _data.read_inputs([file, file], [tensor("x")])
    with pytest.raises(CompilerError, match="nowhere.npy: cannot read"):
        _data.read_inputs([str(tmp_path / "nowhere.npy")], [tensor("x")])


def test_save_outputs(tmp_path):
    outputs = {"a/b": np.arange(3), "file": np.ones(2), "scalar": np.float32(4)}
    _data.save_outputs(tmp_path / "y.npz", outputs)
    saved = np.load(tmp_path / "y.npz")
    assert {name: saved[name].tolist() for name in saved.files} == {
        name: value.tolist() for name, value in outputs.items()
    }
    with pytest.raises(CompilerError, match="saved as .npz"):
        _data.save_outputs(tmp_path / "y.npy", outputs)


# -- sources ---------------------------------------------------------------------------------
def test_shapes_tell_inputs_from_symbolic_dimensions():
    source = _sources.Source("mlp", None, models.build("two_branch"))
    options = SimpleNamespace(shapes=["input=7,batch=4", "other=1x3", "s="])
    shapes = _sources.shapes_of(options, source)
    assert shapes == {"input": (7,), "batch": 4, "other": (1, 3), "s": ()}


# -- comparison ------------------------------------------------------------------------------
def right(actual, expected, **options):
    return _reference.compare(np.asarray(actual), np.asarray(expected), **options).right


def test_floats_are_compared_to_scale():
    want = np.float32([1, -1, 1, -1])
    assert right(want + np.float32(9e-5), want)
    assert not right(want + np.float32(2e-4), want)
    assert right(want + np.float32(2e-4), want, tolerance=1e-3)
    assert not right(np.float32([1e-30]), np.float32([0]))


def test_special_values_have_to_agree():
    inf, nan = np.inf, np.nan
    assert right(np.float32([inf, nan, 1]), np.float32([inf, nan, 1]))
    for bad in ([-inf, nan, 1], [1, nan, 1], [inf, 1, 1], [inf, nan, nan], [inf, nan, inf]):
        assert not right(np.float32(bad), np.float32([inf, nan, 1]))


def test_integers_are_exact():
    big = 2**62
    assert right(np.int64([big]), np.int64([big]))
    found = _reference.compare(np.int64([[0, big]]), np.int64([[0, big + 1]]))
    assert not found.right and found.where == (0, 1)
    assert not right(np.array([True]), np.array([False]))
    assert right(np.zeros((0, 3), np.int8), np.zeros((0, 3), np.int8))


def test_types_and_shapes_have_to_agree():
    with pytest.raises(CompilerError, match=r"float32\[2\], the reference float64\[2\]"):
        right(np.zeros(2, np.float32), np.zeros(2))


@pytest.mark.parametrize("engine", ["onnx", "onnxruntime"])
def test_engines_agree(engine):
    model = models.build("two_branch")
    x = random_inputs([tensor("input", (4, 8))])
    name, (y,) = _reference.reference(model, x, engine)
    assert name.startswith(engine) and right(y, _reference.reference(model, x)[1][0])


# -- measuring -------------------------------------------------------------------------------
def test_interleaved_rounds_alternate_and_count():
    order = []
    engines = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    times = _measure.interleaved(engines, rounds=3, block_s=1e-9)
    assert [len(timing.blocks) for timing in times.values()] == [3, 3]
    assert order[-12:] == ["a", "a", "b", "b", "b", "b", "a", "a", "a", "a", "b", "b"]
    assert _measure.percentiles(times["a"])["calls"] == 3


def test_ratio_is_paired_by_round():
    ours = _measure.Timing(1, [np.array([10, 11, 10]), np.array([100])])
    theirs = _measure.Timing(1, [np.array([20]), np.array([200])])
    assert _measure.ratio(ours, theirs) == 2.0


def test_the_clock_of_the_thread_counts_no_sleep():
    times = _measure.interleaved({"a": lambda: time.sleep(0.002)}, 2, 0.001, "cpu")
    assert _measure.percentiles(times["a"])["p50"] < 1  # ms


def test_threads_that_spin_for_a_while_are_waited_for():
    """In the first look they take part, in a later one they are over."""
    until = time.monotonic() + 1.5 * _measure._SETTLE_S
    data = bytes(1 << 20)

    def spin():
        while time.monotonic() < until:
            hashlib.sha256(data)  # beside the interpreter lock

    with ThreadPoolExecutor(1) as pool:
        pool.submit(spin)
        times = _measure.interleaved({"a": lambda: sum(range(20_000))}, 1, 0.001, "cpu")
    assert _measure.percentiles(times["a"])["calls"] > 0


def test_the_clock_of_the_thread_needs_all_work_in_it():
    with ThreadPoolExecutor(1) as pool:

        def elsewhere():
            pool.submit(lambda: sum(range(100_000))).result()

        with pytest.raises(CompilerError, match="engine works in threads of its own; measure with"):
            _measure.interleaved({"engine": elsewhere}, 1, 0.001, "cpu")


def test_short_calls_are_timed_in_batches(monkeypatch):
    calls = []
    # a clock that only calls move: 1 us each
    monkeypatch.setattr(_measure.time, "perf_counter_ns", lambda: 1000 * len(calls))
    (timing,) = _measure.interleaved({"a": lambda: calls.append(0)}, 2, block_s=0.01).values()
    assert timing.batch == 100 and len(timing.blocks) == 2  # batches of 100 us
    assert _measure.percentiles(timing)["min"] == pytest.approx(1e-3)  # ms
    assert len(calls) >= _measure.percentiles(timing)["calls"] >= 2 * timing.batch


def test_record_names_its_circumstances(tmp_path):
    record = _record.provenance()
    assert record["device"]["cpus"] >= 1 and record["versions"]["numpy"] == np.__version__
    assert _record.commit(tmp_path) is None


def test_a_record_is_what_was_measured_and_not_where_it_was_written(tmp_path):
    path = tmp_path / "record.json"
    options = argparse.Namespace(models=["mlp"], only=None, baseline=[], seed=0, json=str(path))
    _record.write_record(path, {"options": _record.asked(options), "results": [1.5]})
    record = json.loads(path.read_text())
    assert record["options"] == {"models": ["mlp"], "seed": 0} and record["results"] == [1.5]
    assert record["device"]["cpus"] >= 1 and str(tmp_path) not in path.read_text()


@pytest.mark.parametrize("path", sorted(RECORDS.glob("*.json")), ids=lambda path: path.stem)
def test_published_records_name_no_path_of_a_machine(path):
    assert not re.search(r"""["'= ]/\w""", path.read_text())


def test_a_file_that_cannot_be_written_is_refused(tmp_path):
    _console.check_writable(None)
    _console.check_writable(str(tmp_path / "record.json"))
    with pytest.raises(OSError, match="nowhere"):
        _console.check_writable(str(tmp_path / "nowhere" / "record.json"))


# -- option errors ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    "tool, arguments, message",
    [
        ("rc_compile", ["m.onnx", "--eus=0"], "'0' is not a positive integer"),
        ("rc_compile", ["m.onnx", "--emit=asm", "--check"], "not allowed with argument"),
        ("rc_compile", [], "required: model"),
        ("rc_run", ["m.onnx", "--verif"], "unrecognized arguments: --verif"),
        ("rc_run", ["m.onnx", "--reference=tf"], "invalid choice: 'tf'"),
        ("rc_bench", ["--threads=1,x"], "'x' is not a positive integer"),
        ("rc_bench", ["--models="], "the list is empty"),
        ("rc_bench", ["--seconds=-1"], "not a positive number of seconds"),
        ("rc_bench", ["--baseline=tvm"], "no baseline 'tvm'; there are: onnxruntime, openvino"),
        ("operator_bench", ["--only=("], "'(' is no regular expression"),
    ],
)
def test_wrong_options_are_one_line_and_exit_2(tool, arguments, message):
    ours = [sys.executable, "-m", f"rcompiler.tools.{tool}"]
    done = subprocess.run(
        [*(ours if tool.startswith("rc_") else command(tool)), *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and message in done.stderr
    assert done.stderr.count("\n") == 1 and " --help" in done.stderr


def test_inputs_as_a_model_declares_them():
    model = models.build("two_branch")
    assert [(x.name, x.dtype) for x in _data.declared_inputs(model)] == [("input", "float32")]
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    with pytest.raises(InvalidModel, match="has no static shape, .*; write the network with one"):
        _data.declared_inputs(model)


def test_a_record_says_what_was_asked_for(tmp_path):
    file = tmp_path / "r.json"
    asked = {"json": str(file), "only": re.compile("a|b"), "models": ["x"], "none": None}
    paths = {"folder": "f", "python": "p", "against": "g"}  # of one machine
    _record.keep(argparse.Namespace(**asked, **paths), figures=[1], mean=2.0)
    record = json.loads(file.read_text())
    assert record["options"] == {"only": "a|b", "models": ["x"]}
    assert record["figures"] == [1] and record["mean"] == 2.0 and "commit" in record


def test_no_record_where_none_is_asked_for():
    _record.keep(argparse.Namespace(json=None), figures=object())
