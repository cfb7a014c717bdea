"""rc-tune MODEL, the index as lines, verify_kernels and model_quality, on tiny models."""

import datetime
import json
import re
from contextlib import contextmanager
from dataclasses import replace

import pytest
from measurements import _operators, model_quality, verify_kernels
from measurements._operators import CASES, Case

import rcompiler
from rcompiler.profiler import profile
from rcompiler.profiler.index import NAME, ProfileIndex, code_version, digest
from rcompiler.profiler.records import Measurement
from rcompiler.tools import models, rc_compile, rc_tune


@pytest.fixture
def tool(tool, tmp_path, monkeypatch):
    """With a cache, in a folder with two branches too long to be joined in one operator."""
    monkeypatch.setenv("RC_CACHE_DIR", str(tmp_path / "cache"))
    long = models.build("two_branch", rows=64, width=192)
    (tmp_path / "branches.onnx").write_bytes(long.SerializeToString())
    return tool


def test_rc_tune_measures_what_rc_compile_then_finds(tool, tmp_path):
    code, out, err = tool(rc_tune.main, "branches.onnx", "--seconds=0.05")
    assert (code, err) == (0, "")
    header, *rows, total, _, _ = out.splitlines()
    assert header.split()[:3] == ["operator", "kind", "tilings"] and len(rows) == 2
    spent = sorted(float(row.split()[-1]) for row in rows)
    assert total.startswith("2 operators, seconds each:")
    assert total.endswith(f"most {spent[-1]:.2f}") and spent[0] > 0
    lines = _kernels(tmp_path)
    assert len(lines) >= 4
    code, out, _ = tool(rc_tune.main, "branches.onnx", "--seconds=0.05")
    assert [row.split()[-2] for row in out.splitlines()[1:-3]] == ["index", "index"]
    code, out, _ = tool(
        rc_compile.main, "branches.onnx", "--tune=kernels", "--report", "-o", "m.rcx"
    )
    assert code == 0 and "meas. us" in out
    assert _kernels(tmp_path) == lines


def _kernels(tmp_path):
    """The lines of the index that are times of kernels."""
    lines = list(ProfileIndex(tmp_path / "cache" / NAME).export())
    return [line for line in lines if json.loads(line)["kind"] == "kernel"]


def test_rc_tune_shows_times_alone_and_beside_others(tool, tmp_path):
    _, out, _ = tool(rc_tune.main, "branches.onnx", "--eus=2", "--seconds=0.05")
    for row in out.splitlines()[1:3]:
        best, beside, ratio = row.split()[4:7]
        assert float(ratio) == pytest.approx(float(beside) / float(best), abs=0.05)
    by_eus = [json.loads(line)["eus"] for line in _kernels(tmp_path)]
    assert set(by_eus) == {1, 2} and by_eus.count(1) == by_eus.count(2)
    _, out, _ = tool(rc_tune.main, "branches.onnx", "--eus=1", "--seconds=0.05")
    assert [row.split()[5:7] for row in out.splitlines()[1:3]] == 2 * [["-", "-"]]


def test_rc_tune_measures_the_program_and_finds_it_again(tool, tmp_path):
    shown = []
    for _ in range(2):
        code, out, err = tool(rc_tune.main, "branches.onnx", "--eus=1", "--seconds=0.05")
        assert (code, err) == (0, "")
        header, row = out.splitlines()[-2:]
        shown.append(dict(zip(re.split(r"  +", header.strip()), row.split(), strict=True)))
    first, again = shown
    assert first["recorded us"] == "-" and again["recorded us"] == first["measured us"]
    assert first["schedule"] == again["schedule"]
    assert 0 < float(again["measured us"]) <= float(again["median us"])
    assert float(again["expected us"]) > 0 and int(again["launches"]) >= 5
    [line] = [json.loads(line) for line in ProfileIndex(tmp_path / "cache" / NAME).export()
              if "program" in line]  # fmt: skip
    model = rcompiler.compile_onnx("branches.onnx", eus=1, cache=tmp_path / "cache", tune="kernels")
    assert line["schedule"] == digest(model.stage("vdevice")) and line["eus"] == 1
    shortest = min(first["measured us"], again["measured us"], key=float)
    assert f"{line['ns'] / 1e3:.1f}" == shortest


def test_the_index_moves_as_lines(tool, tmp_path, monkeypatch):
    tool(rc_tune.main, "branches.onnx", "--seconds=0.05")
    code, out, _ = tool(rc_tune.main, "--export=lines")
    count = len((tmp_path / "lines").read_text().splitlines())
    assert code == 0 and out == f"lines: {count} measurements\n" and count >= 4
    monkeypatch.setenv("RC_CACHE_DIR", str(tmp_path / "other"))
    assert tool(rc_tune.main, "--import=lines")[:2] == (0, f"lines: {count} measurements\n")
    (tmp_path / "lines").write_text("nonsense\n")
    code, _, err = tool(rc_tune.main, "--import=lines")
    assert code == 1 and "line 1" in err


def test_measurements_of_another_machine_can_count_as_those_of_this_one(tool, tmp_path):
    tuned = "branches.onnx", "--eus=1", "--seconds=0.05"
    tool(rc_tune.main, *tuned)
    tool(rc_tune.main, "--export=lines")
    path = tmp_path / "lines"
    lines = [json.loads(line) | {"machine": "elsewhere"} for line in path.read_text().splitlines()]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (tmp_path / "cache" / NAME).unlink()
    code, out, _ = tool(rc_tune.main, "--import=lines", "--here")
    assert (code, out) == (0, f"lines: {len(lines)} measurements\n")
    _, out, _ = tool(rc_tune.main, *tuned)
    assert [row.split()[-2] for row in out.splitlines()[1:3]] == ["index", "index"]
    assert "-" not in out.splitlines()[-1].split()  # the program was recorded, too


def test_rc_tune_prunes_other_versions(tool, tmp_path):
    path = tmp_path / "cache" / NAME
    index = ProfileIndex(path)
    now = datetime.datetime.now(datetime.UTC)
    for number, (code, days) in enumerate([("old", 100), ("used", 2), (code_version(), 200)]):
        date = (now - datetime.timedelta(days=days)).isoformat(timespec="seconds")
        operators = ("op", "other")[: number + 1]
        index.record(Measurement(op, "tile", "here", code, 5.0, 0.0, 7, date) for op in operators)
    index.close()
    for argument, told in (
        ("--prune=30", "1 measurements removed, 4 left"),
        ("--prune", "2 measurements removed, 2 left"),
        ("--prune", "0 measurements removed, 2 left"),
    ):
        assert tool(rc_tune.main, argument)[:2] == (0, f"{path}: {told}\n")


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        ([], 2, "required"),
        (["--prune=ever"], 2, "days"),
        (["--export=x", "--here"], 2, "--import"),
        (["a", "--device"], 2, "not allowed"),
        (["no.onnx"], 1, "no.onnx"),
    ],
)
def test_rc_tune_says_what_is_wrong(tool, capsys, arguments, code, word):
    try:
        got, _, err = tool(rc_tune.main, *arguments)
    except SystemExit as stop:
        got, err = stop.code, capsys.readouterr().err
    assert got == code and word in err


def test_verify_kernels_counts_what_it_verified(tool, tmp_path):
    code, out, _ = tool(verify_kernels.main, "branches.onnx", "--drawn=2", "--json=v.json")
    assert code == 0 and "of 2 operators verified, 0 wrong" in out
    record = json.loads((tmp_path / "v.json").read_text())
    assert record["summary"]["operators"] == 2 and record["device"]["name"]
    assert sum(o["kernels"] for o in record["operators"]) == record["summary"]["kernels"]
    assert all(o["model"] == "branches.onnx" and o["wrong"] == [] for o in record["operators"])


def test_verify_kernels_rejects_a_wrong_kernel(tool, tmp_path, monkeypatch):
    """A fault in the code of one candidate: the tool says which one, and fails."""
    good, sound = profile.write, _operators.profiler

    def broken(kernel, features):
        code = good(kernel, features)
        if code.name != "candidate_1":
            return code
        text = code.text.replace("arith.addf", "arith.subf", 1)
        text = text if text != code.text else code.text.replace("arith.maximumf", "arith.minimumf")
        assert text != code.text
        return replace(code, text=text)

    @contextmanager
    def profiler(*arguments):
        with sound(*arguments) as found:
            yield replace(found, writer=broken)

    monkeypatch.setattr(_operators, "profiler", profiler)
    code, out, err = tool(verify_kernels.main, "mlp", "--operators=1", "--drawn=1", "--json=v.json")
    assert code == 1 and "of 1 operators verified, 1 wrong" in out
    assert re.search(r"wrong: \w+ kernel of tile .*: element .* of result 0 is .*, not", err)
    [operator] = json.loads((tmp_path / "v.json").read_text())["operators"]
    assert len(operator["wrong"]) == 1 and operator["kernels"] > 1


@pytest.mark.slow
def test_all_candidates_of_sixty_operators_are_right(tool):
    code, out, _ = tool(verify_kernels.main, "--operators=60")
    assert code == 0 and "of 60 operators verified, 0 wrong" in out


def test_quality_by_hand():
    assert model_quality.spearman([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert model_quality.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert model_quality.spearman([1, 1, 2, 2], [1, 2, 3, 4]) == pytest.approx(0.8944, abs=1e-4)
    assert model_quality.spearman([1, 1], [1, 2]) == 0
    # chosen 30, by estimate 20, 40, 10; drawn: all but the first
    found = model_quality.quality([4, 1, 3, 2], [30, 20, 10, 40], [False, True, True, True])
    assert (found.loss1, found.loss3, found.chosen) == (2, 1, 3)
    assert found.spearman == pytest.approx(model_quality.spearman([1, 3, 2], [20, 10, 40]))


def test_model_quality_writes_what_it_measured(tool, tmp_path, monkeypatch):
    cases = (
        Case("two_branch", "contraction", "64x256x256", "small", (("rows", 64), ("width", 256))),
    )
    monkeypatch.setattr(model_quality, "CASES", cases)
    monkeypatch.setattr(model_quality, "_SECONDS", 0.01)
    code, out, _ = tool(model_quality.main, "--json=q.json", "--tilings=6", "--jobs=1")
    assert code == 0 and "median_spearman" in out
    record = json.loads((tmp_path / "q.json").read_text())
    [entry] = record["operators"]
    assert record["summary"]["operators"] == 1 and record["device"]["name"]
    assert entry["drawn"] == 6 and len(entry["tilings"]) >= 6
    assert record["summary"]["median_construct_ms"] == entry["construct_ms"] > 0
    assert all(t["measured_us"] > 0 and t["estimated_us"] > 0 for t in entry["tilings"])


def test_the_list_of_operators_is_long_enough_and_of_every_kind():
    assert len({(c.model, c.options, c.kind, c.sizes, c.skip) for c in CASES}) == len(CASES) >= 30
    assert {c.kind for c in CASES} >= {
        *("convolution", "contraction", "pooling", "reduction", "elementwise", "movement")
    }
    assert all(c.why for c in _operators.CASES)
