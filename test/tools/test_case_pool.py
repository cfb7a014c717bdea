"""The pool of workers: every way in which a case can end is an outcome."""

import os
import signal
import time

import pytest
from measurements import _case_pool
from measurements._case_pool import Verdict, run_cases


def job(case, report):
    report(f"about {case}")
    kind = case.rstrip("0123456789")
    if kind == "abort":
        os.write(2, b"LLVM ERROR: out of luck\n")
        os.kill(os.getpid(), signal.SIGABRT)
    if kind == "exit":
        os._exit(3)
    if kind == "hang":
        time.sleep(60)
    if kind == "nap":
        time.sleep(3)
    return Verdict("pass", f"{os.getpid()}", {"kind": kind})


def outcomes(*cases, workers=2, timeout_s=20.0):
    found = list(run_cases(cases, job, workers, timeout_s))
    assert len(found) == len(cases)
    return {outcome.case: outcome for outcome in found}


def test_workers_are_kept():
    found = outcomes(*(f"ok{i}" for i in range(20)))
    assert {o.status for o in found.values()} == {"pass"}
    assert len({o.reason for o in found.values()}) <= 2
    assert found["ok7"].subject == "about ok7" and found["ok7"].facts == {"kind": "ok"}


@pytest.mark.parametrize(
    "bad, reason", [("abort", "SIGABRT: LLVM ERROR: out of luck"), ("exit", "exit code 3")]
)
def test_a_crash_is_an_outcome(bad, reason):
    found = outcomes("ok1", bad, "ok2", f"{bad}2", "ok3")
    assert (found[bad].status, found[bad].reason) == ("crash", reason)
    assert found[bad].subject == f"about {bad}"
    assert [found[f"ok{i}"].status for i in (1, 2, 3)] == ["pass"] * 3


def test_a_hang_is_an_outcome():
    found = outcomes("hang", "ok1", "ok2", workers=1, timeout_s=0.5)
    assert (found["hang"].status, found["hang"].reason) == ("crash", "no result in time")
    assert found["ok2"].status == "pass"


def test_time_while_all_processes_were_stopped_does_not_count(monkeypatch):
    """As by Ctrl-Z: waiting took longer than was asked for."""
    wait, longer = _case_pool.connection.wait, [1.6]

    def stopped(pipes, pause):
        time.sleep(pause + longer.pop() if longer else 0)
        return wait(pipes, pause)

    monkeypatch.setattr(_case_pool, "_STOPPED_S", 0.5)
    monkeypatch.setattr(_case_pool.connection, "wait", stopped)
    assert outcomes("nap", timeout_s=2.0)["nap"].status == "pass"


def test_nothing_to_do():
    assert outcomes() == {}
