"""Parity with the artifact of Roller: recorded tiles, their position, and the golden command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rcompiler.device.gpu import GPUS
from rcompiler.device.record import builtin_names, save_device
from rcompiler.roller.golden import GoldenError, check, device_of, main, read_cases
from rcompiler.roller.osdi22 import emit, hal_of
from rcompiler.roller.osdi22.quantities import tasks, threads
from rcompiler.roller.osdi22.rules import reuse_grows

DATA = Path(__file__).parents[1] / "Inputs" / "roller"
MI50, K80, V100 = (DATA / f"golden_{name}.json" for name in ("mi50", "k80", "v100"))


@pytest.mark.parametrize(("path", "count"), [(MI50, 119), (K80, 9), (V100, 1)])
def test_recorded_tiles_are_reproduced(path, count):
    cases = read_cases(path)
    assert len(cases) == count
    assert [str(m) for case in cases if (m := check(case, device_of(case)))] == []


def test_all_ten_launches_are_reproduced():
    """The logs name grid and threads of every candidate, so its order is known beyond the best."""
    records = json.loads(K80.read_text())
    for case, record in zip(read_cases(K80), records, strict=True):
        found = emit(case.expression, hal_of(device_of(case)))
        launches = [
            [tasks(case.expression, p.shared), threads(case.expression, p.shared, p.register)]
            for p in found
        ]
        assert launches == record["launches"], str(case)


def test_the_tutorial_case_of_v100():
    (case,) = read_cases(V100)
    program = emit(case.expression, hal_of(GPUS["v100"]))[5]
    assert (program.shared, program.register) == ((128, 64, 32), (8, 4, 1))


def test_dispatch_of_the_evaluation():
    """44 convolutions and 7 matrix products get the contraction policy, 68 operators the plain."""
    by_family: dict[bool, set[str]] = {True: set(), False: set()}
    counts = {True: 0, False: 0}
    for case in read_cases(MI50):
        grows = reuse_grows(case.expression)
        counts[grows] += 1
        by_family[grows].add(case.op.partition("_expr")[0])
    assert counts == {True: 51, False: 68}
    assert by_family[True] == {"fused_conv", "matmul"}
    assert by_family[False] == {"relu", "depthwiseconv", "avgpool2d", "reduce"}


def write(tmp_path, *cases):
    path = tmp_path / "golden.json"
    path.write_text(json.dumps(cases))
    return path


def good(**changes):
    case = json.loads(V100.read_text())[0]
    return {**case, **changes}


def test_the_command_counts_what_it_reproduces(capsys):
    assert main([str(V100)]) == 0
    assert capsys.readouterr().out == "1/1\n"


def test_the_command_runs_as_a_module():
    root = Path(sys.modules["rcompiler"].__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "rcompiler.roller.golden", str(V100)],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "1/1\n", "")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"idx": 4}, "the expected tiles at index 5"),
        ({"idx": 99}, "got nothing there"),
        ({"L0": [128, 64, 16]}, "not among the 10 emitted"),
        ({"L1": [4, 4, 1]}, "not among the 10 emitted"),
        ({"arch": "MI50"}, "the expected tiles at index 1"),
    ],
)
def test_mismatches_are_listed(tmp_path, capsys, changes, message):
    assert main([str(write(tmp_path, good(), good(**changes)))]) == 1
    line, count = capsys.readouterr().out.splitlines()
    assert count == "1/2"
    assert message in line and "case 1" in line and "expected index" in line


def test_any_device_record_can_be_given(tmp_path, capsys):
    save_device(GPUS["v100"], tmp_path / "mine.json")
    path = str(write(tmp_path, good(arch="unheard of")))
    assert main([path, "--device", str(tmp_path / "mine.json")]) == 0
    assert main([path, "--device", "V100"]) == 0
    assert main([path, "--device", "h200"]) == 1
    assert main([path, "--device", "cpu"]) == 1
    capsys.readouterr()
    assert main([path, "--device", "tpu"]) == 2
    assert "unknown target 'tpu'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"idx": None}, "idx is None"),
        ({"idx": -1}, "idx is -1"),
        ({"idx": True}, "idx is True"),
        ({"arch": 50}, "arch is 50, not a string"),
        ({"op": "conv9d_expr"}, "operator 'conv9d_expr' is unknown; known are: matmul_expr"),
        ({"op": "matmul_expr_S1P1"}, "is unknown"),
        ({"op": "depthwiseconv_expr"}, "is unknown"),
        ({"op": "conv_expr_S0D1P0"}, "stride and dilation are at least 1"),
        ({"shape": [4096, 4096]}, r"has 2 sizes, not 3 \(M, N, K\)"),
        ({"shape": [4096, 4096, 0]}, "not a list of integers above 0"),
        ({"shape": "4096"}, "shape is '4096'"),
        ({"op": "relu_expr", "shape": []}, "has 0 sizes, not at least 1"),
        ({"L0": [128, 64]}, "L0 has 2 sizes for 3 axes"),
        ({"L1": [8, 4, 1.5]}, "L1 is"),
    ],
)
def test_malformed_cases_are_refused(tmp_path, changes, message):
    path = write(tmp_path, good(), good(**changes))
    with pytest.raises(GoldenError, match=f"case 1: .*{message}"):
        read_cases(path)
    assert main([str(path)]) == 2


@pytest.mark.parametrize("field", ["arch", "op", "shape", "idx", "L0", "L1"])
def test_missing_fields_are_named(tmp_path, field):
    case = good()
    del case[field]
    with pytest.raises(GoldenError, match=f"case 0: the field '{field}' is missing"):
        read_cases(write(tmp_path, case))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}", "not a list of cases"),
        (b"[]", "at least one"),
        (b"[1]", "case 0: not an object"),
        (b"[", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_files_that_are_no_golden_files(tmp_path, content, message):
    path = tmp_path / "golden.json"
    path.write_bytes(content)
    with pytest.raises(GoldenError, match=message):
        read_cases(path)


def test_unreadable_files_and_unknown_archs(tmp_path, capsys):
    assert main([str(tmp_path / "none.json")]) == 2
    assert "cannot read the file" in capsys.readouterr().err
    assert main([str(write(tmp_path, good(arch="P4")))]) == 2
    assert f"arch is none of {', '.join(builtin_names())};" in capsys.readouterr().err
