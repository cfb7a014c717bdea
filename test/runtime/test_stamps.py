"""Timed models: what is noted of each run of rTasks."""

import numpy as np
import pytest
import small_models as sm

from rcompiler.errors import DeviceError
from rcompiler.runtime.executable import Executable

X = np.linspace(-3, 3, sm.N, dtype=np.float32)


@pytest.mark.parametrize("sync", ["event", "barrier"])
@pytest.mark.parametrize(("compiled", "eus"), [(1, 1), (2, 2), (3, 2), (8, 1)])
def test_every_run_has_its_times(sync: str, compiled: int, eus: int):
    artifact = sm.artifact([sm.two_steps(compiled, sync)])
    model, plain = Executable(artifact, eus, timed=True), Executable(artifact, eus)
    names = {name for row in artifact.programs[0].operators for name in row}
    lengths = []
    for _ in range(5):
        assert np.array_equal(model(X)[0], plain(X)[0])
        times = model.times()
        rows = list(zip(*times.values(), strict=True))
        assert len(rows) == sum(map(len, artifact.programs[0].operators))
        assert len({row[:2] for row in rows}) == len(rows)
        assert {row[0] for row in rows} == names and {row[2] for row in rows} == set(range(eus))
        for eu in range(eus):
            mine = [row[3:] for row in rows if row[2] == eu]
            ends = [time for row in mine for time in row]
            assert ends == sorted(ends) and ends[0] >= 0
        lengths.append(max(times["end_ns"]))
    assert max(lengths) < 60e9  # of one launch each, not since the first


def test_a_step_ends_before_those_that_wait_for_it_begin():
    artifact = sm.artifact([sm.two_steps(2, "event")])
    first, second = artifact.programs[0].operators[0]
    model = Executable(artifact, 2, timed=True)
    for _ in range(20):
        model(X)
        times = model.times()
        rows = list(zip(times["operator"], times["start_ns"], times["end_ns"], strict=True))
        assert max(r[2] for r in rows if r[0] == first) <= min(r[1] for r in rows if r[0] == second)


def test_a_binding_is_timed():
    model = Executable(sm.artifact([sm.two_steps(2)]), timed=True)
    binding = model.bind()
    binding()
    assert min(model.times()["end_ns"]) > 0


def test_only_timed_models_have_times():
    model = Executable(sm.artifact([sm.two_steps(1)]))
    model(X)
    with pytest.raises(DeviceError, match="not timed; load it with timed=True"):
        model.times()
    timed = Executable(sm.artifact([sm.two_steps(1)]), timed=True)
    timed.close()
    with pytest.raises(DeviceError, match="closed"):
        timed.times()
