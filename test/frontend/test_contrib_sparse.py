"""Attention of blocks that a mask chooses: as onnxruntime computes it, which writes new keys into
the buffers that it is given; sequences that are shorter than others by definition.
"""

import numpy as np
import pytest
from oracles.contrib_node import node_model

import rcompiler
from rcompiler.errors import CompilerError
from rcompiler.frontend import import_onnx

onnxruntime = pytest.importorskip("onnxruntime")
rng = np.random.default_rng(0)
HEADS, SHARED, SIZE, BLOCK, ROOM = 4, 2, 16, 16, 64
LOWER = np.tril(np.ones((4, 4), int))
MASKS = np.stack([LOWER, LOWER])
MASKS[0, 2:, 0] = MASKS[1, 3, 1] = 0
HOW = {"num_heads": HEADS, "kv_num_heads": SHARED, "sparse_block_size": BLOCK}
TYPES = ["float32"] * 3


def f(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def i32(*numbers: object) -> np.ndarray:
    return np.array(numbers, np.int32)


ROWS = np.concatenate([np.zeros((2, 1), int), MASKS.sum(-1).cumsum(-1)], 1).astype(np.int32)
COLUMNS = np.full((2, 10), -1, np.int32)
for _layout, _mask in enumerate(MASKS):
    COLUMNS[_layout, : _mask.sum()] = np.nonzero(_mask)[1]


def node(batch: int, steps: int, total: int, lengths: list[int], packed: bool = False) -> list:
    new = [f(batch, steps, heads * SIZE) for heads in (HEADS, SHARED, SHARED)]
    if packed:
        new = [np.concatenate(new, -1), None, None]
    past = [f(batch, SHARED, ROOM, SIZE) for _ in "kv"]
    return [*new, *past, ROWS, COLUMNS, i32(total), i32(*lengths)]


def by_onnxruntime(model, fed: dict) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    binding = session.io_binding()
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(x.copy()) for name, x in fed.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("o0")
    for name, past in (("o1", "i3"), ("o2", "i4")):
        binding.bind_ortvalue_output(name, values[past])
    session.run_with_iobinding(binding)
    return [value.numpy().copy() for value in binding.get_outputs()]


TURNED = {"do_rotary": 1}
FORMS = {
    "prompt": (node(2, 40, 40, [40, 40]), {}),
    "packed": (node(2, 33, 33, [33, 33], packed=True), {}),
    "step": (node(2, 1, 50, [50, 50]), {"scale": 0.3}),
    "several steps": (node(1, 3, 50, [50]), {}),
    "rotated": ([*node(2, 40, 40, [40, 40]), f(64, 8), f(64, 8)], TURNED),
    "rotated step": ([*node(2, 1, 50, [50, 50]), f(64, 8), f(64, 8)],
                     TURNED | {"rotary_interleaved": 1}),
}  # fmt: skip
FED = [0, 1, 2, 3, 4, 8]


@pytest.mark.parametrize("form", FORMS)
def test_sparse_attention(form: str):
    inputs, more = FORMS[form]
    model, fed = node_model("SparseAttention", inputs, TYPES, FED, **HOW, **more)
    found = rcompiler.compile_onnx(model, eus=1)(**fed)
    last = inputs[8][0]
    for number, (got, want) in enumerate(zip(found, by_onnxruntime(model, fed), strict=True)):
        filled = (slice(None), slice(None), slice(last if number else None))
        np.testing.assert_allclose(got[filled], want[filled], rtol=3e-5, atol=1e-5)


def test_a_step_of_sequences_of_their_own_lengths():
    """Each as if it were alone, where onnxruntime has one mask for all."""
    inputs = node(2, 1, 50, [50, 33])
    model, fed = node_model("SparseAttention", inputs, TYPES, FED, **HOW)
    found = rcompiler.compile_onnx(model, eus=1)(**fed)
    for row, total in enumerate((50, 33)):
        alone = [x[row : row + 1] for x in inputs[:5]]
        alone += [ROWS, COLUMNS, i32(total), i32(total)]
        own, given = node_model("SparseAttention", alone, TYPES, FED, **HOW)
        wanted = by_onnxruntime(own, given)
        np.testing.assert_allclose(found[0][row], wanted[0][0], rtol=3e-5, atol=1e-5)
        for got, want in zip(found[1:], wanted[1:], strict=True):
            np.testing.assert_array_equal(got[row, :, :total], want[0, :, :total])


SOME = node(2, 1, 50, [50, 50])
REFUSED = [
    ([*SOME[:5], ROWS[:, :3], *SOME[6:]], FED, {}, "2 layouts of 2 blocks"),
    ([*SOME[:6], COLUMNS + 9, *SOME[7:]], FED, {}, "names a block that is none of 4"),
    (SOME, FED, TURNED, "do_rotary needs"),
    (SOME, FED, {"kv_num_heads": 3}, "do not share 3"),
    (SOME, 99, {}, "which blocks there are"),
]


@pytest.mark.parametrize(("inputs", "fed", "attributes", "message"), REFUSED)
def test_what_is_not_translated_is_named(inputs: list, fed: object, attributes: dict, message: str):
    model, _ = node_model("SparseAttention", inputs, TYPES, fed, **(HOW | attributes))
    with pytest.raises(CompilerError, match=message):
        import_onnx(model)
