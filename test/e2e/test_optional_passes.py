"""An optional pass that fails costs time, not the model: a fault in each of them."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from torch_mlir import ir

import rcompiler
from rcompiler.compile import operators_of
from rcompiler.device.cpu import cpu_device
from rcompiler.errors import CompilerError, OptionalPassWarning, ShapeError
from rcompiler.passes import Pass, PassFailure, _reproducer, find, names
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools import rc_opt
from rcompiler.tools._reference import compare, reference

OPTIONAL = [name for name in names("passes") if find(name).without is not Pass.without]
FUSED = ("rtask-lift-scales",)  # for CPUs that fuse multiply and add
ON_GPU = ("rtask-expand-products", "rtask-turn-bytes", "vdevice-pin", "vdevice-prefetch")


@pytest.fixture(scope="module")
def proto():
    """A convolution, two products of one operand, a softmax and a long sum."""
    random = np.random.default_rng(0)
    weights = {
        "w": random.standard_normal((8, 4, 3, 3)) / 4,
        "a": random.standard_normal((32, 16)) / 4,
        "b": random.standard_normal((32, 16)) / 4,
        "c": random.standard_normal((16, 8)) / 4,
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["conv"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Reshape", ["conv", "rows"], ["flat"], "flat"),
        helper.make_node("MatMul", ["flat", "a"], ["left"], "left"),
        helper.make_node("MatMul", ["flat", "b"], ["right"], "right"),
        helper.make_node("Mul", ["left", "right"], ["both"], "both"),
        helper.make_node("Softmax", ["both"], ["soft"], "soft"),
        helper.make_node("MatMul", ["soft", "c"], ["y"], "last"),
    ]
    constants = [numpy_helper.from_array(v.astype("f"), k) for k, v in weights.items()]
    constants.append(numpy_helper.from_array(np.array([16, 32]), "rows"))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [16, 8])
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def options_for(name):
    if name in ON_GPU:
        return {"target": "cuda:emulated", "precision": "tf32"}
    return {"target": "cpu:v3" if name in FUSED else "cpu:x86-64"}


def compiled(proto, folder, **options):
    return rcompiler.compile_onnx(proto, eus=2, cache=folder, **options)


def assert_right(model, proto, tolerance=None):
    feeds = random_inputs(model.inputs)
    [expected] = reference(proto, feeds)[1]
    [found] = model(**feeds)
    assert compare(found, expected, tolerance).right


def broken(at_work):
    """A pass's `run` that does its work, or does not, and then looks at an op and raises."""

    def run(self, module):
        function = module.regions[0].blocks[0].operations[0].operation
        looked_at = function.regions[0].blocks[0].operations[0].operation
        raise ZeroDivisionError(f"seeded in {looked_at.name}")

    def after(self, module, own=at_work):
        own(self, module)
        run(self, module)

    return after if at_work else run


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_fault_in_an_optional_pass(name, proto, tmp_path, monkeypatch):
    if name == "rtask-form":  # what stands in for it is the same pass with another option
        own = find(name).run
        fails = broken(None)
        monkeypatch.setattr(
            find(name), "run", lambda self, m: (fails if self.fusion else own)(self, m)
        )
    else:
        monkeypatch.setattr(find(name), "run", broken(None))
    with pytest.warns(OptionalPassWarning) as caught:
        model = compiled(proto, tmp_path, **options_for(name))
    [text] = [str(warning.message) for warning in caught]
    assert f"'{name}', which failed at " in text and "ZeroDivisionError: seeded in " in text
    assert caught[0].filename == __file__
    assert_right(model, proto, 0.02 if name in ON_GPU else None)
    assert f"without the optional pass '{name}'" in model.report().note
    assert model.artifact.provenance["passes left out"] == name
    reproducer = Path(text.rpartition("report it with ")[2])
    pipeline, _ = _reproducer.read("r", reproducer.read_text())
    assert pipeline.startswith(name) and reproducer.parent == tmp_path / "reproducers"
    monkeypatch.undo()
    if name not in ("vdevice-pin", "vdevice-prefetch"):  # whose texts need no weights either
        assert rc_opt.main(["--run-reproducer", str(reproducer), "-o", str(tmp_path / "o")]) == 0


def test_without_a_fault_there_is_no_warning(proto, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = compiled(proto, tmp_path)
    assert not model.report().note and "passes left out" not in model.artifact.provenance
    assert not (tmp_path / "reproducers").exists()


def test_a_fault_halfway_through_the_work(proto, tmp_path, monkeypatch):
    stitch = find("rtask-stitch")
    monkeypatch.setattr(stitch, "run", broken(stitch.run))
    with pytest.warns(OptionalPassWarning, match="'rtask-stitch'"):
        assert_right(compiled(proto, tmp_path), proto)


def test_operators_for_a_profiler(proto, monkeypatch):
    monkeypatch.setattr(find("rtask-stitch"), "run", broken(None))
    with (
        pytest.warns(OptionalPassWarning, match="'rtask-stitch'") as caught,
        operators_of(proto, cpu_device("v3")) as module,
    ):
        assert "rtask.operator" in str(module)
    assert caught[0].filename == __file__


def test_two_faults(proto, tmp_path, monkeypatch):
    for name in ("rtask-stitch", "rtask-fuse-axes"):
        monkeypatch.setattr(find(name), "run", broken(None))
    with pytest.warns(OptionalPassWarning) as caught:
        model = compiled(proto, tmp_path)
    assert len(caught) == 2 and len(model.report().note.splitlines()) == 2
    assert_right(model, proto)


def test_what_a_pass_makes_and_nothing_can_take(proto, tmp_path, monkeypatch):
    """The pass does not fail itself: what comes after it does."""
    pack = find("rtask-pack-weights")
    own = pack.run

    def run(self, module):
        own(self, module)
        module.attributes["poisoned"] = ir.UnitAttr.get(module.context)

    tile = find("roller-tile")
    tiled = tile.run

    def refuse(self, module):
        if "poisoned" in module.attributes:
            raise PassFailure(module, "something is wrong")
        tiled(self, module)

    monkeypatch.setattr(pack, "run", run)
    monkeypatch.setattr(tile, "run", refuse)
    with pytest.warns(OptionalPassWarning) as caught:
        model = compiled(proto, tmp_path)
    texts = [str(warning.message) for warning in caught]
    assert "'rtask-pack-weights'" in texts[0] and "what comes after it fails" in texts[0]
    assert not any(name in text for text in texts for name in ("winograd", "block-channels"))
    assert_right(model, proto)


def test_a_fault_in_a_pass_that_must_run_is_an_error_of_its_own(proto, tmp_path, monkeypatch):
    monkeypatch.setattr(find("roller-tile"), "run", broken(None))
    with pytest.raises(CompilerError, match="roller-tile: ZeroDivisionError.*defect"):
        compiled(proto, tmp_path)


def test_what_the_user_can_mend_is_no_fault_of_a_pass(proto, monkeypatch):
    """It is told at once: nothing is compiled again."""
    tries = []

    def refuse(self, module):
        tries.append(self)
        raise ShapeError("too long")

    monkeypatch.setattr(find("rammer-schedule"), "run", refuse)
    with pytest.raises(ShapeError, match="too long"):
        compiled(proto, False)
    assert len(tries) == 1


def test_passes_that_must_run_say_so():
    class Must(Pass):
        def run(self, module):
            raise NotImplementedError

    assert Must().without() is None
    must = {"fold-constants", "rammer-schedule", "roller-tile", "rtask-dce", "rtask-round-factors"}
    assert must & set(OPTIONAL) == set() and "rtask-form" in OPTIONAL
