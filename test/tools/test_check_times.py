"""tools/check_times.py: what is timed is the check of a file that can be loaded."""

from measurements import check_times

import rcompiler
from rcompiler.tools import models


def test_each_file_has_its_row(tmp_path, capsys, monkeypatch):
    path = tmp_path / "m.rcx"
    rcompiler.compile_onnx(models.build("two_branch", rows=32, width=32), eus=1).save(path)
    for free, code in (
        (3600.0, 0),
        (-3600.0, 1),
    ):  # seconds that a check may take, whatever it does
        monkeypatch.setattr(check_times, "_FREE_S", free)
        assert check_times.main([str(path)]) == code
        out = capsys.readouterr().out
        assert "m.rcx" in out and ("too long" in out) == bool(code)
    path.write_bytes(b"no model")
    assert check_times.main([str(path)]) == 1
