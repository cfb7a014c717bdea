"""runtime/gpu/executable.py: programs on the emulated device, and what it refuses."""

import dataclasses

import gpu_models as gm
import numpy as np
import pytest
import small_models as sm

from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.errors import ArtifactError, DeviceError, ShapeError
from rcompiler.runtime import tables
from rcompiler.runtime.artifact import Program
from rcompiler.runtime.executable import Executable
from rcompiler.runtime.gpu.executable import GpuExecutable
from rcompiler.runtime.program import Tensor
from rcompiler.runtime.tables import ARENA, EXTERNAL

X = np.linspace(-3, 3, sm.N, dtype=np.float32)
LIMIT = 1e-3  # s of emulated time, which a hundred thousand basic blocks take
SIZE = 4 * sm.N


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
@pytest.mark.parametrize("sync", ["event", "barrier"])
@pytest.mark.parametrize("eus", [1, 2, 3, 4])
def test_every_call_gives_the_results_of_the_model(eus: int, sync: str, seed: int | None):
    """Events count on from launch to launch, and so do meetings."""
    model = gm.executable([sm.two_steps(eus, sync)], seed)
    for k in range(3):
        assert np.array_equal(model(X * np.float32(k))[0], sm.expected(X * np.float32(k)))
    assert model.eus == eus


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_programs_run_in_order_and_may_have_different_eus(seed: int | None):
    programs = [sm.two_steps(eus, sync) for eus, sync in ((2, "event"), (4, "barrier"), (1, ""))]
    model = gm.executable(programs, seed)
    for _ in range(2):
        assert np.array_equal(model(X)[0], sm.expected(X))


def looping(turns: int) -> Program:
    """Two EUs double a value in turns: 2 ** (2 * turns + 2) times the input."""
    moves = [(1, 2), (10, 2 * SIZE), (12, 2 * SIZE), (14, 2)]

    def double(source: tuple[int, int], target: tuple[int, int]) -> tuple:
        return ("run", sm.TWICE, 0, sm.N, 1, [source, target])

    def turn(value: int) -> list[tuple]:
        run = double((ARENA, value * SIZE), (ARENA, (value + 1) * SIZE))
        return [("wait", value, 1), run, ("signal", value + 1)]

    loop = ("repeat", turns, 15, moves)
    begin = [double((EXTERNAL, 0), (ARENA, 0)), ("signal", 0)]
    last = double((ARENA, 2 * turns * SIZE), (EXTERNAL + 1, 0))
    streams = (sm.stream_of(*begin, *turn(1), loop, last), sm.stream_of(*turn(0), loop))
    events = tuple(f"value{i}" for i in range(2 * turns + 1))
    first = ("first", *(f"even{i}" for i in range(turns)), "last")
    return Program("p", streams, events, (first, tuple(f"odd{i}" for i in range(turns))))


def with_arena(program: Program, turns: int, **more) -> GpuExecutable:
    artifact = gm.artifact([program], arena_bytes=(2 * turns + 1) * SIZE)
    return GpuExecutable(artifact, gm.driver(**more), wait_limit_s=LIMIT)


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_the_numbers_of_a_loop_are_what_they_were_when_it_is_over(seed: int | None):
    hostile = {} if seed is None else {"interleave": True, "seed": seed}
    model = with_arena(looping(3), 3, **hostile)
    for k in range(3):
        assert np.array_equal(model(X * np.float32(k))[0], X * np.float32(k) * 2**8)


def test_a_lost_signal_in_a_loop_names_the_iteration():
    """The post-mortem counts the instructions of all iterations, but no jumps."""
    model = with_arena(looping(3), 3)
    model._launches[0].schedule.threads[1].stream[14] = 5  # EU 1 signals 5, 7, 9 instead of 1, 3, 5
    with pytest.raises(DeviceError) as caught:
        model(X)
    message = str(caught.value)
    assert "EU 0 at word 12, iteration 0 (after operator 'first', before operator 'even0')" in (
        message
    )
    assert "signal 1 of event 'p: value1', which came 0 times" in message
    assert "EU 1 at word 0, iteration 1 (after operator 'odd0', before operator 'odd1')" in message


def test_a_lost_signal_is_reported_and_the_next_call_begins_anew():
    program = dataclasses.replace(sm.two_steps(2), events=("scaled", "other"))
    model = gm.executable([program], wait_limit_s=LIMIT)
    stream = model._launches[0].schedule.threads[1].stream
    (place,) = [at for at, op, _ in tables.instructions(stream) if op == tables.SIGNAL]
    stream[place + 1] = 1  # EU 1 signals the other event instead
    for _ in range(2):
        with pytest.raises(DeviceError) as caught:
            model(X)
        message = str(caught.value)
        assert "a wait took longer than 0.001 s" in message
        assert "EU 0 at word" in message and "EU 1 at word" in message
        assert "(after operator 'mul', before operator 'add')" in message
        assert "signal 2 of event 'main_0: scaled', which came 1 times" in message
        assert "(nobody is left to: past is EU 0 at word" in message
    stream[place + 1] = 0
    for _ in range(3):
        assert np.array_equal(model(X)[0], sm.expected(X))


def test_an_eu_that_does_not_come_to_a_barrier_is_reported():
    run = ("run", sm.TWICE, 0, sm.N, 1, [(EXTERNAL, 0), (EXTERNAL + 1, 0)])
    streams = (
        sm.stream_of(("barrier",), ("signal", 0)),
        sm.stream_of(*[run] * 3, ("wait", 0, 1), ("barrier",)),
    )
    stuck = Program("p", streams, ("late",), ((), ("a", "b", "c")))
    with pytest.raises(DeviceError) as caught:
        gm.executable([stuck], wait_limit_s=LIMIT)(X)
    message = str(caught.value)
    assert "EU 0 at word 0 waits for 1 more EU(s) at a barrier" in message
    assert "EU 1 at word 30 (after operator 'c') waits for signal 1 of event 'p: late', which" in (
        message
    )
    assert "(still to come from EU 0 at word 1)" in message


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "input 'x' is missing; the inputs are: x"),
        ((X, X), {}, "2 arguments for 1 inputs"),
        ((X,), {"x": X}, "given by position and by name"),
        ((), {"z": X}, "no input 'z'; the inputs are: x"),
        ((X[:-1],), {}, r"shape \[63\], the model wants \[64\]"),
        ((X.astype(np.float64),), {}, "is float64, the model wants float32.*astype"),
    ],
)
def test_wrong_arguments_are_refused_by_name(args: tuple, kwargs: dict, message: str):
    with pytest.raises(ShapeError, match=message):
        gm.executable([sm.two_steps(1)])(*args, **kwargs)


def test_arguments_of_any_strides_and_results_that_are_the_callers():
    model = gm.executable([sm.two_steps(1)])
    strided = np.repeat(X, 3)[::3]
    first, second = model(strided)[0], model(x=X)[0]
    assert np.array_equal(first, second) and first is not second
    first[:] = 0
    assert np.array_equal(model(X)[0], second)


def test_a_device_that_cannot_run_all_blocks_at_once():
    artifact = gm.artifact([sm.two_steps(4)], image=dataclasses.replace(gm.image(), shared=90_000))
    model = GpuExecutable(artifact, gm.driver(3))
    with pytest.raises(DeviceError, match="needs 4 blocks at the same time, and .* runs 3 blocks"):
        model(X)
    assert np.array_equal(GpuExecutable(artifact, gm.driver(4))(X)[0], sm.expected(X))


@pytest.mark.parametrize(
    "chip, capability, runs",
    [
        ("sm_80", (8, 0), True),
        ("sm_80", (9, 0), True),
        ("sm_90a", (8, 0), False),
        ("sm_90a", (9, 0), True),
    ],
)
def test_code_runs_on_its_kind_of_device_only(chip: str, capability: tuple, runs: bool):
    artifact = gm.artifact([sm.two_steps(2)], image=gm.image(chip))
    model = GpuExecutable(artifact, lambda: EmulatedDriver(capability=capability))
    if runs:
        assert np.array_equal(model(X)[0], sm.expected(X))
        return
    with pytest.raises(DeviceError, match=f"the code is for {chip} and .* capability 8.0; compile"):
        model(X)


def test_too_little_memory():
    model = GpuExecutable(
        gm.artifact([sm.two_steps(2)], arena_bytes=1 << 23), gm.driver(memory_bytes=1 << 22)
    )
    with pytest.raises(DeviceError, match="4194304 bytes of memory"):
        model(X)


def test_a_closed_model():
    model = gm.executable([sm.two_steps(2)])
    model(X)
    for _ in range(2):
        model.close()
        with pytest.raises(DeviceError, match="the model is closed; load it again"):
            model(X)


def test_memory_is_given_back():
    opened = []

    def remembered() -> EmulatedDriver:
        opened.append(gm.driver()())
        return opened[-1]

    model = GpuExecutable(gm.artifact([sm.two_steps(2)]), remembered)
    model(X)
    address = opened[0].allocate(1)
    model.close()
    assert opened[0].allocate(1) < address
    assert len(opened) == 1


@pytest.mark.parametrize("limit", [0, -1.0, 3601, float("nan"), float("inf")])
def test_impossible_wait_limits_are_refused(limit: float):
    with pytest.raises(DeviceError, match="wait_limit_s="):
        gm.executable([sm.two_steps(1)], wait_limit_s=limit)


def test_models_for_something_else_are_refused():
    with pytest.raises(ArtifactError, match="compiled for 'x86-64', which is no GPU"):
        GpuExecutable(sm.artifact([sm.two_steps(1)]), gm.driver())
    with pytest.raises(ArtifactError, match="compiled for 'cuda:emulated', which is no CPU"):
        Executable(gm.artifact([sm.two_steps(1)]))


def test_queues_to_take_are_refused():
    with pytest.raises(ArtifactError, match="'main_0' consists of queues .* another policy than"):
        gm.executable([sm.taken_steps(4, 2)])


def test_the_validator_is_asked_before_anything_is_opened():
    def refuse(artifact):
        raise ArtifactError("not proved")

    with pytest.raises(ArtifactError, match="not proved"):
        gm.executable([sm.two_steps(1)], validate=refuse)


def test_no_device_is_an_error_of_the_first_call():
    def none():
        raise DeviceError("there is no GPU")

    model = GpuExecutable(gm.artifact([sm.two_steps(1)]), none)
    with pytest.raises(DeviceError, match="there is no GPU"):
        model(X)


def test_what_a_model_needs_is_known_without_a_device():
    needs = gm.executable([sm.two_steps(3)]).needs
    assert dataclasses.asdict(needs) == {
        "chip": "sm_80",
        "blocks": 3,
        "threads": gm.THREADS,
        "shared": 0,
        "memory": 4 * SIZE,  # temporary, weights, input, output
        "machine_code": False,
    }


@pytest.mark.parametrize("shape", [(), (0,), (2, 0)])
def test_scalars_and_empty_tensors_are_tensors(shape: tuple[int, ...]):
    tensors = {name: (Tensor(name[0], shape, "float32"),) for name in ("inputs", "outputs")}
    empty = Program("p", (sm.stream_of(),), (), ((),))
    model = GpuExecutable(gm.artifact([empty], **tensors), gm.driver())
    [found] = model(np.zeros(shape, np.float32))
    assert found.shape == shape and found.dtype == np.float32


def test_tensors_of_other_types():
    copies = ("run", sm.TWICE, 0, 3, 1, [(EXTERNAL, 0), (EXTERNAL + 1, 0)])
    for dtype, value in (("int64", 0), ("bool", False), ("float16", 0)):
        size = 64 // np.dtype(dtype).itemsize
        tensors = {name: (Tensor(name[0], (size,), dtype),) for name in ("inputs", "outputs")}
        kernels = tuple(
            dataclasses.replace(k, tasks=16, operand_bytes=(64,) * len(k.operand_bytes))
            for k in sm.KERNELS
        )
        program = Program("p", (sm.stream_of(copies),), (), (("copy",),))
        model = GpuExecutable(gm.artifact([program], kernels=kernels, **tensors), gm.driver())
        [found] = model(np.full(size, value, dtype))
        assert found.dtype == np.dtype(dtype)
        assert not found.view(np.float32)[:3].any()  # the rest is whatever was there
