"""Models that are closed, by a call or a `with` block: what they give back and still do."""

import threading
import weakref

import gpu_models as gm
import numpy as np
import pytest
import small_models as sm

from rcompiler.errors import DeviceError
from rcompiler.runtime import Executable, threads

X = np.arange(sm.N, dtype=np.float32)
MODELS = {
    "cpu": lambda: Executable(sm.artifact([sm.two_steps(2)]), 2),
    "gpu": lambda: gm.executable([sm.two_steps(2)]),
}


@pytest.fixture(params=MODELS.values(), ids=MODELS)
def model(request):
    return request.param()


def test_a_with_block_closes_the_model(model):
    with model as inside:
        assert inside is model and not model.closed
        assert np.array_equal(model(X)[0], sm.expected(X))
    assert model.closed


def test_a_with_block_that_fails_closes_the_model_and_passes_the_error_on(model):
    with pytest.raises(ZeroDivisionError), model:
        raise ZeroDivisionError
    assert model.closed


def test_what_runs_a_closed_model_is_refused(model):
    binding = model.bind()
    model.close()
    model.close()
    uses = {"call": lambda: model(X), "bind": model.bind, "binding": binding}
    if isinstance(model, Executable):
        uses["times"] = model.times
    else:
        uses["on_device"] = lambda: model.on_device(X)
    for name, use in uses.items():
        with pytest.raises(DeviceError, match="the model is closed; load it again"):
            use()
            pytest.fail(name)
    with pytest.raises(DeviceError, match="the model is closed; load it again"), model:
        pytest.fail("entered")


def test_a_closed_model_can_still_be_saved(model, tmp_path):
    model.close()
    model.save(tmp_path / "m.rcx")
    assert (tmp_path / "m.rcx").stat().st_size and model.inputs and model.outputs


def test_closing_gives_the_memory_of_temporary_tensors_back():
    model = Executable(sm.artifact([sm.two_steps(2)]), 2)
    model(X)
    memory = weakref.ref(model._arena)
    model.close()
    assert memory() is None


def test_memory_that_a_worker_may_still_write_to_is_kept(monkeypatch):
    """As of one that hangs in a kernel: it would write to what others have got since."""
    monkeypatch.setattr(threads, "_JOIN_S", 0.01)
    model = Executable(sm.artifact([sm.two_steps(2)]), 2)
    _, _, (_, _, workers), _ = model._launcher._processes.get().team.close.peek()
    come_back = threading.Event()
    workers.append(threading.Thread(target=come_back.wait, args=(60,), daemon=True))
    workers[-1].start()
    memory = weakref.ref(model._arena)
    for _ in range(2):
        model.close()
        assert model.closed and memory() is not None
    come_back.set()
