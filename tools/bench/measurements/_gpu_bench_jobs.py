"""Groups of gpu_bench measured by processes of their own, so that no failure ends more than one.

A launch that fails destroys the CUDA context of its process, that of other libraries included. So a
process measures one group after the other until something fails; the next process goes on from
there: with the same group without the policy that failed, or with the one after it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from typing import Any

from measurements import _gpu_bench_run
from measurements._gpu_bench_figures import GroupFigure
from measurements._gpu_bench_group import Group
from measurements._gpu_bench_run import Job, Settings
from rcompiler.errors import DeviceError
from rcompiler.support.workers import Worker, WorkerDied, WorkerLate


def measured(
    groups: Sequence[Group],
    jobs: Sequence[Job],
    settings: Settings,
    most_s: float,
    device: Callable[[dict[str, Any]], None],
) -> Iterator[GroupFigure]:
    """The figures of all jobs, each when it is done.

    most_s: seconds that a group may take. device: told what a process measures on. Raises
    DeviceError where there is none.
    """
    waiting = list(jobs)
    with ExitStack() as process:
        ask: Callable[[str, Job], dict[str, Any]] | None = None
        while waiting:
            if ask is None:
                ask = process.enter_context(_asking(settings, most_s))
                told = ask("device", waiting[0])
                if "device" not in told:
                    raise DeviceError(told["why"])
                device(told["device"])
            job = waiting.pop(0)
            told = ask("figure", job)
            if "figure" in told:
                yield GroupFigure(**told["figure"])
                continue
            failed, why = told["failed"], told["why"]
            left = [policy for policy in job.policies if policy != failed]
            unmeasured = {**job.unmeasured, failed: why}
            if failed and left:
                waiting.insert(0, replace(job, policies=left, unmeasured=unmeasured))
            else:
                yield _failed(groups[job.number], unmeasured, why)
            process.close()
            ask = None


def _failed(group: Group, unmeasured: dict[str, str], why: str) -> GroupFigure:
    about = (group.model, group.kind, group.precision, group.target, group.flops)
    unmeasured.pop("", None)
    return GroupFigure(*about, unmeasured=unmeasured, error=why)


@contextmanager
def _asking(settings: Settings, most_s: float) -> Iterator[Callable[[str, Job], dict[str, Any]]]:
    """A process that is asked for a device or figure; it says why where it ends without a word."""
    worker = Worker(_gpu_bench_run.__name__)

    def ask(kind: str, job: Job) -> dict[str, Any]:
        question = {"kind": kind, "settings": asdict(settings), "job": asdict(job)}
        try:
            _, answer = worker.ask(json.dumps(question).encode(), most_s)
        except WorkerLate:
            why = f"was not done after {most_s:g} s; give it more with --most"
            return {"failed": "", "why": why}
        except WorkerDied as died:
            return {"failed": "", "why": f"its process ended with {died}"}
        told: dict[str, Any] = json.loads(answer)
        return told

    try:
        yield ask
    finally:
        worker.kill()
        worker.close()
