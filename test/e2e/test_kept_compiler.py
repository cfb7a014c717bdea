"""isolate.py: the process that compiles schedules is kept; one that ends is an error of a call."""

import os
import signal

import pytest

import rcompiler
from rcompiler.driver import isolate
from rcompiler.errors import DeviceError, InvalidModel
from rcompiler.support.workers import Worker, Workers
from rcompiler.tools import models

_MODULE = "rcompiler.driver.isolated"


@pytest.fixture(scope="module")
def model():
    return rcompiler.compile_onnx(models.build("mlp", layers=(8, 4)), eus=1, cache=False)


@pytest.fixture
def asked(monkeypatch):
    """The processes that were asked, one for each request, of workers that begin here."""
    monkeypatch.setattr(isolate, "_WORKERS", Workers(_MODULE, as_here=True))
    found = []
    ask = Worker.ask

    def noted(self, question, most_s=None, told=None):
        found.append(self._process.pid)
        return ask(self, question, most_s, told)

    monkeypatch.setattr(Worker, "ask", noted)
    return found


def compiled(model, **options):
    return rcompiler.compile_schedule(
        model.stage("vdevice"), model.constants(), cache=False, **options
    )


def test_one_process_compiles_one_schedule_after_the_other(model, asked):
    told = []
    for _ in range(2):
        made = compiled(model, progress=lambda step, seconds: told.append(step))
        assert made.artifact.certificate == model.artifact.certificate
        assert told[0] == "parse" and "link" in told
        told.clear()
    with pytest.raises(InvalidModel, match="the schedule is not valid"):
        rcompiler.compile_schedule("nonsense", cache=False)
    compiled(model)
    assert len(asked) == 4 and len(set(asked)) == 1


def test_a_process_that_ends_is_an_error_and_the_next_call_has_another(model, asked):
    def end(step, seconds):
        os.kill(asked[-1], signal.SIGABRT)

    with pytest.raises(InvalidModel, match="ended the compiler's process .signal SIGABRT.; undo"):
        compiled(model, progress=end)
    assert compiled(model).artifact.certificate == model.artifact.certificate
    assert len(set(asked)) == 2


def test_it_has_the_variables_and_the_folder_of_each_call(model, asked, monkeypatch, tmp_path):
    compiled(model)
    with monkeypatch.context() as patch:
        patch.setenv("RC_HOST_LEVEL", "v17")
        with pytest.raises(DeviceError, match="v17"):
            compiled(model)
    monkeypatch.chdir(tmp_path)
    rcompiler.compile_schedule(model.stage("vdevice"), model.constants(), cache="here")
    assert list((tmp_path / "here").iterdir())
    assert len(asked) == 3 and len(set(asked)) == 1


def test_a_process_with_a_limit_has_a_child_for_each(model, asked, monkeypatch):
    """The peak of a child says whether the limit was in its way."""
    monkeypatch.setattr(isolate, "address_space_limit", lambda: 1 << 50)
    assert compiled(model).artifact.certificate == model.artifact.certificate
    assert not asked
