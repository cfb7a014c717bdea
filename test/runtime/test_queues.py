"""Dynamic programs: their queues taken by any number of threads, launch after launch."""

import dataclasses

import numpy as np
import pytest
import small_models as sm
from recrafted import rewrite

from rcompiler.errors import ArtifactError, DeviceError
from rcompiler.runtime import tables
from rcompiler.runtime.artifact import Artifact, Program
from rcompiler.runtime.executable import Executable
from rcompiler.runtime.program import MAX_EUS
from rcompiler.runtime.tables import ARENA, CONSTANTS, EXTERNAL
from rcompiler.runtime.thread_schedule import combine

X = np.linspace(-3, 3, sm.N, dtype=np.float32)
RUN = ("run", sm.TWICE, 0, sm.N, 1, [(EXTERNAL, 0), (EXTERNAL + 1, 0)])
LIMIT = 0.3


@pytest.mark.parametrize("eus", [1, 2, 3])
@pytest.mark.parametrize("shares", [1, 3, 16])
def test_any_number_of_threads_takes_all_queues(shares: int, eus: int):
    model = Executable(sm.artifact([sm.taken_steps(shares, 3)]), eus)
    assert model.eus == eus
    for launch in range(200):
        x = X + launch
        assert np.array_equal(model(x)[0], sm.expected(x))


@pytest.mark.parametrize("eus", [1, 2])
def test_dynamic_and_static_programs_follow_each_other(eus: int):
    kinds = [sm.taken_steps(4, 2, "a"), sm.two_steps(2, name="b"), sm.taken_steps(2, 2, "c")]
    for programs in (kinds, kinds[::-1], [kinds[0], kinds[2]]):
        model = Executable(sm.artifact(programs), eus)
        for _ in range(50):
            assert np.array_equal(model(X)[0], sm.expected(X))


def test_queues_without_instructions_and_more_threads_than_queues():
    program = sm.taken_steps(2, 8)
    streams = (*program.streams[:2], sm.stream_of(), *program.streams[2:], sm.stream_of())
    names = (*program.operators[:2], (), *program.operators[2:], ())
    program = dataclasses.replace(program, streams=streams, operators=names)
    for eus in (2, 4, 8):
        model = Executable(sm.artifact([program]), eus)
        for _ in range(50):
            assert np.array_equal(model(X)[0], sm.expected(X))


def test_one_block_of_words_for_all_threads():
    schedule = combine([sm.taken_steps(2, 2, "a"), sm.taken_steps(1, 2, "b")], 2)
    assert schedule.events == ["a: scaled", "a: queues taken", "b: scaled", "b: queues taken"]
    assert schedule.totals == [2, 4 + 2, 1, 2 + 2]
    own = [[op for _, op, _ in tables.instructions(s)] for s in schedule.streams]
    assert own == [[tables.TAKE, tables.BARRIER, tables.TAKE, tables.END]] * 2
    assert [(q.event, q.queue) for q in schedule.queues] == [
        (1, 0), (1, 1), (1, 2), (1, 3), (3, 0), (3, 1)
    ]  # fmt: skip
    block = schedule.queues[0].stream.base
    for thread in schedule.threads:
        for _, op, operands in tables.instructions(thread.stream):
            if op != tables.TAKE:
                continue
            table = thread.start + operands[2]  # counted from the start of the stream
            mine = [q for q in schedule.queues if q.event == operands[0]]
            assert operands[1] == len(mine)
            for number, queue in enumerate(mine):
                assert table + block[table + number] == queue.start
                assert schedule.find(0, queue.start - schedule.threads[0].start) == (queue, 0)
    waits = [a[0] for q in schedule.queues for _, op, a in tables.instructions(q.stream)
             if op == tables.WAIT]  # fmt: skip
    assert waits == [0, 0, 2]  # events of the second program come after those of the first


def looped_steps(name: str) -> Program:
    """`sm.two_steps` for two EUs, with a loop over four parts of each share that is scaled."""
    half, part = sm.N // 2, sm.N // 8
    streams = []
    for first, other in ((0, half), (half, 0)):
        scale = (sm.SCALE, first, part, 1, [(EXTERNAL, 0), (CONSTANTS, 0), (ARENA, 0)])
        double = (sm.TWICE, other, half, 1, [(ARENA, 0), (EXTERNAL + 1, 0)])
        loop = ("repeat", 4, 12, [(2, part)])
        steps = [("run", *scale), loop, ("signal", 0), ("wait", 0, 2), ("run", *double)]
        streams.append(sm.stream_of(*steps))
    return Program(name, tuple(streams), ("scaled",), (("mul",) * 4 + ("add",),) * 2)


@pytest.mark.parametrize("eus", [1, 2])
def test_queues_beside_loops(eus: int):
    """Threads count in a copy of all words: the queues are found there, and times are told apart,
    those of a loop by their order and those of a queue by their place."""
    kinds = [looped_steps("a"), sm.taken_steps(4, 2, "b"), looped_steps("c")]
    for programs in (kinds, kinds[1:], kinds[:2]):
        model = Executable(sm.artifact(programs), eus, timed=True)
        shared = model._launcher._processes.get().team._shared
        built = model._launcher._processes.get().team._shared.loaded.schedule.words.copy()
        names = sorted(name for p in programs for row in p.operators for name in row)
        for _ in range(20):
            assert np.array_equal(model(X)[0], sm.expected(X))
            assert sorted(model.times()["operator"]) == names
            assert np.array_equal(shared.loaded._words, built)
        times = model.times()
        firsts = [0, 8, 16, 24, 32, 40, 48, 56] * sum(p.taken_by == 0 for p in programs)
        firsts += [0, 16, 32, 48] * sum(p.taken_by > 0 for p in programs)
        pairs = zip(times["operator"], times["first"], strict=True)
        assert sorted(first for name, first in pairs if name == "mul") == sorted(firsts)


def test_a_hang_in_a_queue_beside_loops_is_over_with_the_next_call():
    model = Executable(sm.artifact([looped_steps("a"), sm.taken_steps(2, 2, "b")]), 2,
                       wait_limit_s=LIMIT)  # fmt: skip
    team = model._launcher._processes.get().team
    queue = team._shared.loaded.stream(team._shared.loaded.schedule.queues[1])
    assert list(queue[-3:]) == [tables.SIGNAL, 1, tables.END]
    queue[-2] = 0  # the event of the other program
    with pytest.raises(DeviceError) as caught:
        model(X)
    assert "in queue 2 at word 0 (before operator 'add') waits for signal 2" in str(caught.value)
    assert np.array_equal(model(X)[0], sm.expected(X))


def test_times_say_who_ran_what():
    artifact = sm.artifact([sm.taken_steps(16, 2)])
    model, alone = Executable(artifact, 2, timed=True), Executable(artifact, 1, timed=True)
    names = sorted(("mul" if i < 16 else "add", 4 * (i % 16)) for i in range(32))
    for timed in (model, alone):
        for _ in range(10):
            assert np.array_equal(timed(X)[0], sm.expected(X))
            rows = list(zip(*timed.times().values(), strict=True))
            assert sorted(row[:2] for row in rows) == names
            assert {row[2] for row in rows} <= set(range(timed.eus))
            for eu in range(timed.eus):
                ends = [time for row in rows if row[2] == eu for time in row[3:]]
                assert ends == sorted(ends) and min(ends, default=0) >= 0
            first = max(row[4] for row in rows if row[0] == "mul")
            assert first <= min(row[3] for row in rows if row[0] == "add")


def test_a_hang_names_the_queue_and_its_operator():
    """A signal that a queue sends for another event than the one that is waited for."""
    program = dataclasses.replace(sm.taken_steps(2, 2), events=("scaled", "other"))
    model = Executable(sm.artifact([program]), 2, wait_limit_s=LIMIT)
    queues = model._launcher._processes.get().team._shared.loaded.schedule.queues
    [place] = [p for p, op, _ in tables.instructions(queues[1].stream) if op == tables.SIGNAL]
    queues[1].stream[place + 1] = 1
    for _ in range(2):
        with pytest.raises(DeviceError) as caught:
            model(X)
        message = str(caught.value)
        assert "in queue 2 at word 0 (before operator 'add')" in message
        assert "signal 2 of event 'main_0: scaled', which came 1 times (nobody" in message
    queues[1].stream[place + 1] = 0
    for _ in range(5):
        assert np.array_equal(model(X)[0], sm.expected(X))


def test_a_hang_names_who_was_to_signal():
    """All threads wait for a queue that nobody is left to take: files cannot say that."""
    half = sm.N // 2
    runs = [("run", sm.TWICE, first, half, 1, RUN[5]) for first in (0, half)]
    streams = [sm.stream_of(("signal", 0))]
    streams += [sm.stream_of(("wait", 0, 1), run) for run in runs]
    streams += [sm.stream_of(("wait", 0, 1), ("signal", 1))]
    names = ((), ("conv1",), ("conv2",), ())
    program = Program("p", tuple(streams), ("a", "b"), names, 2)
    model = Executable(sm.artifact([program]), 2, wait_limit_s=LIMIT)
    queues = model._launcher._processes.get().team._shared.loaded.schedule.queues
    queues[1].stream[1] = queues[2].stream[1] = 1  # event b, which the last queue signals
    with pytest.raises(DeviceError) as caught:
        model(X)
    message = str(caught.value)
    for queue, operator in ((1, "conv1"), (2, "conv2")):
        assert f"in queue {queue} at word 0 (before operator '{operator}') waits for" in message
    assert "event 'p: b', which came 0 times (still to come from queue 3 at word 3)" in message
    queues[1].stream[1] = queues[2].stream[1] = 0
    assert np.array_equal(model(X)[0], 2 * X)


# -- files ----------------------------------------------------------------------------------------
def test_files_say_what_they_need(tmp_path):
    static, dynamic = sm.artifact([sm.two_steps(2)]), sm.artifact([sm.taken_steps(4, 2)])
    for artifact in (static, dynamic):
        artifact.save(tmp_path / "m.rcx")
        data = (tmp_path / "m.rcx").read_bytes()
        assert (b"taken_by" in data) == (artifact is dynamic)
        again = Artifact.load(tmp_path / "m.rcx")
        assert again.certificate == artifact.certificate
        assert again.programs[0].taken_by == artifact.programs[0].taken_by
        again.save(tmp_path / "n.rcx")
        assert (tmp_path / "n.rcx").read_bytes() == data
        assert np.array_equal(Executable(again, 2)(X)[0], sm.expected(X))
    assert static.certificate != dynamic.certificate


@pytest.mark.parametrize("taken_by", [-1, MAX_EUS + 1, 1 << 40])
def test_impossible_numbers_of_takers(taken_by: int):
    program = dataclasses.replace(sm.taken_steps(4, 2), taken_by=taken_by)
    with pytest.raises(ArtifactError, match="no usable number of EUs"):
        sm.artifact([program]).check()


@pytest.mark.parametrize("taken_by", ["2", 2.5, True, None, [2], 1 << 80])
def test_takers_that_are_no_number(tmp_path, taken_by):
    path = tmp_path / "m.rcx"
    sm.artifact([sm.taken_steps(4, 2)]).save(path)
    rewrite(path, lambda header: header["programs"][0].update(taken_by=taken_by))
    with pytest.raises(ArtifactError):
        Artifact.load(path)


@pytest.mark.parametrize(
    ("streams", "message"),
    [
        ([[RUN, ("barrier",)]], "queue 0, word 10: EUs that take queues meet in no barrier"),
        ([[("wait", 0, 1), RUN], [("signal", 0)]],
         "queue 0, word 0: it waits for 1 signals of event 'a', of which 0 come before it"),
        ([[("signal", 0)], [("wait", 0, 2), RUN, ("signal", 0)]], "queue 1, word 0: .* 1 come"),
        ([[("wait", 0, 1), RUN]], "queue 0, word 0: .*which gets 0"),
        ([[("signal", 1)]], "queue 0, word 0: there is no event 1"),
        ([[("signal", 0)], [("signal", 0), ("repeat", 2, 2, [])]],
         "queue 1, word 0: a queue that any EU may take has no loops"),
        ([[("run", 9, 0, 1, 1, [])]], "queue 0, word 0: there is no kernel 9"),
    ],
)  # fmt: skip
def test_queues_that_could_not_be_taken_in_order(streams, message):
    names = tuple(tuple("op" for step in s if step[0] == "run") for s in streams)
    program = Program("p", tuple(sm.stream_of(*s) for s in streams), ("a",), names, 2)
    with pytest.raises(ArtifactError, match=message):
        sm.artifact([program]).check()


def test_files_do_not_take():
    words = np.array([tables.TAKE, 0, 1 << 50, -(1 << 50), tables.END])
    for taken_by in (0, 2):
        program = Program("p", (words,), ("a",), ((),), taken_by)
        with pytest.raises(ArtifactError, match="word 0: only the runtime takes queues"):
            sm.artifact([program]).check()
