"""Tests may import the helper modules in test/support: importlib mode leaves sys.path alone."""

import sys
from pathlib import Path

import pytest

import rcompiler
from rcompiler.driver import isolate
from rcompiler.tools import models

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))


@pytest.fixture(scope="module")
def model():
    """Two EUs and one input x of 64 x 32 numbers."""
    return rcompiler.compile_onnx(models.build("two_branch", rows=64, width=32), eus=2, cache=False)


@pytest.fixture
def saved(model, tmp_path):
    """The file of `model`, which a test may damage."""
    model.save(tmp_path / "m.rcx")
    return tmp_path / "m.rcx"


@pytest.fixture
def shared_cache(tmp_path_factory, monkeypatch):
    """A cache folder for the whole run, and tiles that no measurement decides."""
    monkeypatch.setenv("RC_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setenv("RC_DEVICE", "default")


@pytest.fixture
def compiled(monkeypatch):
    """The options of each compilation that a session has asked for in the way of a call."""
    asked, compiler = [], isolate.compiler

    def counted():
        def compile_onnx(model, **options):
            asked.append(options)
            return compiler()(model, **options)

        return compile_onnx

    monkeypatch.setattr(isolate, "compiler", counted)
    return asked
