"""A network that was unrolled over time: its schedule keeps the loop, and computes the same."""

import dataclasses
import itertools
import re

import numpy as np
import pytest
from task_body import without_bodies

import rcompiler
from rcompiler.driver.artifact_notes import rebuild
from rcompiler.driver.certified import prove
from rcompiler.errors import ScheduleError
from rcompiler.model import CompiledModel
from rcompiler.runtime import tables
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools import models

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


def test_the_text_keeps_the_loops_and_is_all_of_the_schedule(compiled, cache):
    short, long = (model.stage("vdevice") for model in compiled)
    assert "vdevice.repeat" in long
    # (a sequence of another length may be tiled otherwise)
    lines = [without_bodies(text).count("\n") for text in (short, long)]
    assert lines[1] <= 1.02 * lines[0]
    again = rcompiler.compile_schedule(long, compiled[1].constants(), cache=cache)
    assert again.artifact.certificate == compiled[1].artifact.certificate
    assert again.stage("vdevice") == long


def test_a_loop_edited_by_hand_is_proved_in_every_iteration(compiled, cache):
    """Only the last iterations of the loop are gone: what they wrote is read all the same."""
    text = compiled[1].stage("vdevice")
    lists = text.index('"vdevice.eu"')
    count = int(re.search(r"\}\) \{count = (\d+) : i64\}", text[lists:])[1])
    cut = text[:lists] + text[lists:].replace(f"{{count = {count} :", f"{{count = {count - 1} :", 1)
    with pytest.raises(ScheduleError):
        rcompiler.compile_schedule(cut, compiled[1].constants(), cache=cache)


def test_the_values_of_a_decoder_lie_so_that_its_loops_stay(cache):
    """The smallest arena would scatter them: five thousand words."""
    options = {"hidden": 16, "layers": 2, "steps": 30, "decoder_layers": 2, "decoder_steps": 30}
    model = rcompiler.compile_onnx(models.build("seq2seq", **options), eus=2, cache=cache)
    assert words(model.artifact) < words(written_out(model.artifact)) / 5
    feeds = random_inputs(model.inputs, 0)
    flat = CompiledModel(written_out(model.artifact))
    assert np.array_equal(model(**feeds)[0], flat(**feeds)[0])
