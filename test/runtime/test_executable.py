"""runtime/executable.py: results for any number of EUs, arguments, threads, fork, clean ends."""

import gc
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import small_models as sm

from rcompiler.errors import ArtifactError, DeviceError, ShapeError
from rcompiler.runtime import executable
from rcompiler.runtime.artifact import Program, Tensor
from rcompiler.runtime.executable import Executable
from rcompiler.runtime.tables import ARENA, CONSTANTS, EXTERNAL

X = np.linspace(-3, 3, sm.N, dtype=np.float32)


@pytest.mark.parametrize("sync", ["event", "barrier"])
@pytest.mark.parametrize("compiled", [1, 2, 3, 8])
def test_results_do_not_depend_on_the_number_of_threads(sync: str, compiled: int):
    artifact = sm.artifact([sm.two_steps(compiled, sync)])
    for eus in {None, 1, 2, 3, compiled}:
        model = Executable(artifact, eus)
        for _ in range(30):
            assert np.array_equal(model(X)[0], sm.expected(X))
        model.close()


def test_programs_run_in_order_and_may_have_different_eus():
    shares = [(EXTERNAL, 0), (CONSTANTS, 0), (ARENA, 0)]
    scale = Program(
        "first", (sm.stream_of(("run", sm.SCALE, 0, sm.N, 1, shares)),), (), (("mul",),)
    )
    half = sm.N // 2
    double = Program(
        "second",
        tuple(
            sm.stream_of(("run", sm.TWICE, eu, half, 2, [(ARENA, 0), (EXTERNAL + 1, 0)]))
            for eu in range(2)
        ),
        (),
        (("add",), ("add",)),
    )
    for eus in (1, 2):
        model = Executable(sm.artifact([scale, double]), eus)
        assert model.eus == eus
        for _ in range(20):
            assert np.array_equal(model(X)[0], sm.expected(X))


def test_arguments_by_position_and_by_name():
    model = Executable(sm.artifact([sm.two_steps(1)]))
    assert np.array_equal(model(x=X)[0], model(X)[0])


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "input 'x' is missing; the inputs are: x"),
        ((X, X), {}, "2 arguments for 1 inputs"),
        ((X,), {"x": X}, "given by position and by name"),
        ((), {"z": X}, "no input 'z'; the inputs are: x"),
        ((X[:-1],), {}, r"shape \[63\], the model wants \[64\]"),
        ((X.astype(np.float64),), {}, "is float64, the model wants float32.*astype"),
        ((X.astype(">f4"),), {}, "is >f4, the model wants float32"),
        (("text",), {}, "shape"),
    ],
)
def test_wrong_arguments_are_refused_by_name(args: tuple, kwargs: dict, message: str):
    model = Executable(sm.artifact([sm.two_steps(1)]))
    with pytest.raises(ShapeError, match=message):
        model(*args, **kwargs)


def test_any_strides_alignment_and_values():
    model = Executable(sm.artifact([sm.two_steps(2)]))
    odd = np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32)
    wild = X.copy()
    wild[:3] = np.nan, np.inf, -np.inf
    for x in (X[::-1], np.repeat(X, 2)[::2], odd, wild):
        assert np.array_equal(model(x)[0], sm.expected(x), equal_nan=True)


def test_results_are_new_aligned_and_the_callers():
    model = Executable(sm.artifact([sm.two_steps(1)]))
    (first,), (second,) = model(X), model(2 * X)
    assert first.ctypes.data % 64 == 0 and first.flags.writeable
    first[:] = 7
    assert np.array_equal(second, sm.expected(2 * X))
    del model
    gc.collect()
    assert np.array_equal(second, sm.expected(2 * X))


def test_calls_from_many_threads_do_not_mix():
    model = Executable(sm.artifact([sm.two_steps(2)]))
    wrong = []

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).normal(size=sm.N).astype(np.float32)
        for _ in range(50):
            if not np.array_equal(model(x)[0], sm.expected(x)):
                wrong.append(seed)

    sm.in_threads(6, work)
    assert not wrong


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_makes_threads_of_its_own():
    model = Executable(sm.artifact([sm.two_steps(2)]))
    assert np.array_equal(model(X)[0], sm.expected(X))
    child = os.fork()
    if not child:
        good = all(np.array_equal(model(X)[0], sm.expected(X)) for _ in range(5))
        os._exit(0 if good else 1)
    deadline = time.monotonic() + 120  # what takes longer hangs
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ended == (child, 0)
    assert np.array_equal(model(X)[0], sm.expected(X))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_parent_and_child_share_no_memory():
    model = Executable(sm.artifact([sm.two_steps(1)]))
    model(X)
    if not (child := os.fork()):
        model._arena[:] = 1
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(model._arena.view(np.float32), X * sm.WEIGHTS)


def eu_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "rcompiler EU" in thread.name]


def test_threads_end_with_close_and_with_collection():
    gc.collect()
    before = len(eu_threads())
    model = Executable(sm.artifact([sm.two_steps(3)]), 3)
    assert len(eu_threads()) == before + 2
    model.close()
    model.close()
    assert len(eu_threads()) == before
    with pytest.raises(DeviceError, match="closed"):
        model(X)
    other = Executable(sm.artifact([sm.two_steps(3)]), 3)
    other(X)
    del other
    gc.collect()
    assert len(eu_threads()) == before


def test_eus_without_work_get_no_thread():
    before = len(eu_threads())
    idle = sm.stream_of(("barrier",))
    (work,) = sm.two_steps(1, "barrier").streams
    program = Program("main_0", (work, idle, idle), (), (("mul", "add"), (), ()))
    model = Executable(sm.artifact([program]), 3)
    assert model.eus == 3 and len(eu_threads()) == before
    assert np.array_equal(model(X)[0], sm.expected(X))


def test_the_interpreter_ends_cleanly_with_threads_parked(tmp_path: Path):
    sm.artifact([sm.two_steps(2)]).save(tmp_path / "m.rcx")
    code = (
        "import numpy as np; from rcompiler.runtime import Artifact, Executable\n"
        f"m = Executable(Artifact.load({str(tmp_path / 'm.rcx')!r}), 2)\n"
        f"print(m(np.ones({sm.N}, np.float32))[0][1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "2.0\n", "")


@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf"), 1e12, None, True, "1"])
def test_impossible_wait_limits_are_refused(limit):
    with pytest.raises(DeviceError, match="wait_limit_s=.*seconds above 0"):
        Executable(sm.artifact([sm.two_steps(2)]), wait_limit_s=limit)


def test_pinned_threads_give_the_same():
    model = Executable(sm.artifact([sm.two_steps(2)]), pin=True)
    before = os.sched_getaffinity(0)
    assert np.array_equal(model(X)[0], sm.expected(X))
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize(("cpus", "eus"), [(1, 1), (2, 2), (64, 2)])
def test_there_are_no_more_threads_than_usable_cpus(monkeypatch, cpus, eus):
    monkeypatch.setattr(executable, "usable_cpus", lambda: cpus)
    model = Executable(sm.artifact([sm.two_steps(2)]))
    assert model.eus == eus
    assert np.array_equal(model(X)[0], sm.expected(X))


@pytest.mark.parametrize("eus", [0, -1, True, 1.5, "2"])
def test_impossible_numbers_of_eus(eus: object):
    with pytest.raises(DeviceError, match="whole number from 1 to 2"):
        Executable(sm.artifact([sm.two_steps(2)]), eus)


def test_folding_finds_a_deadlock():
    ops = ("run", sm.TWICE, 0, 1, 1, [(EXTERNAL, 0), (EXTERNAL + 1, 0)])
    streams = (
        sm.stream_of(("wait", 1, 1), ops, ("signal", 0)),
        sm.stream_of(("wait", 0, 1), ops, ("signal", 1)),
    )
    program = Program("p", streams, ("a", "b"), (("op",), ("op",)))
    with pytest.raises(
        ArtifactError, match="wait for each other for ever: EU 0 for signal 1 of 'b'"
    ):
        Executable(sm.artifact([program]), 1)


def test_the_validator_is_asked_before_anything_is_loaded():
    def refuse(artifact: object) -> None:
        raise ArtifactError("a race")

    with pytest.raises(ArtifactError, match="a race"):
        Executable(sm.artifact([sm.two_steps(2)]), validate=refuse)


def test_an_arena_that_no_machine_has_is_refused():
    with pytest.raises(DeviceError, match=r"temporary tensors of the model: \d+ bytes"):
        Executable(sm.artifact([sm.two_steps(1)], arena_bytes=1 << 45))


def test_scalars_and_empty_tensors_are_tensors():
    run = ("run", sm.TWICE, 0, 1, 1, [(ARENA, 0), (ARENA, 0)])
    program = Program("p", (sm.stream_of(run),), (), (("op",),))
    tensors = (Tensor("s", (), "int64"), Tensor("e", (0, 3), "bool"))
    model = Executable(sm.artifact([program], inputs=tensors, outputs=tensors[::-1]))
    empty, scalar = model(np.array(3), np.zeros((0, 3), bool))
    assert (empty.shape, empty.dtype, scalar.shape, scalar.dtype) == ((0, 3), bool, (), np.int64)
