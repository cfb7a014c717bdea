"""decoders: the same tokens by both engines, and what a token reads."""

import json

import numpy as np
import pytest
from measurements import decoders
from onnx import numpy_helper

from rcompiler.errors import CompilerError
from rcompiler.tools import models

pytest.importorskip("onnxruntime")
SMALL = {"layers": 1, "hidden": 32, "heads": 4, "room": 16, "vocabulary": 64}


@pytest.fixture
def small(monkeypatch):
    """Decoders of a moment."""
    build = models.build
    monkeypatch.setattr(models, "build", lambda name, **o: build(name, **{**SMALL, **o}))


def test_both_engines_generate_the_same(small, capsys, tmp_path):
    record = tmp_path / "r.json"
    asked = ["--models=gpt2_decoder", "--tokens=5", "--prompt=3", "--room=16", "--megabytes=1"]
    assert decoders.main([*asked, f"--json={record}"]) == 0
    out = capsys.readouterr().out
    assert "gpt2_decoder: the same 5 tokens" in out and out.count("goal: ") == 2
    [figure] = json.loads(record.read_text())["figures"]
    assert len(figure["tokens"]) == 5 and figure["ns"] > 0


def test_tokens_have_to_fit(capsys):
    assert decoders.main(["--tokens=5", "--prompt=3", "--room=7"]) == 1
    assert "3 + 5 tokens do not fit --room=7" in capsys.readouterr().err


def test_engines_that_differ_are_an_error():
    engines = [lambda ids, first, n=n: np.eye(4)[n] for n in (1, 2)]
    with pytest.raises(CompilerError, match="token 0 differs: .1, 2."):
        next(decoders._generated(engines, lambda: None, np.zeros((1, 3), np.int64), 1))


def test_bytes_of_a_token():
    """All weights but for the rows of tables that it does not need; a key and a value per head."""
    proto = models.build("gpt2_decoder", **SMALL)
    weights, row = decoders.token_bytes(proto)
    sizes = {t.name: numpy_helper.to_array(t).nbytes for t in proto.graph.initializer}
    tables = {"wte.weight": 64, "wpe.weight": 16}
    assert weights == sum(size // tables.get(name, 1) for name, size in sizes.items())
    assert row == 2 * 32 * 4
