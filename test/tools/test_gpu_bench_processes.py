"""gpu_bench: processes that measure one group after the other, and what is asked of the figures."""

import subprocess
import sys
from dataclasses import asdict

import pytest
from gpu_bench_folder import TARGET

from rcompiler.errors import DeviceError
from rcompiler.tools import _gpu_bench_jobs
from rcompiler.tools._goals import reached
from rcompiler.tools._gpu_bench_figures import CUBLAS, GOALS, Figure
from rcompiler.tools._gpu_bench_group import Group
from rcompiler.tools._gpu_bench_jobs import measured
from rcompiler.tools._gpu_bench_run import Job, Settings
from rcompiler.tools._torch_baselines import BASELINES

GROUPS = [Group(name, "network", "f32", TARGET, policies={"wave": []}) for name in "ab"]
SETTINGS = Settings("folder", 1, 0.1, None, 1.0, 1.0)


def figures(monkeypatch, *processes):
    """Of two groups, by processes that say these lines; what each process was asked for."""
    asked, said = [], iter(processes)

    def process(jobs, settings, most_s):
        asked.append([(job.number, job.policies) for job in jobs])
        yield from next(said)

    monkeypatch.setattr(_gpu_bench_jobs, "_process", process)
    jobs = [Job(number, ["wave", "rammer"]) for number in range(2)]
    seen = []
    return list(measured(GROUPS, jobs, SETTINGS, 1.0, seen.append)), asked, seen


def done(name, **more):
    return {"figure": asdict(Figure(name, "network", "f32", TARGET, **more))}


def test_the_next_process_goes_on_without_what_failed(monkeypatch):
    first = [{"device": {"name": "d"}}, {"failed": "wave", "why": "trapped"}]
    second = [{"device": {"name": "d"}}, done("a"), done("b")]
    found, asked, seen = figures(monkeypatch, first, second)
    both = ["wave", "rammer"]
    assert asked == [[(0, both), (1, both)], [(0, ["rammer"]), (1, both)]]
    assert [f.model for f in found] == ["a", "b"] and len(seen) == 2


def test_a_group_of_which_all_policies_fail(monkeypatch):
    fails = [{"device": {}}, {"failed": "wave", "why": "one"}]
    again = [{"device": {}}, {"failed": "rammer", "why": "two"}]
    found, asked, _ = figures(monkeypatch, fails, again, [{"device": {}}, done("b")])
    assert [f.error for f in found] == ["two", ""]
    assert found[0].unmeasured == {"wave": "one", "rammer": "two"}
    assert len(asked) == 3


def test_a_process_that_dies_costs_one_group(monkeypatch):
    dies = [{"device": {}}, {"failed": "", "why": "its process ended with status -11: "}]
    found, _, _ = figures(monkeypatch, dies, [{"device": {}}, done("b")])
    assert "status -11" in found[0].error and not found[1].error


def test_no_device(monkeypatch):
    with pytest.raises(DeviceError, match="no driver"):
        figures(monkeypatch, [{"refused": "no driver"}])


@pytest.mark.parametrize(
    "code, most_s, lines, why",
    [
        ("import sys; sys.exit('the end')", 60, [], "refused"),
        (
            "print('{\"device\": 1}', file=f, flush=True); sys.exit('the end')",
            60,
            ["device"],
            "failed",
        ),
        ("print('{\"device\": 1}', file=f, flush=True); time.sleep(60)", 0.3, ["device"], "failed"),
    ],
)
def test_ends_that_are_none(tmp_path, code, most_s, lines, why):
    log, results = tmp_path / "log", tmp_path / "results"
    results.touch()
    start = f"import sys, time; f = open({str(results)!r}, 'a'); "
    with log.open("w") as out, results.open() as said:
        child = subprocess.Popen([sys.executable, "-c", start + code], stderr=out)
        try:
            found = list(_gpu_bench_jobs._followed(child, said, most_s, log, 2))
        finally:
            child.kill()
            child.wait()
    assert [next(iter(line)) for line in found] == [*lines, why]
    told = found[-1].get("why", found[-1].get("refused"))
    assert "was not done after 0.3 s" in told if most_s < 1 else "status 1: the end" in told


# -- goals ---------------------------------------------------------------------------------------
def timed(model, precision, ms, kind="network", **more):
    times = {"wave": {"p50": 2 * ms}, "rammer": {"p50": ms}}
    return Figure(model, kind, precision, TARGET, ms=times, fastest="rammer", **more)


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
