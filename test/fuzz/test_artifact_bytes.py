"""A short run of the byte mutations of compiled files: `python test/fuzz/artifact_bytes.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import artifact_bytes


def test_changed_bytes_are_refused_or_change_nothing():
    found = artifact_bytes.fuzz(seed=7, mutations=400)
    assert found.wrong == []
    assert found.mutations == 400
    kinds = {name.partition(":")[0] for name in found.counts}
    assert kinds >= {"raw", "rehashed header", "rehashed tables", "rehashed texts"}
    assert found.counts["raw: refused"] > 100
