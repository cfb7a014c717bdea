"""Products of f32 whose factors are rounded first, on CPUs: accuracy, bits, memory."""

import itertools
import warnings

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from rounded_products import ALLOWED, operands, product, run
from small_networks import SMALL
from turns import turn_of

import rcompiler
from rcompiler.device.host_flags import LEVEL_FLAGS, host_flags
from rcompiler.errors import CompilerError, OptionalPassWarning
from rcompiler.profiler import timing
from rcompiler.tools.models import build

HALVES = ("f16", "bf16")
# of the largest value of a whole network's result, with as many layers of it
LOST = {"f16": 4e-3, "bf16": 3e-2}
TARGETS = [
    "cpu",
    *(f"cpu:{level}" for level, needs in LEVEL_FLAGS.items() if needs <= host_flags()),
]


def weighted(rows, steps, columns):
    """The product with its second factor and its bias as constants, and the first one."""
    x, w, b = operands(rows, steps, columns)
    return product(rows, steps, columns), {"w": w, "b": b}, x


def compiled(shape, **options):
    model, values, x = weighted(*shape)
    return rcompiler.compile_onnx(model, values=values, **options), x


def compiled_constants(shape, **options):
    """As `compiled`, of a model that holds its constants itself."""
    model, values, x = weighted(*shape)
    kept = [value for value in model.graph.input if value.name not in values]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in values.items())
    return rcompiler.compile_onnx(model, **options), x


NETWORKS = [
    *((name, "cpu") for name in ("mlp", "resnet50", "mobilenet_v2", "bert_base", "lstm2")),
    *((name, target) for name in ("resnet50", "bert_base") for target in TARGETS[1:]),
]


@pytest.mark.parametrize(
    ("name", "target", "precision"), turn_of(((*n, p) for p in HALVES for n in NETWORKS), 4)
)
def test_networks(name, target, precision):
    model = build(name, **SMALL[name])
    exact = rcompiler.compile_onnx(model, target=target)
    rounded = rcompiler.compile_onnx(model, target=target, precision=precision)
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal(t.shape).astype(t.dtype)
        if t.dtype == "float32"
        else np.ones(t.shape, t.dtype)
        for t in exact.inputs
    ]
    apart = False
    for found, wanted in zip(rounded(*arrays), run(model, arrays), strict=True):
        assert np.abs(found - wanted).max() <= LOST[precision] * np.abs(wanted).max()
        apart |= np.abs(found - wanted).max() > ALLOWED["f32"] * np.abs(wanted).max()
    assert apart  # an option that changes nothing


# Sizes that are no multiple of anything that an instruction or a part has.
@pytest.mark.parametrize("shape", [(1, 9, 8), (17, 8, 9), (33, 100, 41), (130, 1047, 70)])
@pytest.mark.parametrize("precision", HALVES)
@pytest.mark.parametrize("target", TARGETS)
def test_factors_are_rounded_once(target, precision, shape):
    """To nearest, and their sums are those of f32: what numpy computes of rounded factors."""
    model, x = compiled(shape, target=target, precision=precision)
    _, w, b = operands(*shape)
    [found] = model(x)
    kind = np.float16 if precision == "f16" else ml_dtypes.bfloat16
    a, c = (v.astype(kind).astype(np.float64) for v in (x, w))
    wanted = np.maximum(a @ c + b, 0)
    # of f32, with sums of as many steps
    assert np.abs(found - wanted).max() <= 2.0**-24 * shape[1] * np.abs(a).max() * np.abs(c).max()


@pytest.fixture
def last_is_best(monkeypatch, tmp_path):
    """No clock is asked: of the kernels that are compared the last one is the fastest."""
    monkeypatch.setenv("RC_CACHE_DIR", str(tmp_path))
    seen = {}

    def time_of(run, count, clock):
        run.work(count)
        return 1e6 / (1 + seen.setdefault(id(run), (len(seen), run))[0])

    monkeypatch.setattr(timing, "_time", time_of)


@pytest.mark.parametrize(
    ("precision", "shape"),
    turn_of(itertools.product(HALVES, [(70, 96, 90), (33, 1536, 80), (5, 74, 40)]), 3),
)
def test_a_plan_changes_no_bit(precision, shape, last_is_best):
    """Others have other tiles, some of which tile registers compute, and others do not."""
    model, x = compiled(shape, precision=precision, eus=1)
    [plain] = model(x)
    for options in (
        {"eus": 2, "policy": "list"}, {"eus": 3, "kernels": "efficient"}, {"policy": "base"},
        {"roller_policy": "osdi22"}, {"tune": "kernels"}, {"fusion": False, "normalise": False},
    ):  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("error", OptionalPassWarning)
            other, _ = compiled(shape, precision=precision, **options)
        assert (other(x)[0].view(np.uint32) == plain.view(np.uint32)).all(), options


@pytest.mark.parametrize("precision", HALVES)
@pytest.mark.parametrize("target", TARGETS)
def test_files_hold_weights_of_half_the_size(target, precision, tmp_path):
    sizes = []
    for each in ("f32", precision):
        model, _ = compiled((64, 1024, 1024), target=target, precision=each)
        model.save(tmp_path / f"{each}.rcx")
        sizes.append((tmp_path / f"{each}.rcx").stat().st_size)
    assert sizes[1] <= 0.55 * sizes[0]


def embeddings(rows, columns, *, tied):
    """Rows of a table, and with `tied` their products with all of it; the table."""
    table = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)
    nodes = [helper.make_node("Gather", ["table", "at"], ["y"], "rows")]
    if tied:
        nodes = [
            helper.make_node("Gather", ["table", "at"], ["x"], "rows"),
            helper.make_node("Transpose", ["table"], ["turned"]),
            helper.make_node("MatMul", ["x", "turned"], ["y"], "all"),
        ]
    at = helper.make_tensor_value_info("at", TensorProto.INT64, [3, 5])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    constants = [numpy_helper.from_array(table, "table")]
    graph = helper.make_graph(nodes, "g", [at], [y], constants)
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), table


@pytest.mark.parametrize("precision", HALVES)
@pytest.mark.parametrize("target", TARGETS)
def test_rows_of_a_table_are_rounded_once(target, precision):
    """To the same bits everywhere, and the report says what that does to them."""
    model, table = embeddings(70, 100, tied=False)
    compiled = rcompiler.compile_onnx(model, target=target, precision=precision)
    at = np.random.default_rng(1).integers(-70, 70, (3, 5))
    kind = np.float16 if precision == "f16" else ml_dtypes.bfloat16
    rounded = table.astype(kind).astype(np.float32)
    assert np.array_equal(compiled(at)[0], rounded[at])
    largest = np.abs(rounded - table).max() / np.abs(table).max()
    begin = f"in {precision}: rows: 70 x 100 weights, largest error {largest:.2g} of the largest"
    assert compiled.report().note.startswith(begin)
    exact = rcompiler.compile_onnx(model, target=target)
    assert np.array_equal(exact(at)[0], table[at]) and exact.report().note == ""


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("precision", HALVES)
@pytest.mark.parametrize("target", TARGETS)
def test_files_hold_tables_of_half_the_size(target, precision, tied, tmp_path):
    """Once, also where a product reads them as well."""
    model, table = embeddings(1000, 1024, tied=tied)
    file = tmp_path / "m.rcx"
    rcompiler.compile_onnx(model, target=target, precision=precision).save(file)
    assert file.stat().st_size <= table.nbytes * 0.52 + 64_000
    at = np.random.default_rng(1).integers(0, 1000, (3, 5))
    kind = np.float16 if precision == "f16" else ml_dtypes.bfloat16
    rounded = table.astype(kind).astype(np.float64)
    wanted = rounded[at] @ rounded.T if tied else rounded[at]
    assert np.abs(rcompiler.load(file)(at)[0] - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("target", TARGETS)
def test_weights_of_few_bits(target, bits, tmp_path):
    """Symmetric blocks of 32 along the depth: a step is the 2^(bits - 1) - 1st part of the largest
    weight of a block, and no weight is off by more than half of one.
    """
    shape = (3, 1024, 512)
    exact, x = compiled(shape, target=target)
    model, _ = compiled_constants(shape, target=target, precision=f"w{bits}")
    _, w, _ = operands(*shape)
    blocks = w.reshape(-1, 32, shape[2])
    most = 2 ** (bits - 1) - 1
    steps = np.abs(blocks).max(axis=1, keepdims=True) / most
    rounded = (np.rint(blocks / steps) * steps).reshape(w.shape)
    _, _, b = operands(*shape)
    wanted = np.maximum(x.astype(np.float64) @ rounded + b, 0)
    assert np.abs(model(x)[0] - wanted).max() <= 1e-5 * np.abs(wanted).max()
    assert np.abs(model(x)[0] - exact(x)[0]).max() > 1e-5 * np.abs(wanted).max()
    model.save(tmp_path / "m.rcx")
    assert (tmp_path / "m.rcx").stat().st_size <= w.size * (bits / 8 + 4 / 32) + 64_000
    first, second = model.report().note.splitlines()
    assert first == f"weights of 1 operators have {bits} bits"
    largest = np.abs(rounded - w).max() / np.abs(w).max()
    assert f"1024 x 512 weights, largest error {largest:.2g} of the largest" in second


@pytest.mark.parametrize("target", ["cuda:emulated", "rocm:gfx942"])
def test_others_than_cpus_have_no_such_weights(target):
    with pytest.raises(CompilerError, match=f"'w4' is not one of target '{target}', which has f32"):
        rcompiler.compile_onnx(product(2, 8, 2), target=target, precision="w4")


def test_a_text_says_its_precision():
    model, _ = compiled((8, 64, 32), precision="bf16", target="cpu:x86-64")
    assert 'precision = "bf16"' in model.stage("rtask")
