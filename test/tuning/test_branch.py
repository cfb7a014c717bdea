"""tuning/branch.py: every plan that is enumerated is legal, proved and right."""

import functools
from dataclasses import replace

import numpy as np
import pytest

from rcompiler.astra import Fork, Node, Parallel, Prefix
from rcompiler.driver.host import target_device
from rcompiler.driver.imported_model import ImportedModel
from rcompiler.errors import CompilerError
from rcompiler.frontend import import_onnx
from rcompiler.model import model_of
from rcompiler.options import CompileOptions
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools.models import build
from rcompiler.tuning import space
from rcompiler.tuning.branch import Branch, Subject
from rcompiler.tuning.launches import agree
from rcompiler.tuning.online import placements
from rcompiler.tuning.space import MEMORY, SCHEDULE

BASE = target_device("cpu")
MODELS = {
    "mlp": {"batch": 4, "layers": (96, 128, 64, 10)},
    "two_branch": {},
    "milstm": {"steps": 3, "hidden": 32},
    "lstm2": {"sequence": 4, "features": 16, "hidden": 16},
}


def imported(model, options) -> ImportedModel:
    return ImportedModel.of(import_onnx(model, None), options, BASE)


@functools.cache
def branch(name: str) -> Branch:
    options = CompileOptions("cpu", eus=2, cache=None)
    return Branch(
        Subject(imported(build(name, **MODELS[name]), options), options, BASE, BASE, "fksm")
    )


def variables(node: Node):
    seen = {}
    for variable in node.variables():
        seen.setdefault(variable.name, variable)
    return seen.values()


def results(artifact):
    with model_of(artifact) as model:
        ranges = {each.input: (each.first, each.last + 1) for each in artifact.ranges}
        return [np.array(y) for y in model(random_inputs(artifact.inputs, 0, ranges))]


@pytest.mark.parametrize("name", MODELS)
def test_every_choice_is_legal_and_right(name):
    own = branch(name)
    right = results(own.static)
    tree = space.tree({"fused": own.choices})
    tried = 0
    for variable in variables(tree):
        for choice in variable.choices[1:]:
            artifact = own.artifact({variable.name: choice})  # proved, or it raises
            exact = variable.name in (SCHEDULE, MEMORY)
            for found, wanted in zip(results(artifact), right, strict=True):
                assert agree(found, wanted, exact), (variable.name, choice)
            tried += 1
    assert tried > 0


def test_kernels_come_from_more_than_one_source():
    """Roller's cost model, and the search as it was published."""
    own = branch("mlp")
    sources = {d.source for b in own._bodies.values() for ds in b.decisions.values() for d in ds}
    assert sources == {"roller", "osdi22"}


def test_a_plan_can_be_read():
    own = branch("mlp")
    tree = space.tree({"fused": own.choices})
    kernel = next(v for v in tree.variables() if v.name.startswith("kernel"))
    rows = own.described({kernel.name: kernel.choices[1], SCHEDULE: "bsp on 2"})
    assert rows[1] == (SCHEDULE, "bsp on 2")
    assert "tile " in rows[0][1] and " in registers, by " in rows[0][1]
    assert not rows[0][0].startswith("kernel")


def test_what_is_enumerated_is_a_matter_of_the_model_alone():
    """Rename everything: the same tree (and so the same keys)."""
    proto = build("mlp", **MODELS["mlp"])
    for number, node in enumerate(proto.graph.node):
        node.name = f"renamed {number}"
    options = CompileOptions("cpu", eus=2, cache=None)
    renamed = Branch(Subject(imported(proto, options), options, BASE, BASE, "fksm"))
    texts = [space.text(space.tree({"fused": b.choices})) for b in (renamed, branch("mlp"))]
    assert texts[0] == texts[1]


def test_the_static_plan_is_the_first_choice_of_everything():
    own = branch("mlp")
    tree = space.tree({"fused": own.choices})
    static = {}
    tree.default(static)
    assert own.artifact(static).provenance["schedule"] == own.static.provenance["schedule"]


def test_times_of_segments_add_up_to_the_last_end():
    own = branch("milstm")
    with model_of(own.static, timed=True) as model:
        model(random_inputs(own.static.inputs))
        columns = model.times()
        scopes = own.scopes(columns)
    assert {*scopes} == {segment.scope for segment in own.choices.segments}
    assert sum(scopes.values()) == pytest.approx(max(columns["end_ns"]))


def test_dimensions_that_are_left_out_are_not_explored():
    options = CompileOptions("cpu", eus=2, cache=None)
    subject = Subject(imported(build("mlp", **MODELS["mlp"]), options), options, BASE, BASE, "")
    own = Branch(subject)
    with pytest.raises(ValueError, match="nothing to choose"):
        space.tree({"fused": own.choices})
    own = Branch(replace(subject, dimensions="k"))
    tree = space.tree({"fused": own.choices})
    assert all(v.name.startswith("kernel ") for v in tree.variables())


@pytest.mark.parametrize(
    ("options", "schedules"),
    [
        ({"policy": "wave"}, ["wave on 2", "wave on 1"]),
        ({"policy": "rammer"}, ["rammer on 2", "list on 2", "bsp on 2", "rammer on 1"]),
        ({"eus": 1}, ["rammer on 1"]),
        ({"eus": 8}, [*(f"{p} on 8" for p in ("rammer", "list", "bsp")), "rammer on 4",
                      "rammer on 1"]),
    ],
)  # fmt: skip
def test_what_was_asked_for_is_kept(options, schedules):
    """A policy that was named; and no plan has more EUs."""
    chosen = CompileOptions("cpu", **{"eus": 2, "cache": None, **options})
    model = imported(build("mlp", **MODELS["mlp"]), chosen)
    assert Branch(Subject(model, chosen, BASE, BASE, "s")).schedules() == schedules


def test_a_plan_that_names_what_is_none_is_refused():
    with pytest.raises((CompilerError, KeyError)):
        branch("mlp").artifact({SCHEDULE: "guess on 2"})


def test_plans_of_traffic_share_weights_and_bits():
    own = branch("milstm")
    found = placements(own)
    assert len(found) > 1 and next(iter(found.values())) is own.static
    right = results(own.static)
    for artifact in found.values():
        assert artifact.constants is own.static.constants
        for one, two in zip(results(artifact), right, strict=True):
            assert np.array_equal(one, two)
    digests = [artifact.provenance["schedule"] for artifact in found.values()]
    assert len({*digests}) == len(digests)


def test_strategies_of_memory_are_what_they_say():
    own = branch("lstm2")
    arenas = {m: own.artifact({MEMORY: m}).arena_bytes for m in ("auto", "reuse", "apart")}
    assert arenas["auto"] <= arenas["reuse"] < arenas["apart"]


def test_results_that_are_none_of_a_plan():
    one = np.array([1.0, 2.0], np.float32)
    assert agree(one, one.copy(), True)
    assert not agree(one * np.float32(1 + 1e-6), one, True)
    assert agree(one * np.float32(1 + 1e-6), one, False)
    assert not agree(one * np.float32(1.01), one, False)
    none = np.where(one == one.flat[0], np.float32(np.nan), one)
    assert not agree(none, one, False) and not agree(one, none, False)
    assert not agree(np.array([1, 3]), np.array([1, 2]), False)
    assert agree(one.astype(np.float16) * np.float16(1.005), one.astype(np.float16), False)


def test_trees_are_of_the_kinds_that_astra_has():
    tree = space.tree({"fused": branch("milstm").choices, "unfused": branch("mlp").choices})
    assert isinstance(tree, Fork)
    for body in tree.bodies.values():
        assert isinstance(body, Prefix) or isinstance(body.parts[0], Parallel)
