"""The same bits for any number of EUs and any policy: a schedule moves work, never changes it."""

import numpy as np
import pytest
from turns import turn_of

import rcompiler
from rcompiler.model import CompiledModel
from rcompiler.rammer.schedule import POLICIES
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools import models

# Small sizes of real networks: branches, products, convolutions, recurrence, attention.
NETWORKS = {
    "two_branch": {"rows": 96, "width": 192},
    "mlp": {"batch": 5, "layers": (70, 130, 33)},
    "unet": {"image": 16, "width": 8, "depth": 1},
    "lstm2": {"sequence": 4, "features": 24, "hidden": 32, "layers": 1},
    "tiny_llama": {
        "sequence": 6,
        "layers": 1,
        "hidden": 32,
        "heads": 4,
        "kv_heads": 2,
        "inner": 48,
    },
}
PLANS = [
    *(("rammer", eus) for eus in (1, 2, 3, 8)),
    *(("list", eus) for eus in (1, 2, 5)),
    *(("dynamic", eus) for eus in (1, 2, 3)),
    *(("base", 3), ("wave", 2), ("wave", 8), ("bsp", 3), ("merge", 2)),
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def bits(outputs):
    return [y.tobytes() for y in outputs]


@pytest.mark.parametrize("name", turn_of(NETWORKS, 2))
def test_every_policy_and_number_of_eus_gives_the_same_bits(name, cache):
    proto = models.build(name, **NETWORKS[name])
    expected = feeds = None
    assert {policy for policy, _ in PLANS} == set(POLICIES)
    for policy, eus in PLANS:
        model = rcompiler.compile_onnx(proto, policy=policy, eus=eus, cache=cache)
        feeds = feeds or random_inputs(model.inputs)
        expected = expected or bits(model(**feeds))
        assert np.isfinite(model(**feeds)[0]).all()
        for _ in range(3):
            assert bits(model(**feeds)) == expected, (policy, eus)
        model.close()


@pytest.mark.parametrize("name", NETWORKS)
def test_whoever_decides_the_tiles_gives_the_same_bits(name, cache):
    proto = models.build(name, **NETWORKS[name])
    model, published = (
        rcompiler.compile_onnx(proto, roller_policy=policy, eus=2, cache=cache)
        for policy in ("roller", "osdi22")
    )
    feeds = random_inputs(model.inputs)
    assert bits(published(**feeds)) == bits(model(**feeds))
    operators = published.report().operators
    assert {op.source for op in operators} >= {"osdi22"}
    for op in operators:
        assert (op.source == "osdi22") != ("decided by policy roller" in op.reason), op.reason
    assert published.artifact.provenance["roller_policy"] == "osdi22"
    published.close()
    model.close()


@pytest.mark.parametrize("policy", ["rammer", "dynamic"])
def test_any_number_of_threads_gives_the_same_bits(policy, cache):
    """More threads than CPUs only when asked for; slow then, but it ends."""
    proto = models.build("two_branch", **NETWORKS["two_branch"])
    artifact = rcompiler.compile_onnx(proto, eus=8, policy=policy, cache=cache).artifact
    feeds, expected = None, None
    for threads in (1, 2, 3, 8, 100):
        model = CompiledModel(artifact, threads)
        assert model.eus == min(threads, 8)
        feeds = feeds or random_inputs(model.inputs)
        found = [bits(model(**feeds)) for _ in range(20)]
        expected = expected or found[0]
        assert found == [expected] * 20
        model.close()


def test_compiling_again_gives_the_same_file(cache, tmp_path):
    proto = models.build("unet", **NETWORKS["unet"])
    for name, folder in (("a", cache), ("b", False), ("c", cache)):
        rcompiler.compile_onnx(proto, eus=2, cache=folder).save(tmp_path / name)
    contents = {(tmp_path / name).read_bytes() for name in "abc"}
    assert len(contents) == 1
