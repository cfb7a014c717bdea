"""runtime/loops.py and codegen/veu.py: streams with loops run as if they were written out."""

import dataclasses

import numpy as np
import pytest
import small_models as sm
from hypothesis import given, settings
from hypothesis import strategies as st

from rcompiler.errors import ArtifactError, DeviceError
from rcompiler.rammer import encode
from rcompiler.rammer import loops as written
from rcompiler.runtime import loops as read
from rcompiler.runtime import tables
from rcompiler.runtime.artifact import Artifact, Program
from rcompiler.runtime.executable import Executable
from rcompiler.runtime.tables import ARENA, EXTERNAL, instructions

SIZE = 4 * sm.N  # bytes of a value
IN, OUT = (EXTERNAL, 0), (EXTERNAL + 1, 0)
TURNS = 3
X = np.linspace(-3, 3, sm.N, dtype=np.float32)
HAND_OVER = [(1, 2), (10, 2 * SIZE), (12, 2 * SIZE), (14, 2)]  # words of `turn` that move


def double(source: tuple[int, int], target: tuple[int, int]) -> tuple:
    return ("run", sm.TWICE, 0, sm.N, 1, [source, target])


def turn(value: int) -> list[tuple]:
    """15 words: wait for this value, double it into the next one, signal that one."""
    run = double((ARENA, value * SIZE), (ARENA, (value + 1) * SIZE))
    return [("wait", value, 1), run, ("signal", value + 1)]


def written_out(stream: np.ndarray) -> np.ndarray:
    words = [word for _, code, operands in instructions(stream) for word in (code, *operands)]
    return np.array(words, np.int64)


def ping_pong() -> Program:
    """Two EUs double a value in turns: 2 ** (2 * TURNS + 2) times the input."""
    loop = ("repeat", TURNS, 15, HAND_OVER)
    last = double((ARENA, 2 * TURNS * SIZE), OUT)
    streams = (
        sm.stream_of(double(IN, (ARENA, 0)), ("signal", 0), *turn(1), loop, last),
        sm.stream_of(*turn(0), loop),
    )
    events = tuple(f"value{i}" for i in range(2 * TURNS + 1))
    first = ("first", *(f"even{i}" for i in range(TURNS)), "last")
    return Program("p", streams, events, (first, tuple(f"odd{i}" for i in range(TURNS))))


def artifact(*programs: Program) -> Artifact:
    return sm.artifact(programs, arena_bytes=(2 * TURNS + 1) * SIZE)


def flat(program: Program) -> Program:
    return dataclasses.replace(program, streams=tuple(map(written_out, program.streams)))


def test_threads_without_work_meet_at_each_barrier_of_a_loop():
    """A program for two EUs, and one for one EU, which doubles a value again and again."""
    loop = [double((ARENA, 0), (ARENA, 0)), ("barrier",), ("repeat", TURNS, 11, [])]
    stream = sm.stream_of(double(IN, (ARENA, 0)), *loop, double((ARENA, 0), OUT))
    alone = Program("alone", (stream,), (), (("first", *["turn"] * TURNS, "last"),))
    model = Executable(artifact(sm.two_steps(2), alone), 2, wait_limit_s=2)
    for k in range(3):
        assert np.array_equal(model(X * np.float32(k))[0], X * k * 2 ** (TURNS + 2))


def test_a_loop_is_read_as_it_is_written_out():
    even = sm.stream_of(*(step for i in range(TURNS) for step in turn(2 * i)))
    assert np.array_equal(written_out(ping_pong().streams[1]), even)
    assert len(ping_pong().streams[1]) < len(even)


@pytest.mark.parametrize("eus", [1, 2, 4])
@pytest.mark.parametrize("programs", [1, 3])
def test_a_model_with_loops_runs_like_one_without(eus: int, programs: int):
    """Launch after launch: the numbers of a loop are what they were when it is over."""
    artifacts = [artifact(*[p] * programs) for p in (ping_pong(), flat(ping_pong()))]
    loops, plain = (Executable(a, min(eus, 2)) for a in artifacts)
    for k in range(5):
        want = X * k * 2 ** (2 * TURNS + 2)
        assert np.array_equal(plain(X * np.float32(k))[0], want)
        assert np.array_equal(loops(X * np.float32(k))[0], want)


def test_one_thread_keeps_the_loops_of_one_eu():
    stream = sm.stream_of(
        double(IN, (ARENA, 0)),
        double((ARENA, 0), (ARENA, SIZE)),
        ("barrier",),
        ("repeat", 4, 11, [(7, SIZE), (9, SIZE)]),
        double((ARENA, 4 * SIZE), OUT),
    )
    program = Program("p", (stream,), (), (("op",) * 6,))
    model = Executable(artifact(program, program))
    (walked,) = model._launcher._processes.get().team._shared.loaded.streams
    assert len(walked) == 2 * (len(stream) - 2) + 1  # a barrier less in each program
    for _ in range(3):
        assert np.array_equal(model(X)[0], X * 64)


def test_loops_in_loops():
    """Nine doublings: a loop of three inside of a loop of three."""
    body = [double((ARENA, 0), (ARENA, SIZE))]
    inner = ("repeat", 3, 10, [(7, SIZE), (9, SIZE)])
    outer = ("repeat", 3, 19, [(7, 3 * SIZE), (9, 3 * SIZE)])
    stream = sm.stream_of(
        double(IN, (ARENA, 0)), *body, inner, outer, double((ARENA, 9 * SIZE), OUT)
    )
    program = Program("p", (stream,), (), (("op",) * 11,))
    whole = dataclasses.replace(artifact(), arena_bytes=10 * SIZE, programs=(program,))
    for _ in range(2):
        model = Executable(whole, timed=True)
        assert np.array_equal(model(X)[0], X * 2**11)
        assert len(model.times()["operator"]) == 11


def test_times_name_each_iteration():
    model = Executable(artifact(ping_pong()), 2, timed=True)
    model(X)
    times = model.times()
    rows = sorted(zip(times["start_ns"], times["operator"], strict=True))
    turns = [name for i in range(TURNS) for name in (f"odd{i}", f"even{i}")]
    assert [name for _, name in rows] == ["first", *turns, "last"]


def test_a_hang_names_the_iteration():
    """EU 1 forgets its last turn."""
    program = ping_pong()
    short = program.streams[1].copy()
    short[16] = TURNS - 1
    broken = dataclasses.replace(
        program,
        streams=(program.streams[0], short),
        operators=(program.operators[0], program.operators[1][:-1]),
    )
    model = Executable(artifact(program), 2, wait_limit_s=0.3)
    team = model._launcher._processes.get().team
    assert np.array_equal(model(X)[0], X * 2 ** (2 * TURNS + 2))
    team._shared.loaded.streams[1][:] = broken.streams[1]
    for _ in range(2):
        with pytest.raises(DeviceError) as caught:
            model(X)
        message = str(caught.value)
        assert (
            "EU 0 at word 12, iteration 2 (after operator 'even1', before operator 'even2')"
            in message
        )
        assert "event 'p: value5', which came 0 times" in message
        team._shared.loaded.streams[1][:] = broken.streams[1]
    team._shared.reset()
    assert np.array_equal(model(X)[0], X * 2 ** (2 * TURNS + 2))


BODY = [double((ARENA, 0), (ARENA, SIZE)), ("wait", 0, 1), ("signal", 0)]  # 10 + 3 + 2 words


def check(*steps: tuple, runs: int = 3) -> None:
    program = Program("p", (sm.stream_of(*steps),), ("a", "b", "c"), (("op",) * runs,))
    sm.artifact([program], arena_bytes=4 * SIZE).check()


def test_a_loop_that_may_be():
    check(*BODY, ("repeat", 3, 15, [(7, SIZE), (9, SIZE), (11, 1), (14, 1)]))
    check(*BODY, ("repeat", 3, 15, [(12, 1)]))  # the n-th time for n signals


@pytest.mark.parametrize(
    ("repeat", "message"),
    [
        ((3, 0, []), "no instruction 0 words"),
        ((3, 14, []), "no instruction 14 words"),
        ((3, 16, []), "no instruction 16 words"),
        ((3, -1, []), "no instruction -1 words"),
        ((0, 15, []), "0 times"),
        ((1, 15, []), "1 times"),
        ((-3, 15, []), "-3 times"),
        ((1 << 22, 15, []), "4194304 times"),
        ((1 << 62, 15, []), "times"),
        ((3, 15, [(0, 1)]), "adds 1 to word 0"),  # an opcode
        ((3, 15, [(1, 1)]), "adds 1 to word 1"),  # a kernel
        ((3, 15, [(3, 1)]), "adds 1 to word 3"),  # a number of tasks
        ((3, 15, [(6, 1)]), "adds 1 to word 6"),  # a base
        ((3, 15, [(15, 1)]), "adds 1 to word 15"),
        ((3, 15, [(-1, 1)]), "adds 1 to word -1"),
        ((3, 15, [(9, 64), (7, 64)]), "adds 64 to word 7"),
        ((3, 15, [(7, 64), (7, 64)]), "adds 64 to word 7"),
        ((3, 15, [(7, 1 << 60)]), "to word 7"),
        ((3, 15, [(9, 2 * SIZE)]), "word 0: operand 1 leaves base 0"),
        ((3, 15, [(9, -SIZE)]), "word 0: operand 1 leaves base 0"),
        ((3, 15, [(9, 4)]), "word 0: operand 1 is not 64-byte aligned"),
        ((3, 15, [(9, 32)]), "word 0: operand 1 is not 64-byte aligned"),  # the last one is
        ((3, 15, [(2, 1)]), "word 0: tasks 2 "),
        ((3, 15, [(14, 2)]), "word 13: there is no event 4"),
        ((3, 15, [(14, -1)]), "word 13: there is no event -2"),
        ((3, 15, [(11, 1)]), "word 10: it waits for 1 signals of event 'b', which gets 0"),
        ((3, 15, [(12, 2)]), "word 10: it waits for 5 signals of event 'a', which gets 3"),
        ((3, 15, [(12, -1)]), "word 10: it waits for 0 signals"),
        ((2, 15, []), "the operator names do not match"),
    ],
)
def test_a_loop_that_may_not_be(repeat: tuple, message: str):
    with pytest.raises(ArtifactError, match=message):
        check(*BODY, ("repeat", *repeat))


def test_loops_do_not_cross_and_have_an_end():
    with pytest.raises(ArtifactError, match="no instruction 9 words"):
        # into the middle of the loop in front of it
        check(*BODY, ("repeat", 3, 5, []), ("signal", 0), ("repeat", 2, 9, []))
    many = [("repeat", 2, 15 + 5 * k, []) for k in range(9)]
    with pytest.raises(ArtifactError, match="2 times, 9 deep"):
        check(*BODY, *many)
    stream = sm.stream_of(*BODY, ("repeat", 3, 15, []))
    stream[18] = 1  # as a thread leaves it
    with pytest.raises(ArtifactError, match="from iteration 1"):
        sm.artifact([Program("p", (stream,), ("a",), (("op",) * 3,))]).check()


small = st.integers(-2, 30)


@settings(max_examples=300)
@given(st.integers(0, 5), st.integers(-1, 40), st.lists(st.tuples(small, small), max_size=4), small)
def test_any_loop_is_refused_or_means_what_it_says(count, words, steps, at):
    """What passes the check passes it written out, too, and the other way round where it is one."""
    steps = [(word, 16 * step) for word, step in sorted(dict(steps).items())]
    stream = sm.stream_of(*BODY, *BODY, ("repeat", count, words, steps))
    stream[at % (len(stream) - 1)] += at % 3 * 64
    try:
        plain = written_out(stream)
    except ArtifactError:
        return
    runs = sum(code == tables.RUN for _, code, _ in instructions(stream))
    verdicts = []
    for words_of in (stream, plain):
        program = Program("p", (words_of,), ("a", "b", "c"), (("op",) * runs,))
        try:
            sm.artifact([program], arena_bytes=4 * SIZE).check()
            verdicts.append(True)
        except ArtifactError:
            verdicts.append(False)
    assert verdicts[0] == verdicts[1]


def test_what_the_scheduler_writes_is_what_the_runtime_reads():
    """Neither may import the other, so both say what the words of a stream mean."""
    names = ("END", "RUN", "WAIT", "SIGNAL", "BARRIER", "REPEAT", "ARENA", "CONSTANTS", "EXTERNAL")
    assert [getattr(encode, n) for n in names] == [getattr(tables, n) for n in names]
    assert written.MAX_DEPTH <= read.MAX_DEPTH
