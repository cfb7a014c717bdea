"""A step of training: loss, gradients and new parameters, in all schedules."""

import numpy as np
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from small_networks import SMALL

from rcompiler.compile import compile_policies
from rcompiler.options import Scheduler
from rcompiler.tools import models
from rcompiler.tools.models.training import RATE

POLICIES = ["base", "wave", "rammer", "list"]


@pytest.fixture(scope="module")
def step():
    """The model, and a batch of it."""
    model = models.build("convnet_training", **SMALL["convnet_training"])
    rng = np.random.default_rng(0)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    images = rng.standard_normal(shape, dtype=np.float32)
    return model, {"input": images, "labels": rng.integers(0, 10, shape[0])}


@pytest.mark.parametrize("eus", [1, 2, 5])
def test_all_schedules_give_the_reference(step, eus, monkeypatch):
    monkeypatch.setenv("RC_CACHE_DIR", "")
    model, batch = step
    names = [output.name for output in model.graph.output]
    expected = dict(zip(names, ReferenceEvaluator(model).run(None, batch), strict=True))
    old = {w.name: numpy_helper.to_array(w) for w in model.graph.initializer}
    bits = set()
    for compiled in compile_policies(model, [*map(Scheduler, POLICIES)], eus=eus).values():
        found = dict(zip(names, compiled(**batch), strict=True))
        compiled.close()
        np.testing.assert_allclose(found["loss"], expected["loss"], rtol=1e-5)
        for name in names[1:]:
            # how far the step goes is what is computed: less than the parameter itself
            before = old[name.removesuffix(".updated")]
            moved, right = found[name] - before, expected[name] - before
            assert np.abs(moved - right).max() < 1e-3 * np.abs(right).max(), name
        bits.add(b"".join(found[name].tobytes() for name in names))
    assert len(bits) == 1


def test_the_gradients_are_those_of_the_loss(step):
    """Against differences of the mean loss, in the direction of each parameter's gradient."""
    model, batch = step
    old = {w.name: w for w in model.graph.initializer}
    results = dict(
        zip(
            (output.name for output in model.graph.output),
            ReferenceEvaluator(model).run(None, batch),
            strict=True,
        )
    )
    assert {f"{name}.updated" for name in old} == set(results) - {"loss"}
    for name, tensor in old.items():
        value = numpy_helper.to_array(tensor)
        gradient = (value - results[f"{name}.updated"]).astype(np.float64) / RATE
        length = np.linalg.norm(gradient)
        losses = []
        for side in (-1, 1):
            moved = value + np.float32(side * 0.01) * (gradient / length).astype(np.float32)
            changed = type(model)()
            changed.CopyFrom(model)
            for weight in changed.graph.initializer:
                if weight.name == name:
                    weight.CopyFrom(numpy_helper.from_array(moved.astype(np.float32), name))
            losses.append(ReferenceEvaluator(changed).run(["loss"], batch)[0].mean(dtype=float))
        assert (losses[1] - losses[0]) / 0.02 == pytest.approx(length, rel=0.02), name
