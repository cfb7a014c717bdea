"""The networks of Rammer's and Astra's papers, small: right, of equal bits in all schedules."""

import numpy as np
import onnxruntime
import pytest
from small_networks import FORMS, SMALL
from turns import turn_of

from rcompiler.compile import compile_policies
from rcompiler.options import Scheduler
from rcompiler.rammer.schedule import POLICIES
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools import models

RAMMER = ("alexnet", "inception_v3", "nas_cells", "nasnet_a", "nasnet_mobile", *FORMS)
ASTRA = ("bert_block", "milstm", "scrnn", "sublstm")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RC_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.parametrize(
    "name, options",
    turn_of(
        [
            *((name, {}) for name in (*RAMMER, *ASTRA)),
            *((name, {"form": form}) for name, forms in FORMS.items() for form in forms),
            *(("nas_cells", {"seed": seed}) for seed in (1, 2, 3)),
        ],
        4,
    ),
)
def test_policies_agree_with_onnxruntime(name, options):
    proto = models.build(name, **SMALL[name], **options)
    results = []
    for eus, policies in ((1, ["rammer"]), (3, POLICIES)):
        for model in compile_policies(proto, [*map(Scheduler, policies)], eus=eus).values():
            feeds = random_inputs(model.inputs, 0)
            results.append(model(**feeds)[0])
            model.close()
    assert all(np.array_equal(result, results[0]) for result in results)
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)
    error = np.abs(results[0] - expected).max()
    assert error < 1e-5 * np.abs(expected).max()
