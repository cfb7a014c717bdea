"""Several instances of a model for many callers, and calls that are joined."""

import os
import threading

import numpy as np
import onnx.parser
import pytest

import rcompiler
from rcompiler.batching import Batching, Rows
from rcompiler.device.cgroups import usable_cpus
from rcompiler.errors import BusyError, CompilerError, DeviceError, RangeError, ShapeError

PATIENCE_S = 120.0
ROWS = 8


def model_of(text, **options):
    given = {"eus": 2, "device": "default", **options}
    header = '<ir_version: 8, opset_import: ["": 17]>'
    return rcompiler.compile_onnx(onnx.parser.parse_model(header + text), **given)


def network(**options):
    text = """
      g (float[batch, 4] x, int64[batch] where) => (float[batch, 4] y, int64[batch, 1] best)
      <float[5, 4] table = {1,2,3,4, 2,3,4,5, 3,4,5,6, 4,5,6,7, 5,6,7,8}> {
        rows = Gather(table, where)
        y = Add(x, rows)
        best = ArgMax<axis = 1>(y)
      }
    """
    given = {"shapes": {"batch": range(1, ROWS + 1)}, "buckets": {"batch": (1, ROWS)}}
    return model_of(text, **{**given, **options})


@pytest.fixture(scope="module")
def model():
    with network() as made:
        yield made


def feeds(seed, rows=1):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, 4)).astype(np.float32), rng.integers(0, 5, rows)


def bits(results):
    return [each.tobytes() for each in results]


def called(pool, each, *, name=""):
    """The results, or the errors, of calls from a thread each."""
    found = [None] * len(each)

    def call(number):
        try:
            found[number] = pool(*each[number])
        except CompilerError as error:
            found[number] = error

    threads = [
        threading.Thread(target=call, args=(n,), name=f"{name}{n}") for n in range(len(each))
    ]
    for thread in threads:
        thread.start()
    return threads, found


def joined(threads):
    for thread in threads:
        thread.join()


def until(condition):
    tick = threading.Event()
    while not condition():
        tick.wait(0.001)


def test_many_threads_get_their_own_answers(model):
    given = [feeds(seed, 1 + seed % ROWS) for seed in range(24)]
    wanted = [bits(model(*each)) for each in given]
    with rcompiler.Pool(model, 2, eus=1) as pool:
        threads, found = called(pool, given)
        joined(threads)
        assert [bits(each) for each in found] == wanted
        assert found[0]["best"].shape == (1, 1)
        assert len({id(each.artifact.constants) for each in pool.instances}) == 1
        assert len({id(each.largest._arena) for each in pool.instances}) == 2
        assert pool.eus == 1 and pool.inputs == model.inputs and "Pool of 2" in repr(pool)
        assert pool.report().operators
    with pytest.raises(DeviceError, match="pool is closed"):
        pool(*given[0])
    pool.close()
    assert bits(model(*given[0])) == wanted[0]  # the model is not the pool's


def test_one_waits_for_an_instance_and_is_told_whom_for(model):
    with rcompiler.Pool(model, 1, wait_s=0.0) as pool:
        with pool.instance() as own, pytest.raises(BusyError, match=r"threads 'MainThread' for"):
            own(*feeds(1))
            pool(*feeds(1))
        pool(*feeds(1))


def test_memory_is_bound_to_an_instance(model):
    with rcompiler.Pool(model, 1) as pool, pool.instance() as own:
        binding = own.program(batch=1).bind()
        x, where = feeds(3)
        binding.inputs[0][...], binding.inputs[1][...] = x, where
        binding()
        assert binding.outputs[0].tobytes() == model(x, where)[0].tobytes()


def test_threads_are_bound_to_cpus_of_their_own(model):
    there = sorted(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    with rcompiler.Pool(model, 1, eus=1, pin=True) as pool:
        assert pool.cpus == ((there[0],),)
        with pool.instance():
            assert os.sched_getaffinity(0) == {there[0]}
        assert os.sched_getaffinity(0) == before
    with rcompiler.Pool(model, 1, eus=1, pin=False) as pool:
        assert pool.cpus is None
    with pytest.raises(DeviceError, match=r"pin=True: 999 instances of 1 threads need 999 CPUs"):
        rcompiler.Pool(model, 999, eus=1, pin=True)
    if usable_cpus() > 1:
        with rcompiler.Pool(model, 1, eus=2) as pool:
            assert pool.cpus == (tuple(there[:2]),)
            assert bits(pool(*feeds(1, 8))) == bits(model(*feeds(1, 8)))


def test_a_forked_child_calls_the_pool(model):
    with rcompiler.Pool(model, 1, eus=1, batching=Batching(latency_us=0)) as pool:
        wanted = bits(pool(*feeds(1)))
        with pool.instance():
            child = os.fork()
            if not child:
                os._exit(0 if bits(pool(*feeds(1))) == wanted else 1)
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"instances": 0}, "instances=0: give a whole number from 1 to 1024"),
        ({"instances": 1, "eus": True}, "eus=True"),
        ({"instances": 1, "wait_s": -1}, "wait_s=-1"),
        ({"instances": 1, "pin": "yes"}, "pin='yes'"),
        ({"instances": 1, "most_waiting": -1}, "most_waiting=-1"),
        ({"instances": 1, "batching": Batching(most=9)}, "largest program of the model takes 8"),
    ],
)
def test_options_are_checked(model, options, said):
    with pytest.raises(CompilerError, match=said):
        rcompiler.Pool(model, **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"most": 0}, "most=0"),
        ({"latency_us": -1}, "latency_us=-1"),
        ({"independent": 1}, "independent=1"),
    ],
)
def test_how_calls_are_joined_is_checked(options, said):
    with pytest.raises(CompilerError, match=said):
        Batching(**options)


def test_what_a_pool_is_not_of():
    with pytest.raises(CompilerError, match="not of a dict"):
        rcompiler.Pool({}, 1)
    text = "g (float[1] x, float[1] s) => (float[1] y, float[1] t) { y = Add(x, s) t = Neg(y) }"
    with model_of(text, state={"s": "t"}) as kept:
        with pytest.raises(CompilerError, match=r"has a state \(s\)"):
            rcompiler.Pool(kept, 1)
    kept = model_of("g (float[1] x) => (float[1] y) { y = Neg(x) }")
    kept.close()
    with pytest.raises(DeviceError, match="closed"):
        rcompiler.Pool(kept, 1)


# -- batching --------------------------------------------------------------------------------------
class Counted:
    """Counts the rows of the calls of an instance."""

    def __init__(self, monkeypatch):
        self.rows = []
        plain = Rows.run

        def run(rows, model, group):
            self.rows.append([each.rows for each in group])
            plain(rows, model, group)

        monkeypatch.setattr(Rows, "run", run)


def held_up(pool, count):
    """Until so many requests wait, one of which leads and waits for an instance."""
    waiting = pool._batcher._waiting.get()
    until(lambda: len(waiting.requests) == count)


def test_calls_that_wait_are_joined(model, monkeypatch):
    given = [feeds(seed) for seed in range(12)]
    wanted = [bits(model(*each)) for each in given]
    counted = Counted(monkeypatch)
    with rcompiler.Pool(model, 1, batching=Batching(most=8, latency_us=0)) as pool:
        with pool.instance():
            threads, found = called(pool, given)
            held_up(pool, 12)
        joined(threads)
    assert [bits(each) for each in found] == wanted
    assert sorted(map(sum, counted.rows)) == [4, 8]
    assert all(each["y"].ctypes.data % 64 == 0 and each["y"].flags.owndata is False
               for each in found if each["y"].base is not None)  # fmt: skip


def test_a_call_waits_for_others_as_long_as_it_may(model, monkeypatch):
    """The time is never over: what ends the wait is that the batch is full."""
    given = [feeds(seed) for seed in range(4)]
    wanted = [bits(model(*each)) for each in given]
    counted = Counted(monkeypatch)
    with rcompiler.Pool(model, 2, batching=Batching(most=2, latency_us=6e7)) as pool:
        threads, found = called(pool, given)
        joined(threads)
    assert [bits(each) for each in found] == wanted
    assert counted.rows == [[1, 1], [1, 1]]


def test_a_clock_ends_the_wait(model, monkeypatch):
    counted, now = Counted(monkeypatch), [0.0]
    with rcompiler.Pool(model, 1, batching=Batching(latency_us=1000)) as pool:
        pool._batcher._clock = lambda: now.append(now[-1] + 0.0011) or now[-1]
        assert bits(pool(*feeds(1))) == bits(model(*feeds(1)))
    assert counted.rows == [[1]]


def test_errors_of_one_call_are_its_own(model):
    x, where = feeds(1)
    given = [
        (x, where),
        (x, where + 9),  # leads out of the table
        (x[:, :3], where),
        (x.astype(np.float64), where),
        (np.concatenate([x, x]), where),
        (x, where),
    ]
    with rcompiler.Pool(model, 1, batching=Batching(latency_us=0)) as pool:
        with pool.instance():
            threads, found = called(pool, given)
            held_up(pool, 2)
        joined(threads)
    kinds = [type(each) for each in found]
    assert kinds[1:5] == [RangeError, ShapeError, ShapeError, ShapeError]
    assert bits(found[0]) == bits(found[5]) == bits(model(x, where))


def test_an_index_that_the_model_computes_is_an_error_of_its_call():
    text = """
      g (int64[batch] n) => (float[batch] y)
      <float[4] table = {1, 2, 3, 4}, int64[1] two = {2}> {
        m = Mul(n, two)
        y = Gather(table, m)
      }
    """
    with model_of(text, shapes={"batch": range(1, 9)}) as model:
        with rcompiler.Pool(model, 1, batching=Batching(latency_us=0)) as pool:
            with pool.instance():
                threads, found = called(pool, [(np.array([n]),) for n in (0, 1, 7, 1)])
                held_up(pool, 4)
            joined(threads)
    assert isinstance(found[2], RangeError)
    assert [found[n][0].tolist() for n in (0, 1, 3)] == [[1.0], [3.0], [3.0]]


def test_only_calls_of_one_shape_are_joined(monkeypatch):
    text = """
      g (float[batch, seq] x) => (float[batch, seq] y) { y = Softmax(x) }
    """
    shapes = {"batch": range(1, 5), "seq": range(1, 9)}
    counted = Counted(monkeypatch)
    with model_of(text, shapes=shapes, buckets={"batch": (4,), "seq": (8,)}) as model:
        assert not hasattr(model, "family")  # one program, whose sizes are known at run time
        given = [(np.ones((1, n), np.float32),) for n in (3, 5, 3, 5, 3)]
        wanted = [bits(model(*each)) for each in given]
        with rcompiler.Pool(model, 1, batching=Batching(most=4, latency_us=0)) as pool:
            with pool.instance():
                threads, found = called(pool, given)
                held_up(pool, 5)
            joined(threads)
    assert [bits(each) for each in found] == wanted
    assert sorted(counted.rows) == [[1, 1], [1, 1, 1]]


def test_of_sizes_that_are_named_so_many_are_joined(monkeypatch):
    counted = Counted(monkeypatch)
    sizes = {"shapes": {"batch": (1, 2, 4)}, "buckets": None}
    with network(**sizes) as model:
        given = [feeds(seed) for seed in range(7)]
        wanted = [bits(model(*each)) for each in given]
        with rcompiler.Pool(model, 1, batching=Batching(most=4, latency_us=0)) as pool:
            with pool.instance():
                threads, found = called(pool, given)
                held_up(pool, 7)
            joined(threads)
        assert [bits(each) for each in found] == wanted
        assert sorted(map(len, counted.rows)) == [1, 2, 4]


def test_a_call_with_more_rows_than_are_joined_runs_alone(model, monkeypatch):
    counted = Counted(monkeypatch)
    with rcompiler.Pool(model, 1, batching=Batching(most=4, latency_us=0)) as pool:
        assert bits(pool(*feeds(1, 8))) == bits(model(*feeds(1, 8)))
    assert counted.rows == [[8]]


def test_a_call_that_was_not_begun_is_told_so(model):
    with rcompiler.Pool(model, 1, wait_s=0.0, batching=Batching(latency_us=0)) as pool:
        with pool.instance():
            threads, found = called(pool, [feeds(1), feeds(2)])
            joined(threads)
        assert {type(each) for each in found} == {BusyError}
        assert bits(pool(*feeds(1))) == bits(model(*feeds(1)))


def test_a_call_leaves_the_line_when_its_time_is_over(model):
    with rcompiler.Pool(model, 1, batching=Batching(latency_us=0)) as pool:
        batcher = pool._batcher
        with pool.instance():
            threads, found = called(pool, [feeds(1)])
            held_up(pool, 1)
            batcher._wait_s = 0.0
            with pytest.raises(BusyError, match="not begun for 0 s: 1 calls wait before it"):
                pool(*feeds(2))
        joined(threads)
        assert bits(found[0]) == bits(model(*feeds(1)))


def test_so_many_calls_may_wait(model):
    batching = Batching(latency_us=0)
    with rcompiler.Pool(model, 1, batching=batching, most_waiting=1) as pool:
        with pool.instance():
            threads, found = called(pool, [feeds(1), feeds(2)])
            held_up(pool, 2)
            with pytest.raises(BusyError, match="1 calls wait already, which is the most"):
                pool(*feeds(3))
        joined(threads)
        assert [bits(each) for each in found] == [bits(model(*feeds(n))) for n in (1, 2)]


def test_an_interrupt_of_who_leads_hurts_nobody_else(model, monkeypatch):
    given = [feeds(seed) for seed in range(3)]
    wanted = [bits(model(*each)) for each in given]
    plain, raised = Rows.run, []

    def run(rows, model, group):
        if not raised:
            raised.append(len(group))
            raise KeyboardInterrupt
        plain(rows, model, group)

    monkeypatch.setattr(Rows, "run", run)
    monkeypatch.setattr(threading, "excepthook", lambda *_: None)
    with rcompiler.Pool(model, 1, batching=Batching(latency_us=0)) as pool:
        with pool.instance():
            threads, found = called(pool, given)
            held_up(pool, 3)
        joined(threads)
    assert raised == [3]
    assert sum(each is None for each in found) == 1  # whose thread was interrupted
    assert all(bits(each) == right for each, right in zip(found, wanted, strict=True) if each)


def test_a_closed_pool_refuses_who_waits(model):
    pool = rcompiler.Pool(model, 1, batching=Batching(latency_us=0))
    with pool.instance():
        threads, found = called(pool, [feeds(1), feeds(2)])
        held_up(pool, 2)
        pool._line.close()
        joined(threads)
    pool.close()
    assert {type(each) for each in found} == {DeviceError}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("g (float[batch, 4] x) => (float[batch, 4] y) { y = Softmax<axis=0>(x) }", "depend on"),
        ("g (float[4, batch] x) => (float[4, batch] y) { y = Neg(x) }", r"'x' \[4, batch\]"),
        ("g (float[batch, 4] x) => (float[4, batch] y) { y = Transpose(x) }", r"'y' \[4, batch\]"),
        (
            "g (float[batch, 4] x, float[4] b) => (float[batch, 4] y) { y = Add(x, b) }",
            r"'x' \[batch, 4\], 'b' \[4\]",
        ),
    ],
)
def test_models_whose_calls_cannot_be_joined(text, said):
    with model_of(text, shapes={"batch": range(1, 5)}, buckets={"batch": (2, 4)}) as model:
        with pytest.raises(CompilerError, match=said):
            rcompiler.Pool(model, 1, batching=Batching(most=4))


def test_the_word_of_the_caller_is_taken():
    text = "g (float[batch, 4] x) => (float[batch, 4] y) { y = Softmax<axis=0>(x) }"
    with model_of(text, shapes={"batch": range(1, 5)}) as model:
        with rcompiler.Pool(model, 1, batching=Batching(4, independent=True)) as pool:
            assert pool(np.ones((1, 4), np.float32))[0].tolist() == [[1.0] * 4]


def test_a_model_that_grows(model):
    with network(build="largest") as growing:
        with rcompiler.Pool(growing, 2, eus=1, batching=Batching(latency_us=0)) as pool:
            growing.close()
            first = pool.instances[0]
            assert bits(pool(*feeds(1))) == bits(model(*feeds(1)))
            first.wait(PATIENCE_S)
            assert [len(each.programs) for each in pool.instances] == [2, 2]
            assert bits(pool(*feeds(1))) == bits(model(*feeds(1)))
