"""Graphs compiled operator by operator: neither grouped nor normalised."""

import numpy as np
from onnx.reference import ReferenceEvaluator

from rcompiler.compile import compile_policies
from rcompiler.options import Scheduler
from rcompiler.tools import models

STEPS, LAYERS = 3, 2


def test_a_cell_of_an_lstm_is_the_operators_that_it_is_written_in():
    model = models.build("lstm_tc", steps=STEPS, hidden=32, layers=LAYERS)
    schedulers = [Scheduler(policy) for policy in ("base", "rammer", "list")]
    plain = compile_policies(model, schedulers[:1], eus=2)[schedulers[0]]
    written = compile_policies(model, schedulers, eus=2, as_written=True)
    x = np.random.default_rng(1).standard_normal((STEPS, 1, 32)).astype(np.float32)
    [want] = ReferenceEvaluator(model).run(None, {"input": x})
    results = [compiled(x)[0] for compiled in written.values()]
    assert len({result.tobytes() for result in results}) == 1
    for result in (results[0], plain(x)[0]):
        np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-5)
    cells, few = STEPS * LAYERS, len(plain.report().operators)
    assert few < 8 * cells < 20 * cells < len(written[schedulers[0]].report().operators)
