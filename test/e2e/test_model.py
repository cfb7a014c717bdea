"""What compile_onnx and load return: called from threads, saved, loaded, explained."""

import json
import subprocess
import sys
import threading

import numpy as np
import pytest
from bad_models import graph_model
from onnx import helper

import rcompiler
from rcompiler.report import is_explanation
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools import models

# Packages of ours that running a saved model may import.
NEEDED = {
    *("callers", "certified", "checker", "device", "errors", "gpu_devices", "html_table"),
    *(
        "extent",
        "installed",
        "loading",
        "model",
        "model_views",
        "libc",
        "packed_names",
        "random_keys",
        "report",
        "runtime",
        "this_process",
    ),  # installed: says what is not here
}
STAGES = ("linalg", "rtask", "rkernel", "vdevice", "llvm", "asm")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def steps():
    return []


@pytest.fixture(scope="module")
def model(cache, steps):
    return rcompiler.compile_onnx(
        models.build("tiny_matmul_chain", ops=8, width=96),
        eus=2,
        cache=cache,
        progress=lambda *step: steps.append(step),
    )


@pytest.fixture
def saved(model, tmp_path):
    model.save(tmp_path / "m.rcx")
    return tmp_path / "m.rcx"


def test_calls_from_several_threads(model):
    inputs = [random_inputs(model.inputs, seed) for seed in range(6)]
    expected = [model(**feeds)[0] for feeds in inputs]
    wrong = []

    def work(number):
        for turn in range(200):
            which = (number + turn) % len(inputs)
            if not np.array_equal(model(**inputs[which])[0], expected[which]):
                wrong.append((number, turn))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not wrong


def test_results_belong_to_the_caller(model):
    first, second = (random_inputs(model.inputs, seed) for seed in (1, 2))
    (kept,) = model(**first)
    copy = kept.copy()
    model(**second)
    assert np.array_equal(kept, copy)
    kept[:] = 0
    assert np.array_equal(model(**first)[0], copy)


def test_saved_and_loaded_is_the_same(model, saved, tmp_path):
    loaded = rcompiler.load(saved)
    feeds = random_inputs(model.inputs)
    assert np.array_equal(loaded(**feeds)[0], model(**feeds)[0])
    assert (loaded.inputs, loaded.outputs) == (model.inputs, model.outputs)
    assert loaded.report() == model.report()
    for stage in STAGES:
        assert loaded.stage(stage) == model.stage(stage), stage
    for key, value in model.constants().items():
        assert np.array_equal(loaded.constants()[key], value)
    loaded.save(tmp_path / "again.rcx")
    assert (tmp_path / "again.rcx").read_bytes() == saved.read_bytes()


@pytest.mark.parametrize(
    "stage, text",
    [
        ("linalg", "linalg.generic"),
        ("rtask", "rtask.operator"),
        ("rkernel", "rtask.kernel"),
        ("vdevice", "vdevice.program"),
        ("llvm", "llvm.func"),
        ("asm", ".globl\tk_"),
    ],
)
def test_stages(model, stage, text):
    assert text in model.stage(stage)


def test_the_report(model):
    report = model.report()
    assert report.operators and report.eus == 2
    assert 0 < report.path_bound_ns <= report.makespan_ns
    assert 0 < report.work_bound_ns <= report.makespan_ns
    assert len(report.idle_ns) == 2 and min(report.idle_ns) >= 0
    assert 0 < report.arena_bound_bytes <= report.arena_bytes
    assert f"arena_bound = {report.arena_bound_bytes} : i64" in model.stage("vdevice")
    data = json.loads(report.to_json())
    assert data == report.to_dict()
    assert {op["name"] for op in data["operators"]} == {op.name for op in report.operators}
    assert "makespan" in str(report) and report.operators[0].name[:20] in str(report)
    assert all(is_explanation(op.explanation) and op.source == "roller" for op in report.operators)
    assert report.operators[0].name in report.explain()


def test_progress_names_every_step_with_growing_time(model, steps):
    names = [name for name, _ in steps]
    assert names[0] == "import" and names[-2:] == ["object", "link"]
    order = ["rtask-form", "roller-tile", "rammer-schedule", "vdevice-to-cpu", "prove"]
    assert [name for name in names if name in order] == order
    seconds = [time for _, time in steps]
    assert seconds == sorted(seconds) and seconds[0] >= 0 and seconds[-1] > 0


_LOAD = """
import sys, time
start = time.perf_counter()
import numpy
numpy_there = time.perf_counter()
import rcompiler
load = rcompiler.load
imported = time.perf_counter()
model = load(sys.argv[1])
loaded = time.perf_counter()
model.report()
model.stage("vdevice")
compilers = {"torch_mlir", "llvmlite", "onnx", "google", "ml_dtypes", "rich"} & set(sys.modules)
parts = [name.split(".")[1:] for name in sys.modules if name.startswith("rcompiler.")]
rooms = ("driver", "support")
ours = {p[1] if p[0] in rooms else p[0] for p in parts if p[-1] not in rooms}
times = (numpy_there - start, imported - numpy_there, loaded - imported)
print("numpy {:.0f} ms, rcompiler {:.0f} ms, load {:.0f} ms".format(*(1e3 * t for t in times)),
      file=sys.stderr)
print(sorted(compilers), sorted(ours))
"""


def test_a_saved_model_loads_without_the_compiler(saved):
    command = [sys.executable, "-c", _LOAD, str(saved)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    print(done.stderr)
    compilers, ours = done.stdout.strip().split("] ", 1)
    assert compilers == "["
    assert set(json.loads(ours.replace("'", '"'))) <= NEEDED


def test_names_of_any_text(tmp_path):
    odd = 'é "x"\\ \n\x01/ünder→'
    node = helper.make_node("Relu", [odd], ["y" + odd], "n" + odd)
    proto = graph_model([node], [(odd, (2, 3))], [("y" + odd, (2, 3))])
    model = rcompiler.compile_onnx(proto, cache=False)
    assert (model.inputs[0].name, model.outputs[0].name) == (odd, "y" + odd)
    x = np.float32([[-1, 2, -3], [4, -5, 6]])
    assert np.array_equal(model(**{odd: x})[0], np.maximum(x, 0))
    model.save(tmp_path / "odd.rcx")
    assert rcompiler.load(tmp_path / "odd.rcx").inputs == model.inputs
    again = rcompiler.compile_schedule(model.stage("vdevice"), model.constants(), cache=False)
    assert again.artifact.certificate == model.artifact.certificate
