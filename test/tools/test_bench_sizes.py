"""tools/bench/measurements/{lengths,exact_lengths,batches,packed}.py: models for several sizes."""

import json

import numpy as np
import pytest
from measurements import batches, exact_lengths, lengths, packed

from rcompiler.errors import CompilerError


def test_buckets_are_cut_as_asked():
    assert lengths.tops(2, 40) == [4, 6, 8, 12, 16, 24, 32, 40]
    assert len(lengths.tops(8, 512)) == 53


def test_lengths_are_those_of_the_documents():
    found = lengths.lengths(500, 64)
    assert found == lengths.lengths(500, 64) != lengths.lengths(500, 64, seed=1)
    assert min(found) > 2 and max(found) == 64 and 16 < sorted(found)[250] < 64


def test_engines_are_asked_in_turns(tmp_path, capsys):
    options = ["--most=16", "--requests=3", "--layers=1", "--vocabulary=64"]
    assert lengths.main([*options, f"--json={tmp_path / 'l.json'}"]) == 0
    found = json.loads((tmp_path / "l.json").read_text())
    assert {"rcompiler", "padded"} <= {*found["engines"]} and len(found["tokens"]) == 3
    assert all(0 < each["p50_ms"] <= each["p99_ms"] for each in found["engines"].values())
    assert "3 requests of" in capsys.readouterr().out


def test_an_engine_with_other_results_is_not_measured():
    feeds = next(lengths._requests(lengths.main.parse(["--requests=1", "--vocabulary=8"])))
    engines = {"rcompiler": lambda f: [f["input_ids"]], "other": lambda f: [f["input_ids"] + 1]}
    with pytest.raises(CompilerError, match="other has other results at"):
        lengths._check(engines, feeds)


def test_buckets_beside_programs_for_one_length(tmp_path, capsys):
    small = ["--most=16", "--layers=1", "--vocabulary=64", "--octave=1"]
    options = [*small, "--exact=3..5+16", f"--json={tmp_path / 'e.json'}"]
    assert exact_lengths.main(options) == 0
    found = json.loads((tmp_path / "e.json").read_text())["apart"]
    assert [*found] == ["3", "4", "5", "16"] and max(found.values()) < 1e-5
    assert exact_lengths.main([*small, "--exact=17"]) == 1
    assert "asks for 17 of 16 tokens" in capsys.readouterr().err


def test_answers_that_are_not_those_of_one_length_are_refused():
    one = [np.ones((1, 3), np.float32)]
    assert exact_lengths.apart(one, one, 3) == 0
    with pytest.raises(CompilerError, match="at 3 tokens results differ by 0.001"):
        exact_lengths.apart([one[0] * np.float32(1.001)], one, 3)
    with pytest.raises(CompilerError, match="at 3 tokens results differ by nan"):
        exact_lengths.apart([one[0] * np.float32("nan")], one, 3)
    with pytest.raises(CompilerError, match=r"shape \(1, 2\) instead of \(1, 3\)"):
        exact_lengths.apart([one[0][:, :2]], one, 3)


def test_batches_beside_models_of_their_own(tmp_path, capsys):
    options = ["mlp", "--sizes=1..2", "--rounds=1", "--seconds=0.01"]
    assert batches.main([*options, f"--json={tmp_path / 'b.json'}"]) == 0
    found = json.loads((tmp_path / "b.json").read_text())
    assert {*found["batches"]} == {"1", "2"} and found["bytes"] > 0
    assert "times that of batch 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    "sizes, said",
    [
        ("3", "'3': give several batches, as 1+4+8 or 1..16"),
        *((text, f"{text!r} is no list of positive integers, as 1..16+32")
          for text in ("0+1", "a", "4..2", "", "1..3..5")),
    ],
)  # fmt: skip
def test_batches_are_several(sizes, said, capsys):
    with pytest.raises(SystemExit):
        batches.main(["mlp", f"--sizes={sizes}"])
    assert said in capsys.readouterr().err


def test_packed_batches_beside_padded_ones(tmp_path, capsys):
    options = ["--most=8", "--size=2", "--batches=1", "--layers=1", "--vocabulary=64"]
    assert packed.main([*options, "--rounds=1", f"--json={tmp_path / 'p.json'}"]) == 0
    found = json.loads((tmp_path / "p.json").read_text())
    assert {*found["engines"]} == {"packed", "padded", "alone"} and len(found["rows"]) == 1
    assert "padding makes them" in capsys.readouterr().out


def test_a_packed_answer_that_differs_is_not_measured():
    [batch] = packed._batches(packed.main.parse(["--batches=1", "--vocabulary=8"]))
    ids = [request["input_ids"] for request in batch]
    engines = {
        "packed": lambda _: [[each] for each in ids],
        "padded": lambda _: [[each + (n == 5)] for n, each in enumerate(ids)],
    }
    with pytest.raises(CompilerError, match="padded has other results for request 5"):
        packed._check(engines, batch)
