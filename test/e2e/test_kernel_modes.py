"""fast, select and efficient: other rKernels run, and nothing else is different."""

from pathlib import Path

import pytest

from rcompiler.compile import compile_policies
from rcompiler.driver.artifact_notes import rebuild
from rcompiler.options import Scheduler
from rcompiler.rammer.policy.kernels import MODES
from rcompiler.rammer.program import Run
from rcompiler.rammer.schedule import POLICIES
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools import models

RECORD = Path(__file__).parents[1] / "Inputs" / "v3-2.json"
# Convolutions side by side, some of which this device has several good tiles for.
NETWORK = {"image": 32, "channels": 24, "cells": 1, "stacks": 1}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The network on two EUs, by every policy with every mode."""
    schedulers = [Scheduler(policy, mode) for policy in POLICIES for mode in MODES]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RC_DEVICE", str(RECORD))
        patch.setenv("RC_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        found = compile_policies(models.build("nas_cells", **NETWORK), schedulers, eus=2)
    yield found
    for model in found.values():
        model.close()


class Facts:
    """What the streams of a compiled model say.

    kernels: operator -> its rKernel; operands: operator -> the values it reads and writes; values:
    all tensors but for where they lie.
    """

    def __init__(self, model):
        programs, _ = rebuild(model.artifact)
        steps = [step for program in programs for queue in program.queues for step in queue]
        runs = [step for step in steps if isinstance(step, Run)]
        self.kernels = {run.operator: run.kernel for run in runs}
        self.operands = {run.operator: run.buffers for run in runs}
        buffers = [buffer for program in programs for buffer in program.buffers]
        self.values = {(b.name, b.kind, b.bytes, b.index, b.alias_of, b.key) for b in buffers}


@pytest.fixture(scope="module")
def facts(compiled):
    return {by: Facts(model) for by, model in compiled.items()}


@pytest.mark.parametrize("policy", POLICIES)
def test_each_mode_runs_kernels_of_its_own(facts, policy):
    fast, select, efficient = (
        facts[policy, mode].kernels for mode in ("fast", "select", "efficient")
    )
    assert fast != efficient != select
    # merge adds operators one by one, and of these the fastest always fit best.
    assert (fast == select) == (policy == "merge")
    assert facts[policy, "auto"].kernels == (fast if policy == "base" else select)


def test_base_with_select_runs_the_kernels_of_waves(facts):
    for policy in ("base", "wave", "bsp"):
        assert facts[policy, "select"].kernels == facts["rammer", "select"].kernels


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_else_is_different(facts, policy):
    first, *others = (facts[policy, mode] for mode in MODES)
    for other in others:
        assert other.operands == first.operands
        assert other.values == first.values


def test_results_are_equal_to_the_bit(compiled):
    feeds = random_inputs(compiled["rammer", "auto"].inputs)
    results = {y.tobytes() for model in compiled.values() for y in model(**feeds)}
    assert len(results) == 1
