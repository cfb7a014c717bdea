"""Decoders with caches, as tools of onnxruntime write them: the same tokens as onnxruntime's."""

import numpy as np
import pytest

import rcompiler
from rcompiler.tools import models

onnxruntime = pytest.importorskip("onnxruntime")
STATE = {"past_key_values.*": "present.*"}
SIZES = {"room": 280, "layers": 2, "hidden": 64, "vocabulary": 300}
DECODERS = {
    "gpt2_decoder": {**SIZES, "heads": 4},
    "llama_decoder": {**SIZES, "heads": 4, "kv_heads": 2, "inner": 96},
}


class Sessions:
    """onnxruntime on buffers that past and present share."""

    def __init__(self, name):
        self.name, self.caches = name, {}

    def __call__(self, ids, places):
        proto = models.build(self.name, steps=ids.size, **DECODERS[self.name])
        session = onnxruntime.InferenceSession(proto.SerializeToString())
        binding = session.io_binding()
        for value in session.get_inputs():
            if value.name.startswith("past"):
                zeros = np.zeros(value.shape, np.float32)
                make = onnxruntime.OrtValue.ortvalue_from_numpy
                cache = self.caches.setdefault(value.name, make(zeros))
                binding.bind_ortvalue_input(value.name, cache)
                binding.bind_ortvalue_output(
                    value.name.replace("past_key_values", "present"), cache
                )
        binding.bind_cpu_input("input_ids", ids)
        binding.bind_cpu_input("position_ids", places)
        binding.bind_output("logits")
        session.run_with_iobinding(binding)
        return binding.copy_outputs_to_cpu()[-1]


def compiled(name, steps):
    proto = models.build(name, steps=steps, **DECODERS[name])
    return rcompiler.compile_onnx(proto, state=STATE, eus=1, cache=False, device="default")


@pytest.mark.parametrize("name", DECODERS)
def test_tokens_are_those_of_onnxruntime(name):
    """A prompt of 126 tokens, and some behind it: keys of one part of the caches, then of two. For
    a token, keys are read as they lie, and what no key counts of is behind a guard.
    """
    prefill, decode = compiled(name, 126), compiled(name, 1)
    assert "in place" in decode.report().note and "double" not in decode.report().note
    assert decode.report().arena_bytes < decode.state.tensors[0].nbytes / 2
    assert "rtask.guard" in decode.stage("rtask")
    decode.share_state(prefill)
    ids, places = np.random.default_rng(0).integers(0, 300, (1, 126)), np.arange(126)[None]
    oracle, first = Sessions(name), prefill(ids, places)["logits"][:, -1:]
    prompt_logits = oracle(ids, places)
    last = next(x for x in oracle.caches.values()).numpy()
    assert last[:, :, :126].any() and not last[:, :, 126:].any()
    np.testing.assert_allclose(first, prompt_logits[:, -1:], rtol=1e-3, atol=1e-3)
    for place in range(126, 132):
        ids = first.argmax(-1)
        at = np.int64([[place]])
        first = decode(ids, at)["logits"]
        wanted = oracle(ids, at)
        np.testing.assert_allclose(first, wanted, rtol=1e-3, atol=1e-3)
        assert first.argmax() == wanted.argmax()
    for key, value in oracle.caches.items():
        np.testing.assert_allclose(decode.state[key], value.numpy(), rtol=1e-3, atol=1e-4)
