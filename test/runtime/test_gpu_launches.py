"""runtime/gpu/launches.py: programs without waits are launches of their own, others are one."""

import dataclasses

import gpu_models as gm
import numpy as np
import pytest
import small_models as sm

from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.errors import DeviceError
from rcompiler.runtime import tables
from rcompiler.runtime.artifact import Program
from rcompiler.runtime.gpu.executable import GpuExecutable
from rcompiler.runtime.gpu.launches import independent, launches
from rcompiler.runtime.tables import ARENA, CONSTANTS, EXTERNAL

X = np.linspace(-3, 3, sm.N, dtype=np.float32)
ARENA_BYTES = 8 * sm.N


class Counting(EmulatedDriver):
    """launched: blocks of each launch and whether it was cooperative; graphs: started ones; waits:
    for launches.
    """

    def __init__(self, **options):
        super().__init__(**options)
        self.launched, self.graphs, self.waits = [], 0, 0

    def launch(self, function, grid, threads, shared_bytes, arguments, cooperative=False):
        if self._captured is None:
            self.launched.append((grid[0], cooperative))
        super().launch(function, grid, threads, shared_bytes, arguments, cooperative)

    def synchronize(self):
        self.waits += 1
        super().synchronize()

    def launch_graph(self, graph, arguments=None):
        self.graphs += 1
        super().launch_graph(graph, arguments)


def step(name: str, eus: int, kernel: int, operands: list, backwards: bool = False) -> Program:
    """One operator, split over EUs that do not wait; an EU for which nothing is left is idle."""
    share = -(-sm.N // eus)
    streams = [
        sm.stream_of(("run", kernel, first, min(share, sm.N - first), 1, operands))
        for first in range(0, sm.N, share)
    ]
    streams += [sm.stream_of()] * (eus - len(streams))
    order = -1 if backwards else 1
    names = tuple((name,) if len(stream) > 1 else () for stream in streams)
    return Program(name, tuple(streams[::order]), (), names[::order])


def chain(*eus: int) -> list[Program]:
    """y = 2 * (x * w) * 2 ** (len(eus) - 2), a launch for each factor, on so many EUs each."""
    scale = [(EXTERNAL, 0), (CONSTANTS, 0), (ARENA, 0)]
    programs = [step("mul", eus[0], sm.SCALE, scale)]
    for k, count in enumerate(eus[1:], 1):
        target = (EXTERNAL + 1, 0) if k == len(eus) - 1 else (ARENA, k % 2 * 4 * sm.N)
        operands = [(ARENA, (k - 1) % 2 * 4 * sm.N), target]
        programs.append(step(f"add{k}", count, sm.TWICE, operands, bool(k % 2)))
    return programs


def loaded(programs: list[Program], multiprocessors: int = 4, **more):
    """A model, and the device that it opens."""
    device = Counting(capability=(8, 0), multiprocessors=multiprocessors, **more)
    artifact = gm.artifact(programs, arena_bytes=ARENA_BYTES)
    return GpuExecutable(artifact, lambda: device, wait_limit_s=1e-3), device


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
@pytest.mark.parametrize("eus", [(1, 1), (4, 4), (3, 1, 5), (2, 7, 4, 4)])
def test_each_program_without_waits_is_a_launch(eus: tuple[int, ...], seed: int | None):
    hostile = {} if seed is None else {"interleave": True, "seed": seed}
    model, device = loaded(chain(*eus), **hostile)
    for k in range(3):
        x = X * np.float32(k - 1)
        assert np.array_equal(model(x)[0], sm.expected(x) * 2 ** (len(eus) - 2))
        assert device.launched == [(count, False) for count in eus] * (k + 1)
    assert model.eus == max(eus)


@pytest.mark.parametrize("sync", ["event", "barrier"])
def test_programs_of_which_one_waits_are_one_cooperative_launch(sync: str):
    model, device = loaded([*chain(4, 4), sm.two_steps(3, sync)])
    for k in range(3):
        assert np.array_equal(model(X * np.float32(k))[0], sm.expected(X * np.float32(k)))
        assert device.launched == [(4, True)] * (k + 1)


@pytest.mark.parametrize("multiprocessors", [1, 2, 3])
def test_blocks_that_do_not_wait_run_one_after_the_other(multiprocessors: int):
    """80,000 bytes of shared memory: two blocks on a multiprocessor."""
    image = dataclasses.replace(gm.image(), shared=80_000)
    device = Counting(capability=(8, 0), multiprocessors=multiprocessors)
    facts = {"image": image, "arena_bytes": ARENA_BYTES}
    model = GpuExecutable(gm.artifact(chain(16, 16), **facts), lambda: device)
    assert model.needs.blocks == 1
    assert np.array_equal(model(X)[0], sm.expected(X))
    together = GpuExecutable(gm.artifact([sm.two_steps(16)], **facts), lambda: device)
    assert together.needs.blocks == 16
    room = 2 * multiprocessors
    with pytest.raises(DeviceError, match=f"runs {room} .* eus={room} or policy='wave'"):
        together(X)


def test_a_block_that_no_multiprocessor_holds():
    image = dataclasses.replace(gm.image(), shared=200_000)
    model = GpuExecutable(gm.artifact(chain(2, 2), image=image), gm.driver())
    with pytest.raises(DeviceError, match="runs 0 blocks .*; compile the model for this device"):
        model(X)


@pytest.mark.parametrize("eus", [(4, 4), (3, 1, 5)])
def test_a_binding_replays_all_launches_as_one_graph(eus: tuple[int, ...]):
    model, device = loaded(chain(*eus))
    first, second = model.bind(), model.bind()
    assert device.launched == []  # what is captured is not launched
    factor = 2 ** (len(eus) - 2)
    for k in range(1, 4):
        for binding, x in ((first, X * np.float32(k)), (second, X / np.float32(k))):
            binding.inputs[0].write(x)
            device.launched.clear()
            binding()
            assert device.launched == [(count, False) for count in eus]
            assert np.array_equal(binding.outputs[0].numpy(), sm.expected(x) * factor)
        assert device.graphs == 2 * k
        assert np.array_equal(model(X)[0], sm.expected(X) * factor)  # between the calls


def test_a_fault_of_one_launch_is_raised_and_the_next_call_begins_anew():
    model, device = loaded(chain(2, 2, 2))
    [stream, _] = model._launches[1].schedule.streams
    offset = stream[7]
    stream[7] += 1 << 20
    for _ in range(2):
        with pytest.raises(DeviceError, match="out-of-bounds"):
            model(X)
    assert len(device.launched) == 4  # the third of each call does not begin
    stream[7] = offset
    assert np.array_equal(model(X)[0], 2 * sm.expected(X))


def test_the_report_is_that_of_the_launch_that_stopped():
    """Of three launches, the blocks of the second wait all of a sudden."""
    model, _ = loaded(chain(2, 2, 2))
    waiting = dataclasses.replace(sm.two_steps(2), events=("scaled", "never"))
    [cooperative] = launches([waiting], 2)
    stream = cooperative.schedule.streams[1]
    [place] = [at for at, op, _ in tables.instructions(stream) if op == tables.SIGNAL]
    stream[place + 1] = 1  # the other event
    model._launches[1] = cooperative
    with pytest.raises(DeviceError) as caught:
        model(X)
    assert "signal 2 of event 'main_0: scaled', which came 1 times" in str(caught.value)


def test_what_waits():
    assert independent([sm.stream_of(), sm.stream_of(("signal", 0))])
    assert not independent([sm.stream_of(), sm.stream_of(("signal", 0), ("wait", 0, 1))])
    assert not independent([sm.stream_of(("barrier",))] * 2)
    body = [("wait", 0, 1), ("signal", 1)]
    assert not independent([sm.stream_of(*body, ("repeat", 2, 5, [(1, 1), (4, 1)]))])


def test_a_model_without_programs_launches_nothing():
    model, device = loaded([])
    model(X)
    model.bind()()
    assert device.launched == [] and device.graphs == 1


@pytest.mark.parametrize("programs", [chain(2, 4), [sm.two_steps(3, "event")]])
def test_several_inferences_are_timed_that_nobody_waits_between(programs: list[Program]):
    """Calls before and after them, of the same events, are right."""
    model, device = loaded(programs)
    binding = model.bind()
    for k in range(1, 4):
        binding.inputs[0].write(X * np.float32(k))
        device.graphs, waits = 0, device.waits
        assert binding.elapsed_ns(k) > 0
        assert device.graphs == k and device.waits == waits + 1
        binding()
        assert np.array_equal(binding.outputs[0].numpy(), sm.expected(X * np.float32(k)))
    model.close()
    with pytest.raises(DeviceError, match="closed"):
        binding.elapsed_ns(1)
