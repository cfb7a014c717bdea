"""The networks of Rammer's evaluation, small: right, and of equal bits in all schedules."""

import itertools

import numpy as np
import onnxruntime
import pytest
from small_networks import FORMS, SMALL

import rcompiler
from rcompiler.tools import models
from rcompiler.tools._data import random_inputs

NAMES = ("alexnet", "inception_v3", "nas_cells", "nasnet_a", "nasnet_mobile", *FORMS)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize(
    "name, options",
    [
        *((name, {}) for name in NAMES),
        *((name, {"form": form}) for name, forms in FORMS.items() for form in forms),
        *(("nas_cells", {"seed": seed}) for seed in (1, 2, 3)),
    ],
)
def test_policies_agree_with_onnxruntime(name, options, cache):
    proto = models.build(name, **SMALL[name], **options)
    results = []
    for policy, eus in itertools.product(("base", "wave", "rammer"), (1, 3)):
        model = rcompiler.compile_onnx(proto, eus=eus, policy=policy, cache=cache)
        feeds = random_inputs(model.inputs, 0)
        results.append(model(**feeds)[0])
    assert all(np.array_equal(result, results[0]) for result in results)
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)
    error = np.abs(results[0] - expected).max()
    assert error < 1e-5 * np.abs(expected).max()
