"""tools/check_times.py: what is timed is the check of a file that can be loaded."""

import rcompiler
from rcompiler.tools import check_times, models


def test_each_file_has_its_row(tmp_path, capsys):
    path = tmp_path / "m.rcx"
    rcompiler.compile_onnx(models.build("two_branch", rows=32, width=32), eus=1).save(path)
    assert check_times.main([str(path)]) == 0
    assert "m.rcx" in capsys.readouterr().out
    path.write_bytes(b"no model")
    assert check_times.main([str(path)]) == 1
