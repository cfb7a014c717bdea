"""schedule_cells: random cells, policies side by side, CP-SAT as oracle."""

import json
import sys

import pytest
from measurements import schedule_cells
from measurements._cells import cell
from measurements._cp_sat import optimum

from rcompiler.device.model import Costs
from rcompiler.rammer.schedule import POLICIES

COSTS = Costs(task_ns=1.0, hand_off_ns=800, barrier_ns=1300, launch_ns=1300)


def test_cells_are_what_is_said_of_them():
    cells = [cell(seed) for seed in range(50)]
    assert cells == [cell(seed) for seed in range(50)]
    assert {len(c.operators) for c in cells} == set(range(5, 10))
    for graph in cells:
        read = {name for op in graph.operators for name in op.inputs}
        assert {v.name for v in graph.values if v.kind == "temp"} <= read


def test_figures_as_a_table_and_a_record(tmp_path, capsys):
    file = tmp_path / "cells.json"
    assert schedule_cells.main(["--cells=3", "--eus=4", f"--json={file}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:-2]] == [*POLICIES]
    assert lines[-2] == "3 cells" and "waits over global barriers" in lines[-1]
    record = json.loads(file.read_text())
    assert record["options"]["eus"] == 4 and record["costs"]["hand_off_ns"] == 800
    assert record["waits"]["most"] >= record["waits"]["mean"] >= 1


def test_a_device_without_signals_runs_what_meets_in_barriers(tmp_path, capsys):
    file = tmp_path / "cells.json"
    assert schedule_cells.main(["--cells=1", "--device=ipu", f"--json={file}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["base", "wave", "bsp", "1"]
    assert json.loads(file.read_text())["waits"] == {}


def test_a_device_record_gives_eus_and_prices(tmp_path):
    file = tmp_path / "cells.json"
    assert schedule_cells.main(["--cells=1", "--device=h200", "--tiles", f"--json={file}"]) == 0
    options = json.loads(file.read_text())["options"]
    assert options["eus"] == 132 and options["device"] == "h200"


def test_cp_sat_is_no_longer_than_any_policy():
    pytest.importorskip("ortools")
    found = schedule_cells.figures(cell(2), 16, COSTS, seconds=2)
    assert found.proved and found.ns["CP-SAT"] == pytest.approx(found.best, rel=0.005)
    assert found.bound_ns <= found.best * 1.005


def test_without_the_solver_the_remedy_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    assert schedule_cells.main(["--cells=1", "--optimum=1"]) == 1
    assert "pip install ortools" in capsys.readouterr().err


def test_the_search_is_for_the_shortest():
    pytest.importorskip("ortools")
    graph = cell(2)
    found = optimum(graph, 16, COSTS, 2, 1e6)
    assert found.bound_ns <= found.ns < 1e6
