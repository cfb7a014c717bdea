"""runtime/program.py and tables.py: no stream may address anything outside of its buffers."""

import dataclasses

import numpy as np
import pytest
import small_models as sm
from hypothesis import given, settings
from hypothesis import strategies as st

from rcompiler.errors import ArtifactError
from rcompiler.runtime.artifact import KernelEntry, Program, Tensor
from rcompiler.runtime.program import OperandLimits, check_program
from rcompiler.runtime.tables import ARENA, CONSTANTS, EXTERNAL, PINNED, instructions

IN, OUT = (EXTERNAL, 0), (EXTERNAL + 1, 0)


def check(*streams: np.ndarray, events: tuple[str, ...] = ("a",), runs: int | None = None) -> None:
    names = tuple(("op",) * sum(1 for _, op, _ in instructions(s) if op == 1) for s in streams)
    if runs is not None:
        names = (("op",) * runs,)
    sm.artifact([Program("p", streams, events, names)]).check()


def run(kernel=sm.TWICE, first=0, count=sm.N, stride=1, operands=(IN, OUT)) -> tuple:
    return ("run", kernel, first, count, stride, list(operands))


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (run(kernel=3), "there is no kernel 3"),
        (run(kernel=-1), "there is no kernel -1"),
        (run(first=-1), "tasks -1"),
        (run(first=1), "not all among the 64"),
        (run(stride=2), "not all among the 64"),
        (run(stride=0), "not all"),
        (run(count=0), "not all"),
        (run(count=1 << 61, stride=8), "not all"),
        (run(operands=(IN,)), "takes 2 operands, not 1"),
        (run(operands=(IN, (4, 0))), "operand 1 has no base 4"),
        (run(operands=(IN, (-1, 0))), "operand 1 has no base -1"),
        (run(operands=((EXTERNAL, 4), OUT)), "operand 0 leaves base 2 of 256 bytes"),
        (run(operands=((ARENA, -64), OUT)), "operand 0 leaves base 0"),
        (run(operands=((ARENA, 1 << 62), OUT)), "operand 0 leaves base 0"),
        (run(operands=(IN, (CONSTANTS, 0))), "operand 1 is written, but base 1 is read-only"),
        (run(operands=(OUT, IN)), "operand 1 is written, but base 2 is read-only"),
        (("signal", 1), "there is no event 1"),
        (("signal", -1), "there is no event -1"),
        (("wait", 1, 1), "there is no event 1"),
        (("wait", 0, 1), "waits for 1 signals of event 'a', which gets 0"),
        (("wait", 0, 0), "waits for 0 signals"),
    ],
)
def test_what_leaves_the_tables_or_buffers_is_refused(step: tuple, message: str):
    with pytest.raises(ArtifactError, match=f"program 'p', EU 0, word 0: .*{message}"):
        check(sm.stream_of(step))


def test_arena_operands_must_be_aligned():
    wide = dataclasses.replace(sm.artifact([]), arena_bytes=4096)
    stream = sm.stream_of(run(operands=((ARENA, 4), OUT)))
    with pytest.raises(ArtifactError, match="not 64-byte aligned"):
        dataclasses.replace(wide, programs=(Program("p", (stream,), (), (("op",),)),)).check()


@pytest.mark.parametrize(("alignment", "wrong"), [(16, True), (4, False)])
def test_operands_in_inputs_of_gpus_must_be_aligned(alignment: int, wrong: bool):
    """Their kernels access up to 16 bytes at a time, those of CPUs what they like."""
    tensor = Tensor("x", (4 * sm.N,), "float32")
    limits = OperandLimits.of(0, 0, [tensor], [tensor], alignment)
    program = Program("p", (sm.stream_of(run(operands=((EXTERNAL, 4), OUT))),), (), (("op",),))
    if not wrong:
        return check_program(program, sm.KERNELS, limits)
    with pytest.raises(ArtifactError, match="operand 0 is not 16-byte aligned"):
        check_program(program, sm.KERNELS, limits)


@pytest.mark.parametrize(
    ("base", "offset", "message"),
    [
        (PINNED, 64, None),
        (PINNED, 128, "leaves the 128 bytes of pinned memory"),
        (PINNED, -64, "leaves the 128 bytes of pinned memory"),
        (PINNED, 4, "not 64-byte aligned"),
        (EXTERNAL, 0, "leaves the 128 bytes of pinned memory"),
    ],
)
def test_pinned_operands_stay_in_their_memory(base: int, offset: int, message: str | None):
    tensor = Tensor("x", (sm.N,), "float32")
    limits = OperandLimits.of(0, 0, [tensor], [tensor], 16, pinned=128)
    kernels = [*sm.KERNELS]
    kernels[sm.TWICE] = dataclasses.replace(
        kernels[sm.TWICE], operand_bytes=(64, 4 * sm.N), pinned=(0,)
    )
    stream = sm.stream_of(run(count=1, operands=((base, offset), OUT)))
    program = Program("p", (stream,), (), (("op",),))
    if message is None:
        return check_program(program, kernels, limits)
    with pytest.raises(ArtifactError, match=message):
        check_program(program, kernels, limits)


def test_cores_pin_nothing():
    kernels = tuple(dataclasses.replace(k, pinned=(0,)) for k in sm.KERNELS)
    program = sm.artifact([Program("p", (sm.stream_of(run()),), (), (("op",),))])
    with pytest.raises(ArtifactError, match="leaves the 0 bytes of pinned memory"):
        dataclasses.replace(program, kernels=kernels).check()


def test_unequal_barriers_and_missing_names():
    with pytest.raises(ArtifactError, match=r"its EUs have \[1, 0\] barriers"):
        check(sm.stream_of(("barrier",)), sm.stream_of())
    with pytest.raises(ArtifactError, match="operator names do not match"):
        check(sm.stream_of(run()), runs=3)
    with pytest.raises(ArtifactError, match="no usable number of EUs"):
        sm.artifact([Program("p", (), (), ())]).check()


@pytest.mark.parametrize(
    "words",
    [[], [0, 0], [1], [1, 0, 0, 1, 1, 9, 0], [1, 0, 0, 1, 1, -3, 0], [7], [2, 0], [4], [-1]],
)
def test_streams_that_are_none(words: list[int]):
    with pytest.raises(ArtifactError, match="schedule: "):
        list(instructions(np.array(words, np.int64)))


@pytest.mark.parametrize(
    "change",
    [
        {"kernels": (KernelEntry("nothing", 1, (), 0),)},
        {"kernels": (KernelEntry("twice", 1, (4, -4), 1),)},
        {"kernels": (KernelEntry("twice", 1, (4,), 2),)},
        {"kernels": (KernelEntry("twice", 1, (4, 4), 1, -64),)},
        {"kernels": (KernelEntry("twice", 1, (4, 4), 1, 1 << 40),)},
        {"kernels": (KernelEntry("twice", 1, (4, 4), 1, pinned=(2,)),)},
        {"inputs": (Tensor("x", (-1,), "float32"),)},
        {"inputs": (Tensor("x", (1 << 60, 8), "float32"),)},
        {"inputs": (Tensor("x", (1,), "object"),)},
        {"arena_bytes": -1},
        {"arena_bytes": 1 << 60},
    ],
)
def test_impossible_artifacts(change: dict):
    with pytest.raises(ArtifactError):
        dataclasses.replace(sm.artifact([]), **change).check()


@settings(max_examples=300)
@given(st.lists(st.integers(-2, 70) | st.integers(-(2**62), 2**62), max_size=24))
def test_any_words_are_accepted_or_refused_with_our_error(words: list[int]):
    stream = np.array([*words, 0], np.int64)
    try:
        check(stream)
    except ArtifactError:
        pass
