"""Programs that are built while their model serves: who serves meanwhile, errors, and the end."""

import copy
import gc
import os
import pickle
import threading
import warnings

import numpy as np
import onnx.parser
import pytest

import rcompiler
from rcompiler.bucketed import BucketedModel
from rcompiler.driver import isolate
from rcompiler.driver.growth import Growth, needed_first
from rcompiler.errors import (
    CompilerError,
    DeviceError,
    FailedBuildWarning,
    ShapeError,
    UnsupportedOp,
)
from rcompiler.growing_model import GrowingModel
from rcompiler.runtime import memory
from rcompiler.runtime.family import Family
from rcompiler.runtime.growing_block import GrowingBlock
from rcompiler.tools import rc_compile

BUCKETS = (2, 4, 8)
PATIENCE_S = 120.0  # of a test that has failed


def network():
    """With weights of 32 KB, of which a file keeps the source."""
    model = onnx.parser.parse_model("""
      <ir_version: 8, opset_import: ["": 17]>
      g (float[batch, 64] x) => (float[batch, 128] y) {
        a = MatMul(x, w)
        y = Relu(a)
      }
    """)
    w = np.random.default_rng(1).standard_normal((64, 128)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    return model


def compiled(**options):
    given = {"shapes": {"batch": range(1, 9)}, "buckets": {"batch": BUCKETS}, "eus": 2}
    return rcompiler.compile_onnx(network(), **{**given, "device": "default", **options})


def rows(count):
    return np.random.default_rng(count).standard_normal((count, 64)).astype(np.float32)


def states(model):
    return [build.state for build in model.builds]


@pytest.fixture(scope="module")
def whole():
    with compiled() as made:
        yield made


class Slow:
    """A builder that has the programs, and gives one away when the test lets it."""

    def __init__(self, programs, refused=()):
        self.programs, self.refused = programs, dict(refused)
        self.asked, self.let, self.stopped = threading.Event(), threading.Semaphore(0), False
        self.built = []

    def build(self, number):
        self.asked.set()
        assert self.let.acquire(timeout=PATIENCE_S)
        if self.stopped:
            raise CompilerError("it was ended")
        self.built.append(number)
        if number in self.refused:
            raise self.refused[number]
        return self.programs[number]

    def stop(self):
        self.stopped = True
        self.let.release()

    def forget(self):
        pass


@pytest.fixture
def growing(whole):
    """Makes a model with the largest program, and its builder."""
    made = []

    def make(**refused):
        family = whole.family
        first = Family(family.symbols, family.axes, family.sizes[-1:], family.programs[-1:])
        builder = Slow(family.programs, {int(name[1:]): e for name, e in refused.items()})
        made.append(GrowingModel(Growth(first, family.sizes, builder), 2))
        return made[-1], builder

    yield make
    for model in made:
        model.close()


def test_the_larger_one_serves_until_the_program_is_there(growing, whole):
    model, builder = growing()
    assert states(model) == ["not asked for", "not asked for", "built"]
    before = model(rows(3))[0].tobytes()
    assert builder.asked.wait(PATIENCE_S)
    assert states(model) == ["not asked for", "building", "built"]
    assert model.program(batch=3).inputs[0].shape == (8, 64)
    model(rows(1))
    assert states(model) == ["waiting", "building", "built"]
    assert [build.state for build in model.wait(0.0)] == ["waiting", "building", "built"]
    builder.let.release(2)
    assert [build.state for build in model.wait(PATIENCE_S)] == ["built"] * 3
    assert builder.built == [1, 0]
    assert model.program(batch=3).inputs[0].shape == (4, 64)
    assert model.program(batch=1).inputs[0].shape == (2, 64)
    assert model(rows(3))[0].tobytes() == before == whole(rows(3))[0].tobytes()
    blocks = {id(program.constants) for program in model.family.programs}
    assert len(blocks) == 1
    assert builder.stopped  # nothing is left to be built


def test_what_is_being_built_is_not_built_again(growing):
    model, builder = growing()
    model(rows(3))
    assert builder.asked.wait(PATIENCE_S)
    model(rows(4))  # other rows, and the same program
    builder.let.release(2)
    assert states(model)[0] == "not asked for" and model.wait(PATIENCE_S)[1].state == "built"
    assert builder.built == [1]


def test_threads_call_while_programs_are_swapped_in(growing, whole):
    model, builder = growing()
    wanted = {count: whole(rows(count))[0].tobytes() for count in range(1, 9)}
    wrong, go_on = [], threading.Event()

    def call():
        while not go_on.is_set():
            for count, right in wanted.items():
                if model(rows(count))[0].tobytes() != right:
                    wrong.append(count)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for each in threads:
        each.start()
    builder.let.release(2)
    assert builder.asked.wait(PATIENCE_S)
    model.build()
    assert [build.state for build in model.wait(PATIENCE_S)] == ["built"] * 3
    for count, right in wanted.items():
        assert model(rows(count))[0].tobytes() == right
    go_on.set()
    for each in threads:
        each.join()
    assert not wrong


def test_an_error_is_kept_and_calls_go_on(growing):
    model, builder = growing(_0=UnsupportedOp("no such thing"), _1=KeyError("what"))
    builder.let.release(2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model(rows(1))
        model(rows(3))
        first, second, third = model.wait(PATIENCE_S)
    assert [w.category for w in caught] == [FailedBuildWarning] * 2
    assert "batch from 1 to 2 was not built, a larger one serves: no such" in str(caught[0].message)
    assert (first.state, second.state, third.state) == ("failed", "failed", "built")
    assert isinstance(first.error, UnsupportedOp) and "KeyError" in str(second.error)
    assert "batch: 1 to 2: failed: no such thing" in model.report().note
    model(rows(2))
    assert builder.built == [0, 1]  # nobody tries it again
    builder.refused.clear()
    builder.let.release()
    model.build(batch=1)  # but for who asks for it
    assert [build.state for build in model.wait(PATIENCE_S)] == ["built", "failed", "built"]


def test_where_warnings_are_errors_the_next_one_is_built(growing):
    model, builder = growing(_0=UnsupportedOp("no such thing"))
    builder.let.release(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(rows(1))
        model(rows(3))
        assert [b.state for b in model.wait(PATIENCE_S)] == ["failed", "built", "built"]


def test_closing_ends_a_build(growing):
    model, builder = growing()
    model(rows(3))
    assert builder.asked.wait(PATIENCE_S)
    model.close()
    assert builder.stopped and [b.state for b in model.wait(PATIENCE_S)][2] == "built"
    assert model.builds[1].state != "failed"
    with pytest.raises(DeviceError, match="closed"):
        model(rows(3))
    with pytest.raises(DeviceError, match="closed"):
        model.build()
    model.close()


def test_who_is_collected_builds_no_more(growing, whole):
    family = whole.family
    first = Family(family.symbols, family.axes, family.sizes[-1:], family.programs[-1:])
    builder = Slow(family.programs)
    model = GrowingModel(Growth(first, family.sizes, builder), 2)
    model(rows(3))
    del model
    gc.collect()
    assert builder.stopped


def test_copies_get_the_same_programs(growing, whole):
    model, builder = growing()
    with copy.copy(model) as other:
        builder.let.release(2)
        other(rows(3))
        model.wait(PATIENCE_S)
        assert model.program(batch=3).inputs[0].shape == (4, 64)
        assert other.program(batch=3).inputs[0].shape == (4, 64)
        model.close()
        assert not builder.stopped
        other(rows(1))
        other.wait(PATIENCE_S)
        assert other(rows(1))[0].tobytes() == whole(rows(1))[0].tobytes()


def test_what_is_saved_or_pickled_has_what_is_there(growing, whole, tmp_path):
    model, builder = growing()
    builder.let.release()
    model(rows(3))
    model.wait(PATIENCE_S)
    model.save(tmp_path / "m.rcx")
    for other in (rcompiler.load(tmp_path / "m.rcx"), pickle.loads(pickle.dumps(model))):
        with other:
            assert type(other) is BucketedModel and len(other.programs) == 2
            assert other(rows(1))[0].tobytes() == whole(rows(1))[0].tobytes()


def test_a_forked_child_begins_anew(growing, whole):
    model, builder = growing()
    model(rows(3))
    assert builder.asked.wait(PATIENCE_S)
    child = os.fork()
    if not child:
        builder.let.release(3)
        model(rows(1))
        done = [build.state for build in model.wait(PATIENCE_S)]
        right = model(rows(3))[0].tobytes() == whole(rows(3))[0].tobytes()
        os._exit(0 if right and done == ["built"] * 3 else 1)
    assert os.waitpid(child, 0)[1] == 0
    builder.let.release(3)
    assert model.wait(PATIENCE_S)[1].state == "built"


def test_a_worker_builds_what_is_asked_for(whole, tmp_path):
    with compiled(build="largest") as model:
        assert states(model) == ["not asked for", "not asked for", "built"]
        assert model(rows(3))[0].tobytes() == whole(rows(3))[0].tobytes()
        model.wait(PATIENCE_S)
        assert states(model) == ["not asked for", "built", "built"]
        assert model.builds[1].added_bytes == 0  # its weights are those of the largest
        stages = [each.program(batch=3).stage("vdevice") for each in (model, whole)]
        assert stages[0] == stages[1]
        # as if the layouts differed: nothing of the next one is known to be there
        builder = model._growth._builder
        builder._known = {}
        model.build(batch=1)
        model.wait(PATIENCE_S)
        assert states(model) == ["built"] * 3 and model.builds[0].added_bytes >= 64 * 128 * 4
        assert "batch: 1 to 2: adds " in model.report().note
        assert builder._file.closed
        model.save(tmp_path / "m.rcx")
        with rcompiler.load(tmp_path / "m.rcx", full=True) as loaded:
            for count in range(1, 9):
                right = whole(rows(count))[0].tobytes()
                assert right == model(rows(count))[0].tobytes() == loaded(rows(count))[0].tobytes()


def test_a_worker_that_ends_is_an_error_of_the_build():
    with compiled(build="largest") as model:
        builder = model._growth._builder
        builder._file.truncate(100)
        with pytest.warns(FailedBuildWarning, match="process that compiled the program ended"):
            model(rows(3))
            build = model.wait(PATIENCE_S)[1]
        assert build.state == "failed" and "UnpicklingError" in str(build.error)
        assert model(rows(3))[0].shape == (3, 128)
        assert not builder._file.closed
    assert builder._file.closed


def test_only_what_no_other_bucket_holds_is_needed_first():
    ranges = [[(1, 4), (1, 8)], [(1, 8), (1, 4)], [(1, 8), (1, 8)], [(1, 4), (1, 4)]]
    assert needed_first(ranges) == [2]
    assert needed_first([[(1, 1)], [(4, 4)]]) == [0, 1]
    assert needed_first([[(2, 2), (1, 4)], [(2, 2), (1, 8)], [(3, 3), (1, 8)]]) == [1, 2]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"build": "some"}, "build='some': give one of all, largest"),
        ({"shapes": {"batch": 4}, "buckets": None}, "is for a model with ranges of sizes"),
        ({"shapes": {"batch": (1, 4)}, "buckets": None}, "no size that a larger program takes"),
        ({"tune": "kernels"}, "which is not tuned"),
        ({"fallback": {"Relu": np.abs}}, "fallback cuts the model into parts"),
    ],
)
def test_what_it_is_not_for_is_refused(options, said):
    with pytest.raises(CompilerError, match=said):
        compiled(**{"build": "largest", **options})


def test_a_limit_of_address_space_is_refused():
    with pytest.raises(DeviceError, match="build= builds programs while the model serves"):
        isolate.compile_onnx(network(), build="largest")


def test_there_is_no_such_size(growing):
    model, _ = growing()
    with pytest.raises(ShapeError, match="no program for batch=9"):
        model.build(batch=9)
    with pytest.raises(ShapeError, match="has no size 'seq'"):
        model.build(seq=9)


def test_a_block_grows_where_it_lies(monkeypatch):
    block = GrowingBlock(1)
    first = block.begin(100, "weights")
    first[:] = 7
    more = block.extended(128, np.arange(64, dtype=np.uint8))
    assert more.size == 192 and memory.address(more) == memory.address(first)
    assert more[:100].tolist() == [7] * 100 and more[128:].tolist() == [*range(64)]
    assert block.extended(192, np.empty(0, np.uint8)).size == 192
    with pytest.raises(DeviceError, match="take 268435456 bytes more"):
        block.extended(192, np.empty(256 << 20, np.uint8))


def test_the_command_line_saves_the_largest(tmp_path):
    onnx.save(network(), tmp_path / "m.onnx")
    options = ["--shapes=batch=1..8", "--eus=1", "--build=largest", "-o", tmp_path / "m.rcx"]
    assert rc_compile.main([str(tmp_path / "m.onnx"), *map(str, options)]) == 0
    with rcompiler.load(tmp_path / "m.rcx") as loaded:
        assert len(loaded.programs) == 1 and loaded(rows(3))[0].shape == (3, 128)
