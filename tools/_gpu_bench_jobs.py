"""Groups of gpu_bench measured by processes of their own, so that no failure ends more than one.

A launch that fails destroys the CUDA context of its process, that of other libraries included. So a
process measures one group after the other until something fails; the next process goes on from
there: with the same group without the policy that failed, or with the one after it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rcompiler.errors import DeviceError
from rcompiler.tools._gpu_bench_figures import Figure
from rcompiler.tools._gpu_bench_group import Group
from rcompiler.tools._gpu_bench_run import Job, Settings

_LOOK_S = 0.1
_Line = dict[str, Any]


def measured(
    groups: Sequence[Group],
    jobs: Sequence[Job],
    settings: Settings,
    most_s: float,
    device: Callable[[dict[str, Any]], None],
) -> Iterator[Figure]:
    """The figures of all jobs, each when it is done.

    most_s: seconds that a group may take. device: told what a process measures on. Raises
    DeviceError where there is none.
    """
    waiting = list(jobs)
    while waiting:
        for line in _process(waiting, settings, most_s):
            if "refused" in line:
                raise DeviceError(line["refused"])
            if "device" in line:
                device(line["device"])
                continue
            job = waiting.pop(0)
            if "figure" in line:
                yield Figure(**line["figure"])
                continue
            left = [policy for policy in job.policies if policy != line["failed"]]
            unmeasured = {**job.unmeasured, line["failed"]: line["why"]}
            if line["failed"] and left:
                waiting.insert(0, replace(job, policies=left, unmeasured=unmeasured))
                break
            yield _failed(groups[job.number], unmeasured, line["why"])


def _failed(group: Group, unmeasured: dict[str, str], why: str) -> Figure:
    about = (group.model, group.kind, group.precision, group.target, group.flops)
    unmeasured.pop("", None)
    return Figure(*about, unmeasured=unmeasured, error=why)


def _process(jobs: Sequence[Job], settings: Settings, most_s: float) -> Iterator[_Line]:
    """What a process says of jobs; where it ends without a word of one, that that one failed."""
    given = json.dumps({"settings": asdict(settings), "jobs": [asdict(job) for job in jobs]})
    with tempfile.TemporaryDirectory() as scratch:
        results, log = Path(scratch, "results"), Path(scratch, "log")
        results.touch()
        command = [sys.executable, "-m", "rcompiler.tools._gpu_bench_run", given, str(results)]
        with log.open("w") as out, results.open() as lines:
            child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
            try:
                yield from _followed(child, lines, most_s, log, 1 + len(jobs))
            finally:
                child.kill()
                child.wait()


def _followed(
    child: subprocess.Popen[bytes], lines: Any, most_s: float, log: Path, count: int
) -> Iterator[_Line]:
    """Lines as they come, so many; an end before that is told as a failure of the job it was at."""
    said, since, partial, over = 0, time.monotonic(), "", False
    while said < count:
        ended = child.poll() is not None
        partial += lines.readline()
        if partial.endswith("\n"):
            line = json.loads(partial)
            said, since, partial = said + 1, time.monotonic(), ""
            over = "refused" in line or "failed" in line
            yield line
        elif ended and over:
            return
        elif ended:
            last = (log.read_text(errors="replace").strip().splitlines() or [""])[-1]
            why = f"its process ended with status {child.returncode}: {last}"
            yield {"failed": "", "why": why} if said else {"refused": why}
            return
        elif time.monotonic() - since > most_s:
            yield {
                "failed": "",
                "why": f"was not done after {most_s:g} s; give it more with --most",
            }
            return
        else:
            time.sleep(_LOOK_S)
