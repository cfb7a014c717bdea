"""The schedule is text: printed, edited by hand, compiled again, or refused with the reason."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import schedule_text as edit

import rcompiler
from rcompiler.errors import ArtifactError, DeviceError, InvalidModel, ScheduleError
from rcompiler.frontend import import_onnx
from rcompiler.options import GpuPrecision
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools import models, rc_compile, rc_opt

ROWS, WIDTH = 96, 64  # more than what is merged, or stays on chip from one to the other
RIGHT, LEFT = "right_MatMul", "left_MatMul"
TARGET, RECORD = "cpu:x86-64", "zen5-2"  # what decides the text: the same on every machine


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def model(cache):
    proto = models.build("two_branch", rows=ROWS, width=WIDTH)
    model = rcompiler.compile_onnx(proto, target=TARGET, device=RECORD, eus=2, cache=cache)
    assert set(edit.runs(model.stage("vdevice"))) == {RIGHT, LEFT}
    return model


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).standard_normal((ROWS, WIDTH), dtype=np.float32)


@pytest.fixture
def compile_text(model, cache):
    def compile_text(text, constants=None):
        constants = model.constants() if constants is None else constants
        return rcompiler.compile_schedule(text, constants, target=TARGET, cache=cache)

    return compile_text


def ordered(model):
    """right on EU 0, then left on EU 1: one event between them."""
    run = edit.runs(model.stage("vdevice"))
    lists = [[run[RIGHT], edit.signal("ready")], [edit.wait("ready"), run[LEFT]]]
    return edit.with_lists(model.stage("vdevice"), lists, ["ready"])


@pytest.mark.parametrize("form", ["rc-linalg-to-rtask", "rtask-form,func.func(canonicalize,cse)"])
def test_every_stage_by_the_names_of_its_passes(tmp_path, x, cache, form):
    proto = models.build("two_branch", rows=ROWS, width=WIDTH)
    imported = import_onnx(proto, None)
    (tmp_path / "s1.mlir").write_text(imported.module_text)
    steps = [
        (form, "rtask.operator"),
        ("vdevice-attach-device{device=cpu},roller-tile", '"rtask.kernel"'),
        ("rammer-schedule{eus=2}", '"vdevice.program"'),
    ]
    for number, (passes, expected) in enumerate(steps, 1):
        source, target = (tmp_path / f"s{n}.mlir" for n in (number, number + 1))
        assert rc_opt.main([str(source), "-p", passes, "-o", str(target)]) == 0
        text = target.read_text()
        assert expected in text and "dense_resource<w_" in text
    compiled = rcompiler.compile_schedule(text, imported.constants, cache=cache)
    left, right = (np.float64(w) for w in imported.constants.values())
    wanted = np.maximum(x @ left, 0) + np.tanh(x @ right)
    np.testing.assert_allclose(compiled(x)[0], wanted, rtol=1e-4, atol=1e-4)


def test_it_is_for_what_it_says(model, cache):
    text = model.stage("vdevice")
    assert f'target = "{TARGET}"' in text
    options = {"constants": model.constants(), "cache": cache}
    made = rcompiler.compile_schedule(text, **options)
    assert made.artifact.certificate == model.artifact.certificate
    for asked, message in (
        ({"target": "cpu"}, f"target='cpu': the schedule is for target '{TARGET}'; leave target"),
        ({"precision": "f16"}, "precision='f16': the schedule is for precision 'f32'; leave"),
    ):
        with pytest.raises(DeviceError, match=message):
            rcompiler.compile_schedule(text, **options, **asked)


def test_one_that_says_nothing_or_two_things_is_refused(model, compile_text):
    text = model.stage("vdevice")
    with pytest.raises(DeviceError, match="does not say which device.*run vdevice-attach-device"):
        compile_text(re.sub(r"(?m)^module attributes .*$", "module {", text))
    for other in ("cpu:v4", "cuda:h200"):
        changed = text.replace(f'target = "{TARGET}"', f'target = "{other}"', 1)
        with pytest.raises(DeviceError, match=f"'{other}', and the figures are those of {TARGET}"):
            rcompiler.compile_schedule(changed, model.constants(), cache=False)


def test_one_that_needs_more_than_this_machine_has_is_refused(model, monkeypatch):
    monkeypatch.setenv("RC_HOST_LEVEL", "x86-64")
    text = model.stage("vdevice").replace(f'target = "{TARGET}"', 'target = "cpu"', 1)
    changed = text.replace('level_name = "x86-64"', 'level_name = "v3"', 1)
    assert changed != text
    with pytest.raises(DeviceError, match="is for a CPU with .*avx2.*, which this machine lacks"):
        rcompiler.compile_schedule(changed, model.constants(), cache=False)


def test_features_that_its_code_does_not_use_are_not_needed(model):
    """A record has all of its CPU, such as VNNI of 256 bits beside AVX-512."""
    text = model.stage("vdevice").replace(f'target = "{TARGET}"', 'target = "cpu"', 1)
    changed = text.replace("features = [", 'features = ["avx9"', 1)
    assert changed != text and '"avx9"]' in changed
    again = rcompiler.compile_schedule(changed, model.constants(), cache=False)
    feeds = random_inputs(model.inputs, 0)
    for found, wanted in zip(again(**feeds), model(**feeds), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("target", ["cuda:h200", "cuda:sm_80"])
@pytest.mark.parametrize("precision", get_args(GpuPrecision))
def test_of_a_gpu_it_gives_the_same_code_in_every_precision(target, precision):
    proto = models.build("two_branch", rows=128, width=64)
    options = {"machine_code": False, "cache": False}
    made = rcompiler.compile_onnx(proto, target=target, precision=precision, **options)
    again = rcompiler.compile_schedule(made.stage("vdevice"), made.constants(), **options)
    assert again.artifact.image == made.artifact.image
    assert again.artifact.certificate == made.artifact.certificate


def test_an_unedited_schedule_gives_the_same_code_and_tables(model, compile_text):
    again = compile_text(model.stage("vdevice"))
    assert again.artifact.image == model.artifact.image
    assert again.artifact.certificate == model.artifact.certificate
    assert again.stage("vdevice") == model.stage("vdevice")


def test_the_tool_stores_the_weights_beside_the_schedule(tmp_path, monkeypatch, model):
    monkeypatch.chdir(tmp_path)
    model.save("a.rcx")
    assert rc_compile.main(["a.rcx", "--emit=vdevice", "-o", "s.mlir"]) == 0
    assert set(np.load("s.npz").files) == set(model.constants())
    assert rc_compile.main(["s.mlir", f"--target={TARGET}", "-o", "b.rcx"]) == 0
    assert rcompiler.load("b.rcx").artifact.certificate == model.artifact.certificate


def test_another_split_over_the_eus_gives_the_same_bits(model, compile_text, x):
    moved = compile_text(ordered(model))
    assert moved.artifact.certificate != model.artifact.certificate
    assert moved.artifact.image == model.artifact.image  # a plan is data: no other code
    for eus in (1, 2):
        assert np.array_equal(rcompiler.model.CompiledModel(moved.artifact, eus)(x)[0], model(x)[0])


def test_another_place_in_the_arena_gives_the_same_bits(model, compile_text, x):
    text = ordered(model)
    text = re.sub(r"\barena = \d+", "arena = 65536", text)
    text, times = re.subn(rf'offset = 0 : i64, sym_name = "{RIGHT}"',
                          f'offset = 4096 : i64, sym_name = "{RIGHT}"', text)  # fmt: skip
    assert times == 1
    moved = compile_text(text)
    assert moved.artifact.arena_bytes == 65536
    assert np.array_equal(moved(x)[0], model(x)[0])


def test_a_missing_wait_is_a_race_and_says_which(model, compile_text):
    text = ordered(model).replace(edit.wait("ready"), "")
    with pytest.raises(ScheduleError) as caught:
        compile_text(text)
    assert caught.value.rule == "race"
    message = str(caught.value)
    assert f"operator {LEFT}" in message and f"operator {RIGHT}" in message
    assert f"reads {RIGHT}" in message and "on EU 1" in message and "on EU 0" in message
    assert re.search(r"bytes 0\.\.\d+ of temp memory", message)
    assert "the signal and wait from the write to the read are missing" in message


def test_waits_in_a_circle_are_a_deadlock_and_say_who_waits_for_whom(model, compile_text):
    run = edit.runs(model.stage("vdevice"))
    lists = [
        [edit.wait("b"), run[RIGHT], edit.signal("a")],
        [edit.wait("a"), run[LEFT], edit.signal("b")],
    ]
    with pytest.raises(ScheduleError, match="deadlocks: ") as caught:
        compile_text(edit.with_lists(model.stage("vdevice"), lists, ["a", "b"]))
    assert caught.value.rule == "deadlock"
    message = str(caught.value)
    assert "EU 0 at place 0 waits for event b (0 of 1 signals), which EU 1 signals later" in message
    assert "EU 1 at place 0 waits for event a (0 of 1 signals), which EU 0 signals later" in message


def test_queues_are_text(model, compile_text, x):
    """EUs that take the same runs; and in an order that one EU alone could not take them in."""
    run = edit.runs(model.stage("vdevice"))
    right, left = [run[RIGHT], edit.signal("ready")], [edit.wait("ready"), run[LEFT]]

    def queues(*lists):
        text = edit.with_lists(model.stage("vdevice"), lists, ["ready"])
        return text.replace('"vdevice.eu"', '"vdevice.queue"')

    taken = compile_text(queues(right, [], left))
    [program] = taken.artifact.programs
    assert (program.taken_by, len(program.streams)) == (2, 3)
    for eus in (1, 2):
        found = rcompiler.model.CompiledModel(taken.artifact, eus)
        assert np.array_equal(found(x)[0], model(x)[0])
    again = compile_text(taken.stage("vdevice"))
    assert again.artifact.certificate == taken.artifact.certificate
    with pytest.raises(ScheduleError, match="queue 0 deadlocks.*which queue 1 signals") as caught:
        compile_text(queues(left, right))
    assert caught.value.rule == "deadlock"
    with pytest.raises(ScheduleError, match="in queue 1 .*in queue 0") as caught:
        compile_text(queues([run[RIGHT]], [run[LEFT]]))
    assert caught.value.rule == "race"


@pytest.mark.parametrize("change", ["leave out", "twice", "half"])
def test_every_task_runs_exactly_once(model, compile_text, change):
    run = edit.runs(model.stage("vdevice"))
    lists = {
        "leave out": [[run[LEFT]], []],
        "twice": [[run[RIGHT], run[RIGHT], run[LEFT]], []],
        "half": [[run[RIGHT]], []],
    }[change]
    with pytest.raises(ScheduleError) as caught:
        compile_text(edit.with_lists(model.stage("vdevice"), lists))
    reasons = {"leave out": "no operator writes", "twice": "exactly once|has .* tasks and runs",
               "half": "no operator writes"}  # fmt: skip
    assert re.search(reasons[change], str(caught.value))


def test_weights_that_do_not_fit_are_refused(model, compile_text):
    text, constants = model.stage("vdevice"), model.constants()
    [first, *rest] = constants
    with pytest.raises(ArtifactError, match=f"{first} is not among the weights"):
        compile_text(text, {key: constants[key] for key in rest})
    with pytest.raises(ArtifactError, match="bytes in the schedule, but 4 came with it"):
        compile_text(text, {**constants, first: np.zeros(4, np.uint8)})


@pytest.mark.parametrize(
    "text, kind, reason",
    [
        ("", DeviceError, "no attribute vdevice.device"),
        ("module {}", DeviceError, "no attribute vdevice.device"),
        ("what is this", InvalidModel, "not valid"),
        ("module {" * 200_000, InvalidModel, "ended the compiler's process|not valid"),
    ],
)
def test_text_that_is_no_schedule(compile_text, text, kind, reason):
    with pytest.raises(kind, match=reason):
        compile_text(text, {})


def test_a_module_with_a_device_and_no_schedule(model, compile_text):
    [head] = re.findall(r"(?m)^module attributes .*$", model.stage("vdevice"))
    with pytest.raises(InvalidModel, match="no vdevice.device"):
        compile_text(head + "}")


BAD_EDITS = [
    (r"kernel = @k_\w+", "kernel = @k_0"),
    (r"buffers = \[@in0", "buffers = [@nowhere"),
    (r'kind = "output"', 'kind = "input"'),
    (r"\barena = \d+", "arena = 64"),
    (rf"\bbytes = {4 * ROWS * WIDTH}", "bytes = 8000"),
    (r"\beus = 2", "eus = 0"),
    (r"\beus = 2", "eus = 1"),
    (r"@main_0\} : \(\)", "@main_7} : ()"),
    (r"offset = 0 : i64, sym_name = \"right", 'offset = 1 : i64, sym_name = "right'),
    (r"tasks = \d+", "tasks = 12345"),
    (r"grid = array<i64: [\d, ]+>", "grid = array<i64: 977, 3>"),
    (r"tile = array<i64: [\d, ]+>", "tile = array<i64: 1>"),
    (r"register_tile = array<i64: [\d, ]+>", "register_tile = array<i64: 0, 0>"),
    (r"(?<!register_)tile = array<i64: \d+", "tile = array<i64: 1"),
    (r"writes = \[\[array<i64: -?\d+, \d+, 0, \d+>", "writes = [[array<i64: 0, 1, 0, 1>"),
    (r"reads = \[\[array<i64: -?\d+, \d+, 0, \d+>", "reads = [[array<i64: 0, 1, 0, 1>"),
    (r"kind = \"contraction\",", 'in_place = array<i64: 0, 0>, kind = "contraction",'),
    (r"lanes = \d+", "lanes = 0"),
    (r"lanes = \d+", "lanes = -3"),
    (r"vector_dim = \d+", "vector_dim = 99"),
    (r"arith\.mulf", "arith.mulq"),
    (r"reads = \[\[", "reads = [[array<i64: 7, 1, 0, 1>, "),
    (r'dtype = "float32"', 'dtype = "float16"'),
    (r'dtype = "float32"', 'dtype = "spoon"'),
    (
        r"rtask\.outputs = \[",
        'rtask.outputs = [{dtype = "int8", name = "z", type = tensor<5xi8>}, ',
    ),
]
# In a process of its own, one after the other: an edit that crashes MLIR fails the test.
_COMPILE_ALL = """
import json, sys
import numpy as np
from rcompiler.driver.from_schedule import schedule_artifact
from rcompiler.errors import CompilerError
from rcompiler.model import CompiledModel
weights = dict(np.load(sys.argv[2]))
for text in json.load(open(sys.argv[1])):
    try:
        CompiledModel(schedule_artifact(text, weights))
        print(json.dumps(""), flush=True)
    except CompilerError as error:
        print(json.dumps(str(error)), flush=True)
"""


def test_bad_edits_are_refused_with_a_reason(model, tmp_path):
    """No edit crashes, hangs, lets an internal error out, or is taken."""
    texts = []
    for old, new in BAD_EDITS:
        text, times = re.subn(old, new, model.stage("vdevice"))
        assert times, old
        texts.append(text)
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    np.savez(tmp_path / "weights.npz", **model.constants())
    command = [sys.executable, "-c", _COMPILE_ALL, "texts.json", "weights.npz"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(messages) == len(BAD_EDITS), f"{BAD_EDITS[len(messages)]}: {done.stderr}"
    for edited, message in zip(BAD_EDITS, messages, strict=True):
        assert message and "defect" not in message, (edited, message)


_NOISE = """
import sys
if "rcompiler.driver.isolate" in " ".join(sys.orig_argv):
    sys.stderr.write("noise" * 200_000)
"""


def test_a_child_that_prints_a_lot_does_not_hang(model, tmp_path, monkeypatch):
    """More than a pipe holds; and nothing of the child's folder is kept open."""
    (tmp_path / "sitecustomize.py").write_text(_NOISE)
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(120)
    try:
        made = rcompiler.compile_schedule(
            model.stage("vdevice"), model.constants(), target=TARGET, cache=False
        )
    finally:
        signal.alarm(0)
    assert made.artifact.certificate == model.artifact.certificate
    assert "rc-schedule-" not in Path("/proc/self/maps").read_text()


def _too_long(*_):
    raise TimeoutError("the child did not end")


def test_two_processes_write_the_same_file(tmp_path):
    script = (
        "import sys, rcompiler; from rcompiler.tools import models; "
        "rcompiler.compile_onnx(models.build('two_branch'), eus=2, cache=False).save(sys.argv[1])"
    )
    for name, seed in (("a", "1"), ("b", "2")):
        command = [sys.executable, "-c", script, str(tmp_path / name)]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": seed})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
