"""Networks as one persistent kernel on the emulated GPU: right under hostile orders, with the same
bits for every schedule, and wrong programs reported."""

import dataclasses
import itertools
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from gpu_networks import NETWORKS, STATIC, compiled, on_device
from turns import turn_of

import rcompiler
from rcompiler.device.model import Device
from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.emulator.faults import EmulationFault
from rcompiler.errors import DeviceError, ScheduleError
from rcompiler.report import Report
from rcompiler.runtime import tables
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.executable import Executable
from rcompiler.runtime.gpu.executable import GpuExecutable
from rcompiler.runtime.loops import Loop, lines, parse
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools import models
from rcompiler.tools._reference import compare, reference

SEEDS = range(5)
SOME = [0, *turn_of(SEEDS[1:], 4)]
artifacts = cache(lambda name: compiled(NETWORKS[name]()))


@cache
def expected(name: str) -> tuple[dict[str, np.ndarray], bytes]:
    """Inputs, and the bits of the result, which is right."""
    artifact = artifacts(name)["rammer"]
    feeds = random_inputs(artifact.inputs, 0)
    [found], [want] = on_device(artifact)(**feeds), reference(NETWORKS[name](), feeds)[1]
    assert compare(found, want).right
    return feeds, found.tobytes()


def runs(artifact: Artifact) -> list[int]:
    """How many runs each EU executes, in all programs."""
    return [
        sum(
            op == tables.RUN
            for program in artifact.programs
            for _, op, _ in tables.instructions(program.streams[eu])
        )
        for eu in range(len(artifact.programs[0].streams))
    ]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_one_program_with_fine_grained_waits(name: str):
    artifact = artifacts(name)["rammer"]
    [program] = artifact.programs
    assert len(program.streams) == 4 and all(runs(artifact))
    opcodes = [op for stream in program.streams for _, op, _ in tables.instructions(stream)]
    assert tables.WAIT in opcodes and tables.SIGNAL in opcodes and tables.BARRIER not in opcodes
    text = artifact.image.ptx.decode()
    assert len(re.findall(r"^\.?.*\.entry", text, re.MULTILINE)) == 1


@pytest.mark.parametrize("seed", SOME)
@pytest.mark.parametrize("name", NETWORKS)
def test_any_order_of_blocks_gives_the_same_bits(name: str, seed: int):
    feeds, bits = expected(name)
    model = on_device(artifacts(name)["rammer"], seed)
    for _ in range(3 if seed == 0 else 1):  # events count on
        assert model(**feeds)[0].tobytes() == bits


@pytest.mark.parametrize(("name", "policy"), turn_of(itertools.product(NETWORKS, STATIC[1:]), 2))
def test_any_schedule_gives_the_same_bits(name: str, policy: str):
    feeds, bits = expected(name)
    model = on_device(artifacts(name)[policy], STATIC.index(policy))
    assert model(**feeds)[0].tobytes() == bits


class Counting(EmulatedDriver):
    """launched: blocks of each launch, and whether they must run at the same time."""

    def __init__(self, **options):
        super().__init__(**options)
        self.launched = []

    def launch(self, function, grid, threads, shared_bytes, arguments, cooperative=False):
        self.launched.append((grid[0], cooperative))
        super().launch(function, grid, threads, shared_bytes, arguments, cooperative)


@pytest.mark.parametrize(
    ("policy", "name"),
    turn_of(itertools.product(STATIC, ["lstm", "depthwise", "attention", "split-k"]), 3),
)
def test_base_and_wave_launch_every_program_by_itself(name: str, policy: str):
    """These run on a device, too, that holds one block at a time."""
    feeds, bits = expected(name)
    artifact = artifacts(name)[policy]
    apart, image = policy in ("base", "wave"), artifact.image
    if apart:
        image = dataclasses.replace(image, shared=max(image.shared, 100_000))
    few = {"multiprocessors": 1 if apart else 4}
    device = Counting(capability=(8, 0), interleave=True, seed=7, **few)
    model = GpuExecutable(dataclasses.replace(artifact, image=image), lambda: device)
    for _ in range(2):
        assert model(**feeds)[0].tobytes() == bits
    launched = [(4, False)] * len(artifact.programs) if apart else [(4, True)]
    assert device.launched == 2 * launched and (len(launched) > 1) == apart


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("policy", STATIC)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_schedule_in_every_order(name: str, policy: str, seed: int):
    feeds, bits = expected(name)
    model = on_device(artifacts(name)[policy], 100 + seed)
    for _ in range(3):
        assert model(**feeds)[0].tobytes() == bits


def test_the_long_sum_is_computed_in_parts():
    """A partial product for each of its parts, and their sum behind it."""
    artifact = artifacts("split-k")["rammer"]
    parts, whole = Report.from_json(artifact.stages["report"]).operators
    assert whole.kind == "reduction" and len(parts.tile) == len(whole.tile) + 1
    assert parts.tasks >= 4
    [program] = artifact.programs
    assert len([1 for names in program.operators for name in names if name == parts.name]) == 4


@pytest.fixture(scope="module")
def with_loops():
    """Instructions in loops: those of so small a network are short."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Device, "shortest_loop", 1)
        return compiled(NETWORKS["lstm"](), ["bsp"])["bsp"]


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_loops_are_what_they_were_when_they_are_over(seed: int | None, with_loops: Artifact):
    feeds, bits = expected("lstm")
    streams = [stream for program in with_loops.programs for stream in program.streams]
    assert any(isinstance(item, Loop) for stream in streams for item in parse(stream))
    model = on_device(with_loops, seed)
    for _ in range(3):
        assert model(**feeds)[0].tobytes() == bits


# -- faults


def words(model: GpuExecutable, opcode: int) -> list[tuple[int, tuple[int, ...]]]:
    """(word of the schedule, operands) of each instruction of a kind."""
    return [
        (piece.start + line.position, line.operands)
        for piece in model._launches[0].schedule.threads
        for line in lines(parse(piece.stream))
        if line.opcode == opcode
    ]


def spare_event(model: GpuExecutable) -> int:
    """An event that nobody signals or waits for."""
    model._launches[0].schedule.events.append("spare")
    model._launches[0].schedule.totals.append(0)
    return len(model._launches[0].schedule.events) - 1


def fault(model: GpuExecutable, name: str) -> str | None:
    """The kind of what is reported; None: nothing, and the result is right."""
    feeds, bits = expected(name)
    try:
        [found] = model(**feeds)
    except EmulationFault as error:
        return error.kind
    assert found.tobytes() == bits
    return None


RACES = {"global-race", "uninitialised-read"}


@pytest.mark.parametrize("name", ["mlp", "lstm", "split-k", "depthwise"])
def test_a_wait_that_is_not_there_is_reported(name: str):
    """In nearly any order: in others a counter that both have added to orders them by chance."""
    artifact = artifacts(name)["rammer"]
    places = words(on_device(artifact), tables.WAIT)
    for place, _ in places[:: max(len(places) // 4, 1)]:
        for seed in (None, *SEEDS):
            model = on_device(artifact, seed)
            model._launches[0].schedule.words[place + 1 : place + 3] = spare_event(model), 0
            kind = fault(model, name)
            if kind is not None:
                break
        assert kind in RACES


@pytest.mark.parametrize("name", ["split-k", "depthwise"])
def test_a_wait_for_too_few_signals_is_reported_in_some_order(name: str):
    """In others the signals have come before it looks, and it is behind them all the same."""
    artifact = artifacts(name)["rammer"]
    for place, (_, count) in words(on_device(artifact), tables.WAIT)[:3]:
        for seed in SEEDS:
            model = on_device(artifact, seed)
            model._launches[0].schedule.words[place + 2] = count - 1
            kind = fault(model, name)
            if kind is not None:
                break
        assert kind in RACES


@pytest.mark.parametrize("distance", [1 << 20, -(1 << 20), 2])
@pytest.mark.parametrize("name", ["mlp", "depthwise"])
def test_an_offset_that_leads_elsewhere_is_reported(name: str, distance: int):
    artifact = artifacts(name)["rammer"]
    place, operands = words(on_device(artifact), tables.RUN)[0]
    for operand in range(operands[4]):
        model = on_device(artifact)
        model._launches[0].schedule.words[place + 7 + 2 * operand] += distance
        assert fault(model, name) == ("misaligned" if distance == 2 else "out-of-bounds")


BARRIER = re.compile(r"^.*\bbar(?:rier)?\.sync[^;]*;\n", re.MULTILINE)


def barriers(text: str) -> list[tuple[str, int, tuple[int, int]]]:
    """Of each barrier of PTX: its function, the how manieth it is there, and where it stands."""
    starts = [(m.start(), m[1]) for m in re.finditer(r"^.*\.(?:func|entry) (\w+)", text, re.M)]
    found: list[tuple[str, int, tuple[int, int]]] = []
    for match in BARRIER.finditer(text):
        name = [name for start, name in starts if start < match.start()][-1]
        found.append((name, sum(name == n for n, _, _ in found), match.span()))
    return found


def guards(text: str, end: int) -> bool:
    """Whether the barrier of the entry that ends here is that of a run or of signals, whose counts
    are a loop behind the release. (Where all blocks meet, one count stands right behind it.)
    """
    behind = text[end : text.index("\n$L", end)]
    releases = re.search(r"\bfence\.(?:release|acq_rel)\.gpu", behind)
    signals = releases is not None and "atom" not in behind
    return signals or "brx.idx" in behind or "call.uni k_" in behind


@pytest.mark.parametrize("name", ["attention", "residual"])
def test_a_barrier_that_is_missing_is_reported(name: str):
    """Those between the writes and the reads of shared memory, and those of a run and a signal.

    The first one of an rKernel is for the task before: it is idle where there is none.
    """
    artifact = artifacts(name)["rammer"]
    text = artifact.image.ptx.decode()
    needed = [
        place
        for k, n, place in barriers(text)
        if (guards(text, place[1]) if k == artifact.image.entry else n)
    ]
    assert len(needed) == {"attention": 6, "residual": 2}[name]
    for number, (start, end) in enumerate(needed):
        image = dataclasses.replace(artifact.image, ptx=(text[:start] + text[end:]).encode())
        model = on_device(dataclasses.replace(artifact, image=image), number)
        # some order reads what is not yet written at all
        assert fault(model, name) in ("shared-race", "global-race", "uninitialised-read")


WAIT_FOR_COPIES = re.compile(r"cp\.async\.wait_group\s+(\d+);")


@pytest.mark.parametrize("change", ["dropped", "late"])
@pytest.mark.parametrize("name", ["lstm", "attention", "products"])
def test_a_late_wait_for_asynchronous_copies_is_reported(name: str, change: str):
    """One that is not there, or is for all groups of copies but one more."""
    artifact = artifacts(name)["rammer"]
    text = artifact.image.ptx.decode()
    waits = list(WAIT_FOR_COPIES.finditer(text))
    assert waits
    for number, wait in enumerate(waits):
        new = f"cp.async.wait_group {int(wait[1]) + 1};" if change == "late" else ""
        changed = text[: wait.start()] + new + text[wait.end() :]
        image = dataclasses.replace(artifact.image, ptx=changed.encode())
        model = on_device(dataclasses.replace(artifact, image=image), number)
        assert fault(model, name) == "late-async-copy"


# -- models for GPUs


def test_queues_that_eus_take_are_refused_when_a_model_is_compiled():
    with pytest.raises(ScheduleError, match=r"policy 'dynamic'.*choose another policy, 'rammer'"):
        rcompiler.compile_onnx(
            models.build("two_branch"), target="cuda:emulated", policy="dynamic", cache=False
        )


@pytest.fixture(scope="module")
def small():
    return rcompiler.compile_onnx(models.build("two_branch"), target="cuda:emulated", cache=False)


def test_a_model_explains_itself(small):
    assert ".visible .entry veu(" in small.stage("ptx")
    assert "gpu.func @veu" in small.stage("gpu") and "vdevice.program" in small.stage("vdevice")
    assert small.report().operators
    assert small.needs.chip == "sm_80" and small.eus == 4
    assert small.needs.blocks == 1  # one EU does it all, and the others have nothing to wait for


@pytest.mark.parametrize("policy", STATIC)
def test_blocks_that_wait_must_run_at_the_same_time(policy: str):
    model = on_device(artifacts("lstm")[policy])
    assert model.eus == 4 and model.needs.blocks == (1 if policy in ("base", "wave") else 4)


def test_the_number_of_blocks_is_that_of_the_schedule(small, tmp_path):
    small.save(tmp_path / "m.rcx")
    assert rcompiler.load(tmp_path / "m.rcx", eus=4).eus == 4
    with pytest.raises(DeviceError, match="eus=2: the schedule is for 4 blocks.*compile"):
        rcompiler.load(tmp_path / "m.rcx", eus=2)


def test_an_edited_schedule_is_compiled_again(small):
    again = rcompiler.compile_schedule(
        small.stage("vdevice"), small.constants(), target="cuda:emulated", cache=False
    )
    assert again.artifact.certificate == small.artifact.certificate


def test_without_a_driver_the_error_names_the_remedy():
    model = rcompiler.compile_onnx(models.build("two_branch"), target="h200", eus=4, cache=False)
    with pytest.raises(DeviceError, match="compiled for h200.*run it on|cuda:emulated"):
        model(**random_inputs(model.inputs, 0))
    with pytest.raises(rcompiler.CompilerError, match="which is no CPU"):
        Executable(model.artifact)


# Only what the runtime needs may be imported.
_LOAD = """
import importlib.machinery, sys

class Only(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in {*sys.stdlib_module_names, "numpy", "rcompiler"}:
            return super().find_spec(name, path, target)
        return None

sys.meta_path[:] = [importlib.machinery.BuiltinImporter, importlib.machinery.FrozenImporter, Only]
sys.path.insert(0, sys.argv[2])  # where the package under test is
import json, numpy, rcompiler
model = rcompiler.load(sys.argv[1])
loaded = sorted({name.split(".")[1] for name in sys.modules if name.startswith("rcompiler.")})
needs = model.needs
x = [numpy.ones(t.shape, t.dtype) for t in model.inputs]
print(json.dumps([loaded, vars(needs), model(*x)[0].tolist()]))
"""


def test_numpy_is_all_that_a_saved_model_needs_to_load(small, tmp_path):
    small.save(tmp_path / "m.rcx")
    home = Path(rcompiler.__file__).parents[1]
    command = [sys.executable, "-c", _LOAD, str(tmp_path / "m.rcx"), str(home)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded, needs, result = json.loads(done.stdout)
    assert not {"emulator", "codegen", "kernelgen", "passes", "dialects"} & set(loaded)
    assert needs == vars(small.needs)
    ones = [np.ones(t.shape, t.dtype) for t in small.inputs]
    assert np.array_equal(np.float32(result), small(*ones)[0])
