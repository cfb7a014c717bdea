"""GroupQueryAttention of prompts of any length: one program for a range of them, beside
onnxruntime."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import rcompiler
from rcompiler.errors import UnsupportedOp
from rcompiler.runtime.sized_arguments import SizedCall

onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = [
    pytest.mark.usefixtures("shared_cache"),
    pytest.mark.filterwarnings("ignore:invalid value encountered in cast"),
]


@pytest.fixture(autouse=True)
def _nothing_beyond(monkeypatch):
    """What is not there is no number."""
    monkeypatch.setattr(SizedCall, "beyond", np.nan)


HEADS, SHARED, SIZE = 4, 2, 16
FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64


def model(packed=False, buffer=None, positions=False, bias=False, table=64, **attributes):
    """One layer. buffer: the length of caches that are filled; None for ones that grow."""
    columns = [HEADS * SIZE, SHARED * SIZE, SHARED * SIZE]
    names = ["q", "", ""] if packed else ["q", "k", "v"]
    wide = [sum(columns)] if packed else columns
    value = helper.make_tensor_value_info
    inputs = [
        value(name, FLOAT, ["b", "s", n]) for name, n in zip(filter(None, names), wide, strict=True)
    ]
    cache = ["b", SHARED, "past" if buffer is None else buffer, SIZE]
    inputs += [value("past_k", FLOAT, cache), value("past_v", FLOAT, cache)]
    inputs += [value("last", INT32, ["b"]), value("total", INT32, [])]
    weights = []
    given = [*names, "past_k", "past_v", "last", "total"]
    if attributes.get("do_rotary"):
        angles = np.arange(table)[:, None] / 10.0 ** np.arange(SIZE // 2)
        weights = [
            numpy_helper.from_array(fn(angles).astype(np.float32), name)
            for fn, name in ((np.cos, "cos"), (np.sin, "sin"))
        ]
        given += ["cos", "sin"]
    else:
        given += ["", ""]
    if positions:
        inputs.append(value("at", INT64, ["b", "s"]))
    if bias:
        inputs.append(value("bias", FLOAT, ["b", 1, "s", "all"]))
    given += ["at" if positions else "", "bias" if bias else ""]
    node = helper.make_node(
        "GroupQueryAttention",
        given,
        ["y", "present_k", "present_v"],
        domain="com.microsoft",
        num_heads=HEADS,
        kv_num_heads=SHARED,
        **attributes,
    )
    outputs = [value(name, FLOAT, None) for name in node.output]
    return helper.make_model(
        helper.make_graph([node], "g", inputs, outputs, weights),
        opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)],
        ir_version=10,
    )


def generate(run, oracle, names, prompt, tokens, batch=1, buffer=None, short=0):
    """A prompt and tokens behind it. short: how much shorter the first sequence is."""
    rng, length = np.random.default_rng(prompt), 0
    k = v = np.zeros((batch, SHARED, buffer or 0, SIZE), np.float32)
    columns = {"q": HEADS * SIZE, "k": SHARED * SIZE, "v": SHARED * SIZE}
    if "k" not in names:
        columns = {"q": (HEADS + 2 * SHARED) * SIZE}
    for steps in (prompt, *[1] * tokens):
        length += steps
        feeds = {
            name: rng.standard_normal((batch, steps, n)).astype(np.float32)
            for name, n in columns.items()
        }
        feeds |= {"past_k": k, "past_v": v, "total": np.array(length, np.int32)}
        feeds["last"] = np.full(batch, length - 1, np.int32)
        feeds["last"][0] -= short
        if "at" in names:
            feeds["at"] = np.tile(np.arange(length - steps, length), (batch, 1))
        if "bias" in names:
            feeds["bias"] = rng.standard_normal((batch, 1, steps, length)).astype(np.float32)
        made, wanted = run(feeds), oracle.run(None, feeds)
        assert [x.shape for x in made] == [x.shape for x in wanted]
        own = steps - short if steps > 1 else 1  # behind are rows that nobody reads
        np.testing.assert_allclose(made[0][0, :own], wanted[0][0, :own], 1e-4, 1e-5)
        np.testing.assert_allclose(made[0][1:], wanted[0][1:], 1e-4, 1e-5)
        for got, want in zip(made[1:], wanted[1:], strict=True):
            np.testing.assert_allclose(got[1:, :, :length], want[1:, :, :length], 1e-4, 1e-5)
            filled = length - short
            np.testing.assert_allclose(got[0, :, :filled], want[0, :, :filled], 1e-4, 1e-5)
        k, v = wanted[1:]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"packed": True},
        {"do_rotary": 1, "table": 40},
        {"do_rotary": 1, "rotary_interleaved": 1, "positions": True},
        {"local_window_size": 4, "softcap": 5.0},
        {"smooth_softmax": 1},
        {"bias": True},
        {"buffer": 48},
        {"buffer": 34, "do_rotary": 1, "packed": True},
    ],
    ids=str,
)
def test_prompts_of_any_length(compiled, options):
    """The third new length makes a program for all of them, and nothing else is compiled."""
    file = model(**options).SerializeToString()
    oracle, buffer = onnxruntime.InferenceSession(file), options.get("buffer")
    with rcompiler.InferenceSession(file, eus=1) as made:
        names = [each.name for each in made.get_inputs()]
        for number, prompt in enumerate((5, 7, 9, 11, 6, 20, 32)):
            generate(lambda f: made.run(None, f), oracle, names, prompt, 2, buffer=buffer)
            if number == 2:
                made._by_shape.ranges.model.wait()
                asked = len(compiled)
        assert len(compiled) == asked <= 7
        assert not any("GroupQueryAttention" in note or "'total'" in note for note in made.notes)


@pytest.mark.parametrize("options", [{"buffer": 24, "do_rotary": 1}, {"buffer": 24}], ids=str)
def test_sequences_of_different_lengths(options):
    """In buffers, whose end is nearer than the bound of the steps."""
    file = model(**options)
    oracle = onnxruntime.InferenceSession(file.SerializeToString())
    shapes = {"b": 2, "s": range(1, 21)}
    with rcompiler.compile_onnx(file, shapes=shapes, buckets={"s": (20,)}, eus=1) as made:
        names = [each.name for each in made.inputs]
        for prompt in (3, 20, 11):
            run = lambda f: made(*[f[name] for name in names])  # noqa: E731
            generate(run, oracle, names, prompt, 3, batch=2, buffer=24, short=2)


def test_what_knows_of_numbers_of_steps_only_is_refused():
    file = model(buffer=8, sliding_window_cache=1, local_window_size=4)
    with pytest.raises(UnsupportedOp, match="steps of a range"):
        rcompiler.compile_onnx(file, shapes={"b": 1, "s": range(1, 9)}, buckets={"s": (8,)})
