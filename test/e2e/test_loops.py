"""A network that was unrolled over time: its schedule keeps the loop, and computes the same."""

import dataclasses
import itertools

import numpy as np
import pytest

import rcompiler
from rcompiler.model import CompiledModel
from rcompiler.proof import prove, rebuild
from rcompiler.runtime import tables
from rcompiler.tools import models
from rcompiler.tools._data import random_inputs

STEPS = (20, 40)
NETWORKS = {"lstm_tc": "steps", "lstm2": "sequence"}
SMALL = {"lstm_tc": {"hidden": 32, "layers": 2}, "lstm2": {"features": 8, "hidden": 16}}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module", params=itertools.product(NETWORKS, (1, 2)), ids=str)
def compiled(request, cache):
    """The same network for 20 and for 40 steps."""
    name, eus = request.param
    protos = [models.build(name, **SMALL[name], **{NETWORKS[name]: steps}) for steps in STEPS]
    return [rcompiler.compile_onnx(proto, eus=eus, cache=cache) for proto in protos]


def words(artifact):
    return sum(len(stream) for program in artifact.programs for stream in program.streams)


def written_out(artifact):
    """The same with every stream as if there were no loops."""

    def flat(stream):
        steps = tables.instructions(stream)
        return np.array([word for _, code, operands in steps for word in (code, *operands)])

    programs = [
        dataclasses.replace(program, streams=tuple(map(flat, program.streams)))
        for program in artifact.programs
    ]
    return dataclasses.replace(artifact, programs=tuple(programs))


def test_the_tables_do_not_grow_with_the_steps(compiled):
    short, long = (model.artifact for model in compiled)
    assert words(written_out(long)) > 1.8 * words(written_out(short))
    assert words(long) <= 1.02 * words(short)
    assert words(long) < words(written_out(long)) / 4


def test_loops_give_the_bits_of_the_same_schedule_written_out(compiled):
    for model in compiled:
        feeds = random_inputs(model.inputs, 0)
        flat = CompiledModel(written_out(model.artifact))
        for eus in (1, 2):
            loops = CompiledModel(model.artifact, min(eus, len(model.artifact.programs[0].streams)))
            for _ in range(3):
                assert np.array_equal(loops(**feeds)[0], flat(**feeds)[0])


def test_the_proof_is_of_every_iteration(compiled):
    for model in compiled:
        prove(model.artifact)
        assert rebuild(model.artifact)[0] == rebuild(written_out(model.artifact))[0]
