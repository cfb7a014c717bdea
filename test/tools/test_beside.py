"""rc-bench --beside: engines in processes of their own, beside busy ones."""

import json
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from rcompiler.errors import CompilerError
from rcompiler.tools import rc_bench
from rcompiler.tools._beside import Cell, _busy, print_cells
from rcompiler.tools._beside_engine import ONE_EU, OURS, Engine, Loaded, come_to_rest
from rcompiler.tools._reference import has


@pytest.fixture
def path(tmp_path):
    kind = TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", kind, [4, 16])],
        [helper.make_tensor_value_info("y", kind, [4, 16])],
        [numpy_helper.from_array(np.eye(16, dtype=np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    file = tmp_path / "small.onnx"
    file.write_bytes(model.SerializeToString())
    return file


def test_a_table_and_a_record(path, tmp_path, capsys):
    record = tmp_path / "r.json"
    arguments = [f"--models={path}", "--threads=2", "--beside=0,1", "--rounds=2", "--seconds=0.02"]
    assert rc_bench.main([*arguments, f"--json={record}"]) == 0
    said = capsys.readouterr().out
    assert [line.split()[:3] for line in said.splitlines()[1:3]] == [
        ["small", "2", "0"],
        ["small", "2", "1"],
    ]
    found = json.loads(record.read_text())
    assert [cell["busy"] for cell in found["results"]] == [0, 1]
    assert "p90 above twice p50: " in said and "slower than on 1 EU: " in said
    engines = {OURS, ONE_EU} | {name for name in ("onnxruntime", "openvino") if has(name)}
    for cell in found["results"]:
        assert set(cell["latency_ms"]) | set(cell["unmeasured"]) == engines
        for figures in cell["latency_ms"].values():
            assert 0 < figures["p50"] <= figures["p90"] <= figures["p99"]
            assert figures["calls"] >= 2


def test_compiled_files_are_refused(tmp_path, capsys):
    assert rc_bench.main([f"--models={tmp_path / 'm.rcx'}", "--beside=0", "--baseline=none"]) == 1
    assert "other engines need the ONNX model" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["-1", "a", "1,x", ""])
def test_impossible_numbers_of_processes(text, capsys):
    with pytest.raises(SystemExit) as caught:
        rc_bench.main([f"--beside={text}"])
    assert caught.value.code == 2
    assert "--beside" in capsys.readouterr().err


def test_an_engine_that_cannot_load_says_so(tmp_path):
    np.savez(tmp_path / "inputs.npz", x=np.ones(1, np.float32))
    engine = Engine(Loaded(OURS, str(tmp_path), 1))
    try:
        with pytest.raises(CompilerError, match=r"rcompiler\.rcx"):
            engine.outputs()
    finally:
        engine.close()


def test_an_engine_ends_its_turn_when_its_threads_sleep():
    over = threading.Event()

    def spin():
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            pass
        over.set()

    threading.Thread(target=spin).start()
    come_to_rest()
    assert over.is_set()


def test_busy_processes_run_for_the_context_alone():
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = set(children.read_text().split())
    with _busy(2):
        assert len(set(children.read_text().split()) - before) == 2
    assert set(children.read_text().split()) <= before


def test_ratios_are_over_the_faster_baseline():
    cell = Cell("m", 2, 1)
    assert cell.ratio("p50") is None
    times = {OURS: (3.0, 6.0), ONE_EU: (1.0, 8.0), "a": (2.0, 12.0), "b": (4.0, 8.0)}
    cell.latency_ms = {name: {"p50": p50, "p90": p90} for name, (p50, p90) in times.items()}
    assert (cell.ratio("p50"), cell.ratio("p90")) == (1.5, 0.75)
    assert (cell.over_one_eu("p50"), cell.over_one_eu("p90"), cell.spread()) == (3.0, 0.75, 2.0)


def test_what_is_not_as_it_should_be_is_named(capsys):
    cell = Cell("m", 2, 1)
    figures = {OURS: (3.0, 6.3), ONE_EU: (1.0, 8.0), "a": (2.0, 12.0)}
    cell.latency_ms = {name: {"p50": p50, "p90": p90} for name, (p50, p90) in figures.items()}
    print_cells([cell, Cell("n", 2, 1)], ["a"])
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "slower than the faster baseline: 1 of 2: m 1 busy p50 1.50",
        "p90 above twice p50: 1 of 1: m 1 busy p90 2.10",
        "more than 5 % slower than on 1 EU: 1 of 2: m 1 busy p50 3.00",
    ]
