"""tools/bench memory: what it measures, and what it finds too much."""

import json

from measurements import memory


def test_figures_of_a_case_and_of_many_compilations(tmp_path, capsys):
    path = tmp_path / "a.json"
    given = ["external", "--megabytes=32", "--compilations=1", f"--json={path}"]
    assert memory.main(given) == 1  # the compiler itself takes more than 2.5 times 32 MB
    record = json.loads(path.read_text())
    [case] = record["cases"]
    assert case["weights"] == 32
    assert case["weights"] < case["stays"] <= case["peak"]
    assert case["onnxruntime"] > case["weights"]
    assert 0 < record["growth"]["heap_first"] < record["growth"]["resident_first"]
    assert "external: peak above" in capsys.readouterr().err


def test_a_case_that_there_is_not_is_named(capsys):
    assert memory.main(["another"]) == 1
    assert "there is no case 'another'" in capsys.readouterr().err
