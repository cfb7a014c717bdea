"""Weights of a recurrence that stay in the shared memory of their blocks, on the emulated GPU."""

import re
from dataclasses import replace
from functools import cache

import gpu_networks
import numpy as np
import pytest
from gpu_networks import right_bits
from onnx import ModelProto

from rcompiler.driver.certified import prove
from rcompiler.driver.from_schedule import schedule_artifact
from rcompiler.emulator.faults import EmulationFault
from rcompiler.errors import ScheduleError
from rcompiler.model import model_of
from rcompiler.options import Policy
from rcompiler.passes.vdevice_pin import VdevicePin
from rcompiler.runtime import tables
from rcompiler.runtime.artifact import Artifact
from rcompiler.tools.models.graph import ModelGraph

STEPS, WIDTH = 17, 160  # enough steps for what it costs to bring them


@cache
def recurrence() -> ModelProto:
    """h = tanh(h W + x_t): 100 KiB of weights that every step reads."""
    g = ModelGraph("recurrence", 5)
    h = g.input("h", (1, WIDTH))
    w = g.weight("w", g.rng.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32))
    for k in range(STEPS):
        x = g.input(f"x{k}", (1, WIDTH))
        h = g.op("Tanh", g.op("Add", g.op("MatMul", h, w), x))
    return g.model(output=(h, (1, WIDTH)))


@cache
def compiled(policy: Policy = "rammer") -> Artifact:
    return gpu_networks.compiled(recurrence(), [policy])[policy]


def run(artifact: Artifact, seed: int | None = None) -> bytes:
    return right_bits(artifact, recurrence(), seed)


def pins(artifact: Artifact) -> dict[str, tuple[int, ...]]:
    """Of rKernels with pinned tensors, which ones."""
    return {kernel.name: kernel.pinned for kernel in artifact.kernels if kernel.pinned}


def unpinned() -> Artifact:
    """The same schedule, as it was before anything was pinned."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VdevicePin, "run", lambda *_: None)
        return gpu_networks.compiled(recurrence(), ["rammer"])["rammer"]


def test_each_block_brings_its_part_of_the_weights_once():
    artifact = compiled()
    assert artifact.image.pinned == 4 * WIDTH * WIDTH // 4  # a quarter of them for each EU
    assert artifact.image.shared >= artifact.image.pinned
    [reading] = {pinned for name, pinned in pins(artifact).items() if name.startswith("k_")}
    [writing] = {pinned for name, pinned in pins(artifact).items() if name.startswith("pin_")}
    assert (reading, writing) == ((1,), (1,))
    for program in artifact.programs:
        for own in program.operators:
            assert own[0].endswith(".pinned.pin") and len(own) == 1 + STEPS


def test_the_bits_are_those_of_weights_in_memory():
    plain = unpinned()
    assert not pins(plain)
    assert plain.image.pinned == 0
    assert run(compiled()) == run(plain)


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_blocks_is_right(seed: int):
    assert run(compiled(), seed) == run(compiled())


@pytest.mark.parametrize("policy", ["list", "bsp"])
def test_other_policies_pin_too(policy: Policy):
    assert pins(compiled(policy))
    assert run(compiled(policy)) == run(compiled())


@pytest.mark.parametrize("policy", ["wave", "base"])
def test_shared_memory_does_not_outlive_a_launch(policy: Policy):
    assert not pins(compiled(policy))
    assert run(compiled(policy)) == run(compiled())


def test_weights_that_nobody_brought_are_found_out():
    """The emulated device knows which bytes of shared memory nobody has written."""
    artifact = compiled()
    text = artifact.image.ptx.decode()
    stores = re.compile(r"^\s*st\.shared(?:\.v\d)?\.\w+ .*\n", re.MULTILINE)
    [function] = re.findall(r"(?ms)^\.func pin_\w+\(.*?^\}", text)
    assert stores.search(function)
    broken = text.replace(function, stores.sub("", function)).encode()
    with pytest.raises(EmulationFault, match="nobody"):
        run(replace(artifact, image=replace(artifact.image, ptx=broken)))


def test_a_saved_model_is_proved_again(tmp_path):
    artifact = compiled()
    path = tmp_path / "m.rcx"
    artifact.save(path)
    found = Artifact.load(path)
    assert pins(found) == pins(artifact)
    assert found.image.pinned == artifact.image.pinned
    prove(found)


def test_a_tile_that_another_block_has_is_refused():
    """Two blocks change their tasks of a step, which is as good but for what is pinned."""
    artifact = compiled()
    [program] = artifact.programs
    streams = [stream.copy() for stream in program.streams]
    places = []
    for stream in streams[:2]:
        runs = [at for at, op, _ in tables.instructions(stream) if op == tables.RUN]
        places.append(runs[2] + 2)  # first task of the second step
    one, two = (stream[at] for stream, at in zip(streams, places, strict=False))
    streams[0][places[0]], streams[1][places[1]] = two, one
    moved = replace(artifact, programs=(replace(program, streams=tuple(streams)),))
    with pytest.raises(ScheduleError, match="reads what no operator writes"):
        prove(moved)


def test_the_text_says_it_all():
    artifact = compiled()
    text, weights = artifact.stages["vdevice"], model_of(artifact).constants()
    again = schedule_artifact(text, weights)
    assert again.certificate == artifact.certificate
