"""Blocks that ask for the weights of their next task, on the emulated GPU."""

import re
from dataclasses import replace
from functools import cache

import gpu_networks
import pytest
from gpu_networks import FINE, right_bits
from onnx import ModelProto

from rcompiler.device.model import Device
from rcompiler.options import Policy
from rcompiler.runtime import tables
from rcompiler.runtime.artifact import Artifact
from rcompiler.tools.models.graph import ModelGraph

LAYERS, WIDTH = 13, 64


@cache
def layers() -> ModelProto:
    """16 KiB of weights each."""
    g = ModelGraph("layers", 7)
    x = g.input("input", (1, WIDTH))
    for k in range(LAYERS):
        x = g.op("Relu", g.matmul(x, WIDTH, name=f"layer{k}"))
    return g.model(output=(x, (1, WIDTH)))


def small_cache() -> Device:
    """The last cache holds the weights of any layer four times, and not those of all."""
    *inner, last, memory = FINE.memory
    capacity = 4 * LAYERS * WIDTH * WIDTH
    return replace(FINE, name="cold", memory=(*inner, replace(last, capacity=capacity), memory))


@cache
def compiled(*, cold: bool, policy: Policy = "rammer") -> Artifact:
    by = small_cache() if cold else FINE
    return gpu_networks.compiled(layers(), [policy], by=by)[policy]


def run(artifact: Artifact, seed: int | None = None) -> bytes:
    return right_bits(artifact, layers(), seed)


def asking(artifact: Artifact) -> set[int]:
    """Numbers of the rKernels that ask for weights."""
    return {k for k, kernel in enumerate(artifact.kernels) if kernel.name.startswith("p_")}


def test_all_layers_but_the_first_are_asked_for_ahead_of_time():
    artifact = compiled(cold=True)
    operators = {name for program in artifact.programs for own in program.operators for name in own}
    ahead = {name for name in operators if name.endswith(".prefetch")}
    assert ahead == {f"layer{k}_MatMul.prefetch" for k in range(1, LAYERS)}
    assert "prefetch.global.L2" in artifact.image.ptx.decode()
    kernels = asking(artifact)
    for stream in artifact.programs[0].streams:
        steps = [(op, own) for _, op, own in tables.instructions(stream)]
        runs = [own[0] in kernels for op, own in steps if op == tables.RUN]
        assert sorted(runs[:2]) == [False, True]  # with the first layer the second is asked for
        waits = [n for n, (op, _) in enumerate(steps) if op == tables.WAIT]
        # in front of the first of several waits: a block asks, then stands still
        assert any(steps[n - 1][0] == tables.RUN and steps[n - 1][1][0] in kernels for n in waits)


@pytest.mark.parametrize("policy", ["rammer", "list", "bsp", "wave", "base"])
def test_the_bits_are_those_of_the_schedule_without(policy: Policy):
    bits = run(compiled(cold=False))
    assert not asking(compiled(cold=False, policy=policy))
    assert run(compiled(cold=True, policy=policy)) == bits


@pytest.mark.parametrize("seed", range(3))
def test_any_order_of_blocks_is_right(seed: int):
    assert run(compiled(cold=True), seed) == run(compiled(cold=False))


def test_nothing_beside_the_weights_is_asked_for():
    """The emulated device takes prefetches for hints: read instead, it checks where they are."""
    artifact = compiled(cold=True)
    text, count = re.subn(
        r"prefetch\.global\.L2\s+(\[%rd\d+\]);",
        r"{ .reg .b16 %asked; ld.global.b8 %asked, \1; }",
        artifact.image.ptx.decode(),
    )
    assert count >= len(asking(artifact)) > 0
    assert run(replace(artifact, image=replace(artifact.image, ptx=text.encode()))) == run(artifact)
