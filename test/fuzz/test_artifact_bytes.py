"""A short run of the byte mutations of compiled files: `python test/fuzz/artifact_bytes.py`."""

import copy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import artifact_bytes
import pytest
from recrafted import joined

import rcompiler
from rcompiler.errors import ScheduleError
from rcompiler.runtime import tables


def test_changed_bytes_are_refused_or_change_nothing():
    found = artifact_bytes.fuzz(seed=7, mutations=400)
    assert found.wrong == []
    assert found.mutations == 400
    kinds = {name.partition(":")[0] for name in found.counts}
    assert kinds >= {"raw", "rehashed header", "rehashed tables", "rehashed texts"}
    assert found.counts["raw: refused"] > 100


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bases")
    artifact_bytes.make_bases(folder)
    return artifact_bytes.Base(folder, "branch")


def claiming(base, file, shape):
    """A file that says it has one output more, with all hashes right."""
    [output] = base.header["outputs"]
    header = {**base.header, "outputs": [output, [output[0], shape, output[2]]]}
    joined(file, header, dict(base.sections))
    return file


def test_an_output_that_nobody_writes_is_refused(base, tmp_path):
    with pytest.raises(ScheduleError, match="an output is not written once"):
        rcompiler.load(claiming(base, tmp_path / "m.rcx", [64, 32]), eus=2)


def test_an_output_without_elements_has_no_byte_to_be_wrong(base, tmp_path):
    model = rcompiler.load(claiming(base, tmp_path / "m.rcx", [64, 0]), eus=2)
    assert artifact_bytes._use(model, base) == ""
    other = copy.copy(base)
    other.outputs = [base.outputs[0] + 1]
    assert artifact_bytes._use(model, other) == "other results"


@pytest.mark.parametrize("agree", [True, False])
def test_another_weight_makes_another_model(base, tmp_path, monkeypatch, agree):
    """Where proof and tables agree that an operator reads the second weight twice, the file is the
    model with that weight twice; where only one says so, it is refused."""
    buffers = [*zip(*base.header["proof"]["buffers"], strict=True)]
    constant = tables.BUFFER_KINDS.index("constant")
    first, second = (k for k, buffer in enumerate(buffers) if buffer[1] == constant)
    header, sections = copy.deepcopy(base.header), copy.deepcopy(base.sections)
    _, operands = next(iter(header["proof"]["programs"][0]["operators"].values()))
    operands[operands.index(first)] = second
    if agree:
        words = sections["tables"].view("<i8")
        assert buffers[first][2] == 4096 and list(words).count(4096) == 1
        words[list(words).index(4096)] = buffers[second][2]

    def write(rng, base, file):
        joined(file, header, sections)
        return "rehashed both"

    monkeypatch.setattr(artifact_bytes, "change", write)
    kind, verdict, why = artifact_bytes.judge([base], tmp_path / "m.rcx", 0, 0)
    assert (kind, verdict) == ("rehashed both", "as good" if agree else "refused")
    if agree:  # with other weights still, it would be found
        changed = copy.copy(base)
        changed.weights = base.weights ^ 1
        assert artifact_bytes.judge([changed], tmp_path / "m.rcx", 0, 0)[1:] == (
            "wrong",
            "other results",
        )
