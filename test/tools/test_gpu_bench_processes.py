"""gpu_bench: processes that measure one group after the other, and what is asked of the figures."""

import json
from dataclasses import asdict, replace

import pytest
from gpu_bench_folder import TARGET
from measurements import _gpu_bench_jobs
from measurements._gpu_bench_figures import CUBLAS, GOALS, GroupFigure
from measurements._gpu_bench_group import Group
from measurements._gpu_bench_jobs import measured
from measurements._gpu_bench_run import Job, Settings
from measurements._shared import reached
from measurements._torch_baselines import BASELINES

from rcompiler.errors import DeviceError
from rcompiler.support.workers import WorkerDied, WorkerLate

GROUPS = [Group(name, "network", "f32", TARGET, policies={"wave": []}) for name in "ab"]
SETTINGS = Settings("folder", 1, 0.1, None, 1.0, 1.0)


class Scripted:
    """In the place of a worker: says these lines, and notes what it was asked."""

    def __init__(self, lines, asked):
        self._lines, self._asked = iter(lines), asked

    def ask(self, question, most_s):
        given = json.loads(question)
        if given["kind"] == "figure":
            self._asked.append((given["job"]["number"], given["job"]["policies"]))
        line = next(self._lines)
        if isinstance(line, Exception):
            raise line
        return 0, json.dumps(line).encode()

    def kill(self):
        pass

    close = kill


def figures(monkeypatch, *processes):
    """Of two groups, by processes that say these lines; what each process was asked for."""
    asked, said = [], iter(processes)

    def process(_):
        asked.append([])
        return Scripted(next(said), asked[-1])

    monkeypatch.setattr(_gpu_bench_jobs, "Worker", process)
    jobs = [Job(number, ["wave", "rammer"]) for number in range(2)]
    seen = []
    return list(measured(GROUPS, jobs, SETTINGS, 1.0, seen.append)), asked, seen


def done(name, **more):
    return {"figure": asdict(GroupFigure(name, "network", "f32", TARGET, **more))}


def test_the_next_process_goes_on_without_what_failed(monkeypatch):
    first = [{"device": {"name": "d"}}, {"failed": "wave", "why": "trapped"}]
    second = [{"device": {"name": "d"}}, done("a"), done("b")]
    found, asked, seen = figures(monkeypatch, first, second)
    both = ["wave", "rammer"]
    assert asked == [[(0, both)], [(0, ["rammer"]), (1, both)]]
    assert [f.model for f in found] == ["a", "b"] and len(seen) == 2


def test_a_group_of_which_all_policies_fail(monkeypatch):
    fails = [{"device": {}}, {"failed": "wave", "why": "one"}]
    again = [{"device": {}}, {"failed": "rammer", "why": "two"}]
    found, asked, _ = figures(monkeypatch, fails, again, [{"device": {}}, done("b")])
    assert [f.error for f in found] == ["two", ""]
    assert found[0].unmeasured == {"wave": "one", "rammer": "two"}
    assert len(asked) == 3


def test_a_process_that_dies_costs_one_group(monkeypatch):
    dies = [{"device": {}}, WorkerDied(-11, " (the end)")]
    found, _, _ = figures(monkeypatch, dies, [{"device": {}}, done("b")])
    assert found[0].error == "its process ended with status -11 (the end)" and not found[1].error


def test_a_process_that_is_late_costs_one_group(monkeypatch):
    late = [{"device": {}}, WorkerLate(-9, "")]
    found, _, _ = figures(monkeypatch, late, [{"device": {}}, done("b")])
    assert found[0].error == "was not done after 1 s; give it more with --most"
    assert not found[1].error


@pytest.mark.parametrize(
    "said", [{"failed": "", "why": "no driver"}, WorkerDied(1, " (no driver)")]
)
def test_no_device(monkeypatch, said):
    with pytest.raises(DeviceError, match="no driver"):
        figures(monkeypatch, [said])


def test_a_process_that_fails_tells_its_last_words(tmp_path):
    """A folder without groups; the process is a real one."""
    settings = replace(SETTINGS, folder=str(tmp_path))
    with pytest.raises(DeviceError, match=r"status 1 \(IndexError: "):
        list(measured(GROUPS, [Job(0, ["wave"])], settings, 60.0, print))


# -- goals ---------------------------------------------------------------------------------------
def timed(model, precision, ms, kind="network", **more):
    times = {"wave": {"p50": 2 * ms}, "rammer": {"p50": ms}}
    return GroupFigure(model, kind, precision, TARGET, ms=times, fastest="rammer", **more)


def test_goals():
    assert {goal["met"] for goal in reached(GOALS, [])} == {None}
    found = [
        timed("lstm_tc", "f32", 0.6),
        timed("lstm_tc", "tf32", 0.2),
        timed("alexnet", "f32", 0.24),
        timed("resnet50", "f32", 0.1),  # it asks for f16
        timed("gemm 1", "f16", 1.0, "gemm", device_ratio={CUBLAS: 0.9, "torch": 0.1}),
        timed("gemm 2", "f16", 1.0, "gemm", device_ratio={CUBLAS: 0.7}),
    ]
    values = {goal["goal"].split(",")[0]: goal for goal in reached(GOALS, found)}
    assert values["lstm_tc"]["value"] == pytest.approx(1.5) and values["lstm_tc"]["met"]
    assert values["alexnet"]["value"] == pytest.approx(0.5) and not values["alexnet"]["met"]
    assert values["resnet50"]["met"] is None
    assert values["gemm: least ratio over cuBLAS >= 80%"]["value"] == 0.7


def test_rates_are_those_of_our_fastest():
    more = {"flops": 2 * 10**9, "expected_ms": {"wave": 1.0, "rammer": 1.0}}
    figure = timed(
        "g", "f16", 1.0, "gemm", device_ms={"wave": 2.0, "rammer": 1.0, CUBLAS: 0.5}, **more
    )
    assert figure.tflops == pytest.approx(2.0)
    assert set(BASELINES) >= {CUBLAS}
