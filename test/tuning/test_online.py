"""tuning/online.py: requests explore, each answers once; on simulated devices, and with a model."""

import random
import threading
from dataclasses import replace

import numpy as np
import pytest
from simulated import ENVIRONMENT

import rcompiler
from rcompiler.astra import Explorer, Leaf, Measurements, Settings, Variable
from rcompiler.astra.budget import Budget
from rcompiler.astra.explorer import EXPLORATION, FROZEN
from rcompiler.astra.variables import WHOLE
from rcompiler.errors import CompilerError, DroppedPlanWarning
from rcompiler.profiler.index import ProfileIndex
from rcompiler.profiler.storage import NAME
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools import rc_compile
from rcompiler.tools.models import build
from rcompiler.tuning import online
from rcompiler.tuning.anchor import Anchor
from rcompiler.tuning.online import PLACEMENT, OnlineChooser

QUICK = Settings(calibration=4, duel=10, apart_s=0.0)


class Machine:
    """Plans that take what a list says, in ns, and a clock that only they move."""

    def __init__(self, costs, *, settings=QUICK, budget=None, seed=0, jitter=0.01, **options):
        names = tuple(f"p{number}" for number in range(len(costs)))
        tree = Leaf(Variable(PLACEMENT, names, WHOLE))
        budget = budget or Budget()
        self.times = options.pop("times", Measurements())
        explorer = Explorer(tree, self.times, ENVIRONMENT, settings=settings, budget=budget)
        numbers = {name: number for number, name in enumerate(names)}
        self.settled = 0
        self.chooser = OnlineChooser(
            explorer, numbers, clock=lambda: self.now, settled=self._settled, **options
        )
        self.costs, self.jitter, self.random = costs, jitter, random.Random(seed)
        self.now = self.total = 0.0
        self.requests = 0
        self.latencies: list[float] = []

    def _settled(self) -> None:
        self.settled += 1

    def serve(self, requests: int, wrong=(), stops=()) -> None:
        """wrong, stops: numbers of plans with other results, and of those that stop."""
        served = 0
        while served < requests:
            launch = self.chooser.next()
            served += 1 + launch.skip
            took = self._take(launch.plan)
            if launch.plan in stops and launch.plan != self.chooser.serving:
                self.chooser.failed(2e9, "it stopped")
                took += 2e9 + self._take(self.chooser.serving)
            else:
                assert launch.timed
                self.chooser.ran(int(took), 0)
                if launch.shadow:
                    shadow = self._take(self.chooser.serving)
                    took += shadow
                    if launch.plan in wrong:
                        self.chooser.failed(int(shadow), "other results")
                    else:
                        self.chooser.shadowed(int(shadow))
            self._spend(took)
            for _ in range(launch.skip):
                self._spend(self._take(self.chooser.serving))
        self.requests += served

    def _take(self, plan: int) -> float:
        return self.costs[plan] * (1 + self.jitter * self.random.random())

    def _spend(self, ns: float) -> None:
        self.latencies.append(ns)
        self.total += ns
        self.now += ns / 1e9


def test_the_fastest_plan_serves_in_the_end():
    own = Machine([1e6, 1.2e6, 0.8e6])
    assert own.chooser.serving == 0
    own.serve(20000)
    assert own.chooser.explorer.phase == FROZEN and own.chooser.serving == 2
    assert own.chooser.explorer.won == pytest.approx(0.8, rel=0.03)
    # three phases, and two trials besides the plan that serves
    assert own.chooser.explorer.settled == 3 and own.settled >= 4


@pytest.mark.parametrize("worse", [1.05, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_ten_thousand_requests_of_which_trials_take_two_percent(worse, seed):
    """All plans are worse: the static one stays, and p95 is what it was."""
    own = Machine([1e6] + [worse * 1e6] * 5, seed=seed)
    own.serve(10000)
    assert own.chooser.serving == 0
    static = sum(own._take(0) for _ in range(len(own.latencies)))
    assert own.total <= 1.02 * 1.01 * static + 2 * worse * 1e6
    usual = np.percentile([own._take(0) for _ in range(2000)], 95)
    assert np.percentile(own.latencies, 95) <= 1.25 * usual


def test_a_plan_with_other_results_is_dropped_for_good():
    own = Machine([1e6, 0.5e6])
    with pytest.warns(DroppedPlanWarning, match="plan 'p1' was dropped: other results"):
        own.serve(2000, wrong=(1,))
    assert own.chooser.serving == 0 and own.chooser.explorer.phase == FROZEN
    again = Machine([1e6, 0.5e6], times=own.times)
    again.serve(500)
    assert again.chooser.serving == 0


def test_a_plan_that_stops_is_dropped_for_good():
    own = Machine([1e6, 0.5e6, 0.9e6])
    with pytest.warns(DroppedPlanWarning, match="plan 'p1' was dropped: it stopped"):
        own.serve(200_000, stops=(1,))
    assert own.chooser.serving == 2 and own.chooser.explorer.phase == FROZEN


def test_the_first_runs_of_a_plan_are_shadows():
    own = Machine([1e6, 0.9e6])
    own.serve(20000)
    assert own.chooser.shadows == 3 and own.chooser.serving == 1


def test_launches_that_nobody_looks_at_pay_for_trials():
    own = Machine([1e6, 1e6])
    own.serve(100)
    explorer = own.chooser.explorer
    assert explorer.budget.served_ns == pytest.approx(own.total, rel=0.15)


def test_trials_wait_while_the_machine_is_not_as_usual():
    own = Machine([1e6, 0.5e6], anchor=lambda: 1.5)
    own.serve(3000)
    assert own.chooser.explorer.believed == 0 and own.chooser.serving == 0


def test_a_second_process_goes_on():
    one = Machine([1e6, 1.2e6, 0.8e6])
    one.serve(20000)
    two = Machine([1e6, 1.2e6, 0.8e6], times=one.times)
    assert two.chooser.explorer.phase == FROZEN and two.chooser.serving == 2


def test_an_anchor_says_how_fast_the_machine_is():
    anchor = Anchor()
    assert [anchor.read() for _ in range(5)] == [1.0] * 5
    assert 0.05 < anchor.read() < 20


# -- with a model ----------------------------------------------------------------------------------
MODEL = build("milstm", steps=3, hidden=32)


@pytest.fixture
def quick(monkeypatch):
    """Explores fast, whatever other programs do."""
    monkeypatch.setattr(
        online,
        "Settings",
        lambda: replace(QUICK, gap=9.0, anchor=9.0),
    )
    monkeypatch.setattr(online, "Budget", lambda share: Budget(share=9.0, start=1 << 62))


def test_every_answer_is_the_reference_and_the_plan_is_kept(tmp_path, quick):
    plain = rcompiler.compile_onnx(MODEL, eus=2, cache=tmp_path)
    feeds = random_inputs(plain.inputs)
    right = plain(feeds)
    model = rcompiler.compile_onnx(MODEL, eus=2, cache=tmp_path, tune="online")
    chooser = model.plans.chooser
    assert chooser.explorer.phase != FROZEN
    requests = 0
    while chooser.explorer.phase != FROZEN and requests < 20_000:
        requests += 1
        for found, wanted in zip(model(feeds), right, strict=True):
            assert np.array_equal(found, wanted)
    assert chooser.explorer.phase == FROZEN and chooser.shadows >= 3
    for thread in threading.enumerate():
        if thread.name == "rcompiler plans":
            thread.join()
    served = model.artifact.provenance["schedule"]
    index = ProfileIndex(tmp_path / NAME)
    kinds = [line for line in index.export() if '"kind": "plan"' in line]
    assert len(kinds) == 1 and any('"kind": "trial"' in line for line in index.export())
    index.close()
    again = rcompiler.compile_onnx(MODEL, eus=2, cache=tmp_path, tune="online")
    assert again.plans is None and again.artifact.provenance["schedule"] == served
    for each in (plain, model, again):
        each.close()


def test_a_model_that_explores_can_be_copied_saved_and_closed(tmp_path, quick):
    import copy
    import pickle

    feeds = None
    with rcompiler.compile_onnx(MODEL, eus=2, cache=tmp_path, tune="online") as model:
        feeds = random_inputs(model.inputs)
        right = [np.array(y) for y in model(feeds)]
        for other in (copy.copy(model), pickle.loads(pickle.dumps(model))):
            assert other.plans is None
            assert all(map(np.array_equal, other(feeds), right))
            other.close()
        model.save(tmp_path / "m.rcx")
    with rcompiler.load(tmp_path / "m.rcx") as loaded:
        assert all(map(np.array_equal, loaded(feeds), right))


def test_while_it_explores_threads_may_call_at_once(tmp_path, quick):
    with rcompiler.compile_onnx(MODEL, eus=2, cache=tmp_path, tune="online") as model:
        feeds = random_inputs(model.inputs)
        right = [np.array(y) for y in model(feeds)]
        wrong = []

        def call() -> None:
            for _ in range(300):
                if not all(map(np.array_equal, model(feeds), right)):
                    wrong.append(1)

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong and model.plans.chooser.explorer.phase in (EXPLORATION, FROZEN, "duel")


def test_one_eu_leaves_little_to_choose(tmp_path):
    with rcompiler.compile_onnx(MODEL, eus=1, cache=False, tune="online") as model:
        assert len(model(random_inputs(model.inputs))) == 1


@pytest.mark.parametrize(
    ("tune", "budget", "message"),
    [
        ("off", 1.0, "is for tune='warmup' and 'online'"),
        ("kernels", 1.0, "is for tune="),
        ("online", 2.0, "a share up to 1"),
        ("online", 0.0, "a share up to 1"),
        ("warmup", -1.0, "give seconds, above 0"),
        ("warmup", float("inf"), "give seconds"),
        ("warmup", float("nan"), "give seconds"),
        ("warmup", True, "give seconds"),
        ("warmup", "60", "give seconds"),
    ],
)
def test_budgets_that_are_none(tune, budget, message):
    with pytest.raises(CompilerError, match=message):
        rcompiler.compile_onnx(MODEL, tune=tune, tune_budget=budget)


def test_a_tool_has_no_traffic(tmp_path, capsys):
    assert rc_compile.main(["two_branch", "--tune=online", f"-o{tmp_path / 'm.rcx'}"]) == 1
    assert "explores while a program serves" in capsys.readouterr().err


def test_what_is_explored_runs_on_this_machine():
    with pytest.raises(CompilerError, match="is a GPU"):
        rcompiler.compile_onnx(MODEL, target="cuda:h200", tune="online")
