"""A process that a control group limits to one CPU runs models on one EU: with a real group."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rcompiler.device.cgroups import parse_mounts

_SCRIPT = """
import os, sys
from pathlib import Path
Path(sys.argv[1], sys.argv[2]).write_text(str(os.getpid()))
from rcompiler.device.cgroups import usable_cpus
before = usable_cpus()
import rcompiler
from rcompiler.tools.models import build
with rcompiler.compile_onnx(build("two_branch"), eus=2, cache=False) as model:
    print(before, model.artifact.programs[0].eus, model.eus)
"""


@pytest.fixture
def group() -> Iterator[tuple[Path, str]]:
    """A control group with half of the time of two CPUs, and the file that processes enter by."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one CPU only")
    mounts = parse_mounts(Path("/proc/self/mountinfo").read_text())
    for mount in mounts:
        own = Path(mount.place) / f"rcompiler-test-{os.getpid()}"
        first = mount.controllers is not None and "cpu" in mount.controllers
        if not first and mount.controllers is not None:
            continue
        try:
            own.mkdir()
        except OSError:
            continue
        try:
            if first:
                (own / "cpu.cfs_period_us").write_text("100000")
                (own / "cpu.cfs_quota_us").write_text("100000")
            else:
                (own / "cpu.max").write_text("100000 100000")
            yield own, "tasks" if first else "cgroup.procs"
            return
        except OSError:  # of version 2 without this controller here
            continue
        finally:
            own.rmdir()
    pytest.skip("no control group can be made here")


def test_a_group_with_one_cpu_of_two(group):
    folder, entry = group
    command = [sys.executable, "-W", "error", "-c", _SCRIPT, str(folder), entry]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "2", "1"]
