"""Recurrent cells as one operator on the emulated GPU: gates side by side in a block."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from gpu_networks import compiled, on_device
from onnx import ModelProto

from rcompiler.device.gpu import GPUS
from rcompiler.device.model import Costs
from rcompiler.emulator.faults import EmulationFault
from rcompiler.runtime import tables
from rcompiler.runtime.artifact import Artifact
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools._reference import compare, reference
from rcompiler.tools.models.graph import ModelGraph

# Of sums that the lanes of a warp share in, some of them last; and that a thread has alone.
WIDTH, SHORT = 136, 64
GATES = 3
# What EUs tell each other takes longer than the products of a cell do.
DEAR = Costs(
    task_ns=1.0,
    hand_off_ns=2000.0,
    barrier_ns=4000.0,
    launch_ns=5.0,
    min_task_ns=1000.0,
    step_ns=1.0,
)


def cell(width: int) -> ModelProto:
    """Three gates, each of the sum of two products, of which a state is made."""
    g = ModelGraph("cell", 6)
    x, h = g.input("x", (1, width)), g.input("h", (1, width))
    products = [
        (g.matmul(x, width, name=f"x{k}"), g.matmul(h, width, name=f"h{k}")) for k in range(GATES)
    ]
    first, second, third = (g.op("Add", *pair) for pair in products)
    state = g.op("Mul", g.op("Sigmoid", first), g.op("Tanh", second))
    return g.model(output=(g.op("Mul", g.op("Tanh", state), g.op("Sigmoid", third)), (1, width)))


@cache
def joined(width: int = WIDTH) -> Artifact:
    dear = replace(GPUS["emulated"], name="dear", costs=DEAR)
    return compiled(cell(width), ["rammer"], by=dear)["rammer"]


@cache
def expected() -> tuple[dict[str, np.ndarray], bytes]:
    """Inputs, and the bits of the operators apart, which are right."""
    artifact = compiled(cell(WIDTH), ["rammer"])["rammer"]
    assert "rtask.stage" not in artifact.stages["rtask"]
    feeds = random_inputs(artifact.inputs, 0)
    [found], [want] = on_device(artifact)(**feeds), reference(cell(WIDTH), feeds)[1]
    assert compare(found, want).right
    return feeds, found.tobytes()


def kernel(text: str) -> tuple[int, int]:
    """Where the one rKernel of a PTX module stands."""
    [start] = [match.start() for match in re.finditer(r"^\.func k_", text, re.MULTILINE)]
    return start, text.index("\n}", start)


def barriers(text: str) -> list[tuple[int, int]]:
    """Where those of the rKernel stand."""
    return [m.span() for m in re.compile(r"\tbar\.sync[^;]*;\n").finditer(text, *kernel(text))]


def test_a_cell_is_one_operator_on_all_eus():
    artifact = joined()
    assert artifact.stages["rtask"].count('"rtask.operator"') == 1
    assert artifact.stages["rtask"].count('"rtask.stage"') == 2 * GATES - 1
    [program] = artifact.programs
    for stream in program.streams:
        assert [op for _, op, _ in tables.instructions(stream)].count(tables.RUN) == 1


@pytest.mark.parametrize("seed", [None, *range(5)])
def test_its_bits_are_those_of_the_operators_apart_in_any_order(seed: int | None):
    feeds, bits = expected()
    assert on_device(joined(), seed)(**feeds)[0].tobytes() == bits


@pytest.mark.parametrize(("width", "meeting"), [(WIDTH, "0"), (SHORT, "1, 192")])
def test_stages_meet_once_for_each_level(width: int, meeting: str):
    """Behind the task before, behind the products of the state, and behind the gates; of long sums
    once more for the last tile, which is shorter. Of short ones the six of eight warps that have
    anything to do: two for each product of 64 columns.
    """
    text = joined(width).image.ptx.decode()
    found = [" ".join(text[start:end].split()) for start, end in barriers(text)]
    assert found == [f"bar.sync {meeting};"] * (6 if width == WIDTH else 3)
    beside = text[: kernel(text)[0]] + text[kernel(text)[1] :]
    assert set(re.findall(r"bar\.sync\s+([^;]*);", beside)) == {"0"}


def test_the_state_waits_for_the_gates():
    """The barrier in front of it. That in front of the gates is idle here: which threads compute
    the products that a gate reads compute the gate, too.
    """
    text = joined().image.ptx.decode()
    for start, end in reversed(barriers(text)[2::3]):
        text = text[:start] + text[end:]
    image = replace(joined().image, ptx=text.encode())
    model = on_device(replace(joined(), image=image), 0)
    with pytest.raises(EmulationFault) as caught:
        model(**expected()[0])
    assert caught.value.kind in ("shared-race", "uninitialised-read")
