"""Sessions: what is written for onnxruntime runs with one import changed; and what is refused."""

import gc
import inspect
import threading
import warnings

import ml_dtypes
import numpy as np
import onnx.parser
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import rcompiler
from rcompiler.driver import equal_weights
from rcompiler.errors import (
    AbsentError,
    ArtifactError,
    BusyError,
    CompilerError,
    DeviceError,
    IgnoredOptionWarning,
    InvalidModel,
    ShapeError,
    UnsupportedOp,
)
from rcompiler.runtime.memory import aligned_empty
from rcompiler.session.absent import ABSENT

F = TensorProto.FLOAT
X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(4, 3)


@pytest.fixture(params=[onnxruntime, rcompiler], ids=["onnxruntime", "rcompiler"])
def ort(request):
    """The module that a script has imported."""
    return request.param


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("RC_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))


def sums(shape=("n", 3), element=F, outputs=None, weight=None):
    """total = x + y, large = relu(total)."""
    nodes = [
        helper.make_node("Add", ["x", "y"], ["total"]),
        helper.make_node("Relu", ["total"], ["large"]),
    ]
    named = [helper.make_tensor_value_info(name, element, shape) for name in ("x", "y")]
    made = [helper.make_tensor_value_info(n, element, outputs) for n in ("total", "large")]
    weights = [] if weight is None else [numpy_helper.from_array(weight, "y")]
    graph = helper.make_graph(nodes, "sums", named, made, weights, doc_string="of the graph")
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="maker",
        domain="com.example", model_version=7, doc_string="of the model",
    )  # fmt: skip
    helper.set_model_props(model, {"classes": "cat,dog"})
    return model.SerializeToString()


def session(ort, model=None, options=None, **others):
    model = sums() if model is None else model
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"], **others)


def seen(arguments):
    return [(each.name, each.shape, each.type) for each in arguments]


@pytest.mark.parametrize("shape", [("n", 3), ("n", None), None, (4, 3)])
def test_names_shapes_and_types(ort, shape):
    found = session(ort, sums(shape))
    said = list(shape) if shape else []
    assert seen(found.get_inputs()) == [(name, said, "tensor(float)") for name in "xy"]
    assert seen(found.get_outputs()) == [
        (name, said, "tensor(float)") for name in ("total", "large")
    ]
    assert found.get_providers() == ["CPUExecutionProvider"]
    ort.set_default_logger_severity(3)
    assert found.get_provider_options() == {"CPUExecutionProvider": {}}
    assert "CPUExecutionProvider" in ort.get_available_providers() and ort.get_device() == "CPU"


@pytest.mark.parametrize(
    "element", [TensorProto.DOUBLE, TensorProto.INT8, TensorProto.FLOAT16, TensorProto.INT32]
)
def test_other_types(ort, element):
    found = session(ort, sums((2,), element))
    dtype = helper.tensor_dtype_to_np_dtype(element)
    x = np.array([1, -3], dtype)
    total, large = found.run(None, {"x": x, "y": x})
    assert total.dtype == dtype and total.tolist() == [2, -6] and large.tolist() == [2, 0]
    assert found.get_inputs()[0].type == onnxruntime.OrtValue.ortvalue_from_numpy(x).data_type()


def test_what_the_model_says_of_itself(ort):
    said = session(ort).get_modelmeta()
    assert (said.producer_name, said.graph_name, said.domain) == ("maker", "sums", "com.example")
    assert (said.description, said.graph_description) == ("of the model", "of the graph")
    assert said.version == 7 and said.custom_metadata_map == {"classes": "cat,dog"}


def test_outputs_by_name_in_any_order(ort):
    found, feeds = session(ort), {"x": X, "y": X}
    total, large = found.run(None, feeds)
    np.testing.assert_array_equal(total, 2 * X)
    np.testing.assert_array_equal(large, np.maximum(2 * X, 0))
    again = found.run(["large", "total", "large"], feeds)
    for array, expected in zip(again, (large, total, large), strict=True):
        np.testing.assert_array_equal(array, expected)
    assert len(found.run([], feeds)) == 2
    np.testing.assert_array_equal(found.run(["total"], feeds, ort.RunOptions())[0], total)


def test_lists_values_and_arrays_of_any_strides(ort):
    found = session(ort)
    value = ort.OrtValue.ortvalue_from_numpy(X)
    for x in (X.tolist(), value, X[::-1][::-1], np.asfortranarray(X)):
        np.testing.assert_array_equal(found.run(["total"], {"x": x, "y": X})[0], 2 * X)
    [made] = found.run_with_ort_values(["total"], {"x": value, "y": value})
    np.testing.assert_array_equal(made.numpy(), 2 * X)


def test_open_dimensions_may_change_from_run_to_run(ort):
    found = session(ort)
    for rows in (1, 4, 2, 4, 200):
        x = np.full((rows, 3), rows, np.float32)
        [total] = found.run(["total"], {"x": x, "y": x})
        np.testing.assert_array_equal(total, 2 * x)


def test_programs_have_equal_weights_in_memory_once():
    def network(seed):
        model = onnx.parser.parse_model("""
          <ir_version: 8, opset_import: ["": 17]>
          g (float[n, 128] x) => (float[n, 256] y) { y = MatMul(x, w) }
        """)
        w = np.random.default_rng(seed).standard_normal((128, 256)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(w, "w"))
        return model, w

    (model, w), (other, v) = map(network, range(2))
    models = [each.SerializeToString() for each in (model, other)]
    one, two = (session(rcompiler, each, ranges=False) for each in models)
    for rows in (1, 4, 4, 2):
        x = np.ones((rows, 128), np.float32)
        np.testing.assert_allclose(one.run(None, {"x": x})[0], x @ w, 1e-4, 1e-4)
        np.testing.assert_allclose(two.run(None, {"x": x})[0], x @ v, 1e-4, 1e-4)
    blocks = [{id(each.artifact.constants) for each in own.programs} for own in (one, two)]
    assert [len(each.programs) for each in (one, two)] == [3, 3]
    assert [*map(len, blocks)] == [1, 1] and blocks[0].isdisjoint(blocks[1])
    size = one.programs[0].artifact.constants.size
    del one, two
    gc.collect()
    assert not any(each() is not None for each in equal_weights._blocks[size])


def test_dimensions_are_fixed_by_name(ort):
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("n", 4)
    options.intra_op_num_threads = 1
    found = session(ort, options=options)
    assert [each.shape for each in found.get_inputs()] == [[4, 3]] * 2
    with pytest.raises(Exception, match="dimension|shape"):
        found.run(None, {"x": X[:2], "y": X[:2]})
    assert found.get_session_options().intra_op_num_threads == 1


def test_a_weight_may_be_given(ort):
    found = session(ort, sums(weight=np.ones((4, 3), np.float32)))
    assert [each.name for each in found.get_inputs()] == ["x"]
    assert [each.name for each in found.get_overridable_initializers()] == ["y"]
    np.testing.assert_array_equal(found.run(["total"], {"x": X})[0], X + 1)
    np.testing.assert_array_equal(found.run(["total"], {"x": X, "y": X})[0], 2 * X)
    np.testing.assert_array_equal(found.run(["total"], {"x": X})[0], X + 1)


def test_bound_arrays_are_read_and_written_where_they_lie(ort):
    found = session(ort, sums((4, 3)))
    x, out = X.copy(), ort.OrtValue.ortvalue_from_shape_and_type([4, 3], np.float32)
    bound = found.io_binding()
    bound.bind_cpu_input("x", x)
    bound.bind_ortvalue_input("y", ort.OrtValue.ortvalue_from_numpy(x))
    bound.bind_output("large")
    bound.bind_ortvalue_output("total", out)
    for _ in range(2):
        bound.synchronize_inputs()
        found.run_with_iobinding(bound)
        bound.synchronize_outputs()
        large, total = bound.copy_outputs_to_cpu()
        np.testing.assert_array_equal(large, np.maximum(2 * x, 0))
        np.testing.assert_array_equal(total, 2 * x)
        np.testing.assert_array_equal(out.numpy(), 2 * x)
        assert [value.shape() for value in bound.get_outputs()] == [[4, 3]] * 2
        x += 1


def test_an_output_may_be_bound_to_other_memory(ort):
    found, x = session(ort, sums((4, 3))), X.copy()
    bound = found.io_binding()
    for name in ("x", "y"):
        bound.bind_cpu_input(name, x)
    outs = [ort.OrtValue.ortvalue_from_shape_and_type([4, 3], np.float32) for _ in range(2)]
    for out in outs:
        bound.bind_ortvalue_output("total", out)
        found.run_with_iobinding(bound)
        x += 1
    for number, out in enumerate(outs):
        np.testing.assert_array_equal(out.numpy(), 2 * (X + number))


@pytest.mark.parametrize("offset", [0, 4])
def test_an_output_may_be_in_the_memory_of_an_input(ort, offset):
    """As decoders have their caches, at multiples of 64 bytes and elsewhere."""
    found = session(ort)
    memory = aligned_empty((16,), np.dtype(np.float32))[offset // 4 :][:12].reshape(4, 3)
    memory[...] = X
    value = ort.OrtValue.ortvalue_from_numpy(memory)
    bound = found.io_binding()
    bound.bind_ortvalue_input("x", value)
    bound.bind_cpu_input("y", X)
    bound.bind_ortvalue_output("total", value)
    bound.bind_output("large")
    for times in (2, 3):
        found.run_with_iobinding(bound)
        np.testing.assert_allclose(value.numpy(), times * X, rtol=1e-6)
        large = bound.copy_outputs_to_cpu()[1]
        np.testing.assert_allclose(large, np.maximum(times * X, 0), rtol=1e-6)


def test_memory_is_bound_by_its_address(ort):
    """Also where it starts at no multiple of 64 bytes, and after the shapes have changed."""
    found = session(ort)
    for rows in (4, 2):
        x = X[:rows].copy()
        into = np.zeros(3 * rows + 1, np.float32)[1:].reshape(rows, 3)
        bound = found.io_binding()
        for name in ("x", "y"):
            place = x.__array_interface__["data"][0]
            bound.bind_input(name, "cpu", 0, np.float32, [rows, 3], place)
        place = into.__array_interface__["data"][0]
        bound.bind_output("total", "cpu", 0, np.float32, [rows, 3], place)
        found.run_with_iobinding(bound)
        np.testing.assert_array_equal(into, 2 * x)
        bound.clear_binding_outputs()
        bound.bind_output("large")
        found.run_with_iobinding(bound)
        assert len(bound.copy_outputs_to_cpu()) == 1


def test_values_say_what_they_are(ort):
    value = ort.OrtValue.ortvalue_from_numpy(X.astype(np.float16))
    assert (value.shape(), value.data_type(), value.element_type()) == (
        [4, 3], "tensor(float16)", TensorProto.FLOAT16
    )  # fmt: skip
    assert value.device_name() == "cpu" and value.is_tensor() and value.has_value()
    assert value.tensor_size_in_bytes() == 24 and value.data_ptr()
    value.update_inplace(np.zeros((4, 3), np.float16))
    assert not value.numpy().any()


# -- maps from labels to scores --------------------------------------------------------------------


def scored(labels, shape=("n", 3)):
    """scores = softmax(x), maps = ZipMap(scores)."""
    text = isinstance(labels[0], str)
    names = {"classlabels_strings" if text else "classlabels_int64s": labels}
    nodes = [
        helper.make_node("Softmax", ["x"], ["scores"]),
        helper.make_node("ZipMap", ["scores"], ["maps"], domain="ai.onnx.ml", **names),
    ]
    number = helper.make_tensor_type_proto(F, [])
    kind = helper.make_map_type_proto(TensorProto.STRING if text else TensorProto.INT64, number)
    outputs = [
        helper.make_tensor_value_info("scores", F, shape),
        helper.make_value_info("maps", helper.make_sequence_type_proto(kind)),
    ]
    graph = helper.make_graph(
        nodes, "scored", [helper.make_tensor_value_info("x", F, shape)], outputs
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def rows_of(scores, labels):
    """What the maps have to be."""
    return [dict(sorted(zip(labels, row, strict=True))) for row in scores.tolist()]


@pytest.mark.parametrize("shape", [("n", 3), (4, 3)], ids=["open", "known"])
@pytest.mark.parametrize("labels", [[1, 2, 3], [30, -10, 20], ["b", "a", "é"], [4, 5, 4]], ids=str)
def test_a_zip_map_gives_a_dict_for_each_row(ort, labels, shape):
    found = session(ort, scored(labels, shape).SerializeToString())
    key = "string" if isinstance(labels[0], str) else "int64"
    assert seen(found.get_outputs())[1] == ("maps", [], f"seq(map({key},tensor(float)))")
    for _ in range(2):  # the second call of some shapes takes another way
        scores, maps = found.run(None, {"x": X})
        assert type(maps) is list and maps == rows_of(scores, labels)
        assert [*maps[0]] == sorted(set(labels))
        assert {type(k) for k in maps[0]} == {type(labels[0])}
        assert {type(v) for v in maps[0].values()} == {float}
    maps, again = found.run(["maps", "scores"], {"x": X})
    assert maps == rows_of(again, labels)
    [scores] = found.run(["scores"], {"x": X})
    np.testing.assert_array_equal(again, scores)


def test_a_vector_of_scores_is_one_row(ort):
    found = session(ort, scored([7, 8, 9], (3,)).SerializeToString())
    scores, maps = found.run(None, {"x": X[0]})
    assert maps == rows_of(scores[None], [7, 8, 9])


def test_maps_follow_rows_that_change_from_run_to_run(ort):
    found = session(ort, scored([7, 8, 9]).SerializeToString())
    for rows in (1, 4, 2, 3, 4, 1):
        scores, maps = found.run(None, {"x": X[:rows]})
        assert len(maps) == rows and maps == rows_of(scores, [7, 8, 9])


def test_maps_are_no_values():
    found = session(rcompiler, scored([7, 8, 9]))
    value = rcompiler.OrtValue.ortvalue_from_numpy(X)
    for names in (None, ["maps"]):
        with pytest.raises(ShapeError, match=r"output 'maps' is seq.*no tensor.*by run"):
            found.run_with_ort_values(names, {"x": value})
    [scores] = found.run_with_ort_values(["scores"], {"x": value})
    bound = found.io_binding()
    bound.bind_cpu_input("x", X)
    with pytest.raises(ShapeError, match="no tensor"):
        bound.bind_output("maps")
    with pytest.raises(ShapeError, match="no tensor"):
        bound.bind_ortvalue_output("maps", value)
    bound.bind_output("scores")
    found.run_with_iobinding(bound)
    np.testing.assert_array_equal(bound.copy_outputs_to_cpu()[0], scores.numpy())


def test_maps_without_labels_are_refused():
    made = scored([7, 8, 9])
    made.graph.node[1].output[0] = "inner"
    made.graph.node.append(helper.make_node("Identity", ["inner"], ["maps"]))
    with pytest.raises(UnsupportedOp, match=r"output 'maps'.*no ZipMap of the graph itself"):
        session(rcompiler, made)


def test_calls_from_several_threads(ort):
    found, wrong = session(ort), []

    def work(rows):
        x = np.full((rows, 3), rows, np.float32)
        for _ in range(5):
            if not (found.run(["total"], {"x": x, "y": x})[0] == 2 * x).all():
                wrong.append(rows)

    threads = [threading.Thread(target=work, args=(rows,)) for rows in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    ("feeds", "outputs"),
    [
        ({"x": X}, None),
        ({"x": X, "y": X, "z": X}, None),
        ({"x": X, "y": X.astype(np.float64)}, None),
        ({"x": X, "y": X[:, :2]}, None),
        ({"x": X, "y": X[0]}, None),
        ({"x": X, "y": [["a"]]}, None),
        ({"x": X, "y": X}, ["other"]),
        ([X, X], None),
    ],
)
def test_what_does_not_fit_is_refused(ort, feeds, outputs):
    with pytest.raises(ShapeError if ort is rcompiler else Exception):
        session(ort).run(outputs, feeds)


def test_bfloat16_is_that_of_ml_dtypes():
    """onnxruntime has no arrays of it."""
    x = X.astype(ml_dtypes.bfloat16)
    value = rcompiler.OrtValue.ortvalue_from_numpy_with_onnx_type(
        x.view(np.uint16), TensorProto.BFLOAT16
    )
    assert value.data_type() == "tensor(bfloat16)" and value.numpy().dtype == x.dtype
    found = session(rcompiler, sums((4, 3), TensorProto.BFLOAT16))
    np.testing.assert_array_equal(found.run(["total"], {"x": x, "y": value})[0], x + x)
    with pytest.raises(ShapeError, match="bytes an element"):
        rcompiler.OrtValue.ortvalue_from_numpy_with_onnx_type(X, TensorProto.BFLOAT16)


SCRIPT = """
import onnxruntime as ort
import numpy as np

options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
options.intra_op_num_threads = 1
session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
names = [each.name for each in session.get_outputs()]
said = [(each.name, each.shape, each.type) for each in session.get_inputs()]
rng, found = np.random.default_rng(0), []
for rows in (4, 1, 200):
    feeds = {each.name: rng.random((rows, 3), np.float32) for each in session.get_inputs()}
    found += session.run(names, feeds)
    value = ort.OrtValue.ortvalue_from_numpy(feeds["x"])
    (large,) = session.run_with_ort_values(["large"], {"x": value, "y": value})
    found.append(large.numpy())
try:
    session.run(None, {})
except Exception as error:
    refused = True
"""


def test_a_script_with_one_import_changed(tmp_path):
    """All of the text but the name of the module stays as it is."""
    path = tmp_path / "sums.onnx"
    path.write_bytes(sums())
    changed = SCRIPT.replace("import onnxruntime as ort", "import rcompiler as ort")
    lines = [SCRIPT.splitlines(), changed.splitlines()]
    assert sum(a != b for a, b in zip(*lines, strict=True)) == 1
    ran = []
    for text in (SCRIPT, changed):
        names = {"path": str(path)}
        exec(text, names)  # noqa: S102 - the text above
        ran.append(names)
    theirs, ours = ran
    assert theirs["refused"] and ours["refused"] and theirs["said"] == ours["said"]
    assert len(ours["found"]) == 9
    for a, b in zip(theirs["found"], ours["found"], strict=True):
        np.testing.assert_array_equal(a, b)


def test_as_many_programs_are_kept_as_are_asked_for():
    found = session(rcompiler, programs=2)
    for rows in (1, 2, 1, 3):
        x = np.ones((rows, 3), np.float32)
        found.run(None, {"x": x, "y": x})
    assert [model.inputs[0].shape for model in found.programs] == [(1, 3), (3, 3)]


def test_a_call_inside_of_the_compilation_of_its_thread_is_refused():
    """As by a signal handler: it waited for the compilation, and that for it."""
    told = []
    rows = np.ones((2, 3), np.float32)

    def progress(*_):
        with pytest.raises(BusyError, match="its own thread is inside a call"):
            found.run(None, {"x": np.ones((5, 3), np.float32), "y": np.ones((5, 3), np.float32)})
        told.append(True)

    found = session(rcompiler, progress=progress)
    found.run(None, {"x": rows, "y": rows})
    assert told


def test_values_that_decide_shapes_are_compiled_in(ort):
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "s"], ["y"])], "g",
        [helper.make_tensor_value_info("x", F, [4, 3]),
         helper.make_tensor_value_info("s", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("y", F, [None, None])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = session(ort, model.SerializeToString())
    for shape in ((2, 6), (3, 4), (2, 6)):
        assert found.run(None, {"x": X, "s": np.int64(shape)})[0].shape == shape


def test_data_that_has_to_be_known_is_refused():
    """A program for each text would be compiled for each."""
    model = onnx.parser.parse_model("""
      <ir_version: 8, opset_import: ["": 17]>
      g (int64[2, n] x) => (float[n] y) <float[4] z = {1, 2, 3, 4}> {
        axis = ReduceMax<keepdims=0>(x)
        y = CumSum(z, axis)
      }
    """)
    with pytest.raises(UnsupportedOp, match="CumSum.*must be known while compiling"):
        session(rcompiler, model.SerializeToString()).run(None, {"x": np.int64([[1], [2]])})


def test_a_model_that_fits_no_range_of_sizes_is_compiled_for_each():
    """Halves of an axis are known where it has a number."""
    model = onnx.parser.parse_model("""
      <ir_version: 8, opset_import: ["": 17]>
      g (float[n] x) => (float[2, h] y) <int64[2] halves = {2, -1}> { y = Reshape(x, halves) }
    """)
    found = session(rcompiler, model.SerializeToString())
    for size in (4, 6, 400):
        assert found.run(None, {"x": np.zeros(size, np.float32)})[0].shape == (2, size // 2)
    assert len(found.programs) == 3


def test_values_are_constants():
    found = session(rcompiler, values={"y": np.ones((4, 3), np.float32)})
    assert [each.name for each in found.get_inputs()] == ["x"]
    np.testing.assert_array_equal(found.run(["total"], {"x": X})[0], X + 1)


def test_a_compiled_file_is_a_model_too(tmp_path):
    path = tmp_path / "m.rcx"
    rcompiler.compile_onnx(sums((4, 3))).save(path)
    for given in (path, str(path), path.read_bytes()):
        found = session(rcompiler, given)
        assert seen(found.get_inputs())[0] == ("x", [4, 3], "tensor(float)")
        np.testing.assert_array_equal(found.run(["total"], {"x": X, "y": X})[0], 2 * X)
    options = rcompiler.SessionOptions()
    options.intra_op_num_threads = 1
    assert session(rcompiler, path, options).programs[0].eus == 1
    with pytest.raises(ShapeError):
        found.run(None, {"x": X[:2], "y": X[:2]})
    options.add_free_dimension_override_by_name("n", 4)
    with pytest.raises(ShapeError, match="no open dimensions"):
        session(rcompiler, path, options)


def test_what_changes_nothing_is_noted():
    options = rcompiler.SessionOptions()
    options.inter_op_num_threads, options.enable_profiling = 2, True
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    with pytest.warns(IgnoredOptionWarning, match="inter_op_num_threads=2"):
        found = rcompiler.InferenceSession(
            sums((4, 3)), options, providers=["CUDAExecutionProvider", "CPUExecutionProvider"]
        )
    assert [note.split("=")[0].split(" ")[0] for note in found.notes] == [
        "enable_profiling", "inter_op_num_threads", "session.intra_op.allow_spinning", "provider"
    ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert session(rcompiler, sums((4, 3))).notes == ()


def test_the_options_of_onnxruntime_are_read():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    [model] = session(rcompiler, sums((4, 3)), options).programs
    assert model.eus == 1 and len(model.report().operators) == 2


def test_options_of_the_compiler():
    found = session(rcompiler, sums((4, 3)), target="cpu:x86-64", eus=1)
    assert found.programs[0].artifact.target == "x86-64"


OF_CLASSES = (
    "InferenceSession SessionOptions RunOptions OrtValue IOBinding NodeArg ModelMetadata "
    "GraphOptimizationLevel ExecutionMode ExecutionOrder"
).split()
OF_PYTHON = {"contextlib", "import_capi_exception", "onnxruntime_validation", "package_name"}


@pytest.mark.parametrize("kind", ["", *OF_CLASSES])
def test_each_name_of_onnxruntime_is_here_or_says_what_to_do(kind):
    """None is left out by chance; and `hasattr` says that there is none."""
    theirs = onnxruntime if not kind else getattr(onnxruntime, kind, None)
    theirs = theirs or getattr(onnxruntime.capi.onnxruntime_pybind11_state, kind)
    ours = getattr(rcompiler, kind) if kind else rcompiler
    own, known = {*dir(ours)}, ABSENT.get(kind, {})
    if kind in ("SessionOptions", "RunOptions"):
        own |= {*dir(ours())}
    if kind in ("NodeArg", "ModelMetadata"):
        own |= {*ours.__dataclass_fields__}
    if kind.startswith(("Graph", "Execution")):
        own |= {"name", "value"}
    names = {name for name in dir(theirs) if not name.startswith("_")} - OF_PYTHON - {"version"}
    # modules of it are there once somebody has imported them
    names = {name for name in names if not inspect.ismodule(getattr(theirs, name))}
    assert len(names) > 2
    assert names - own <= known.keys()
    for name in known:
        instance = ours
        if kind == "OrtValue":
            instance = ours.ortvalue_from_numpy(X)
        elif kind:
            instance = session(rcompiler) if kind == "InferenceSession" else ours()
        assert not hasattr(instance, name)
        with pytest.raises(AbsentError, match=f"{name} of onnxruntime is not here: .{{10}}"):
            getattr(instance, name)


def test_other_names_are_no_attributes():
    for thing in (rcompiler, session(rcompiler), rcompiler.SessionOptions()):
        with pytest.raises(AttributeError, match="no attribute 'frobnicate'") as caught:
            thing.frobnicate  # noqa: B018
        assert not isinstance(caught.value, CompilerError)


def test_a_call_that_goes_on_beside(ort):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    found, told, ended = session(ort, options=options), [], threading.Event()

    def callback(results, user_data, error):
        told.append((results, user_data, error))
        ended.set()

    found.run_async(["total"], {"x": X, "y": X}, callback, "mine")
    assert ended.wait(60)
    [(results, user_data, error)] = told
    np.testing.assert_array_equal(results[0], 2 * X)
    assert (user_data, error) == ("mine", "")


def test_what_a_call_beside_refuses_is_told():
    told = []
    with session(rcompiler) as found:
        found.run_async(None, {"x": X}, lambda *given: told.append(given), 7)
        with pytest.raises(ShapeError, match="there is no output 'other'"):
            found.run_async(["other"], {"x": X, "y": X}, told.append, None)
        with pytest.raises(ShapeError, match="the callback is a str"):
            found.run_async(None, {"x": X, "y": X}, "print", None)
    [(results, user_data, error)] = told  # closing waits for it
    assert (results, user_data) == ([], 7) and error.startswith("ShapeError: ")


def test_values_are_shared_with_other_libraries(ort):
    x = X.copy()
    value = ort.OrtValue.from_dlpack(x)
    x[0, 0] = 7
    np.testing.assert_array_equal(value.numpy(), x)
    assert value.__dlpack_device__()[0] == 1
    np.testing.assert_array_equal(np.from_dlpack(value), x)


def test_what_cannot_be_shared_is_refused():
    with pytest.raises(ShapeError, match="list: .*; give an array or tensor"):
        rcompiler.OrtValue.from_dlpack([1])
    read_only = X.copy()
    read_only.flags.writeable = False
    np.testing.assert_array_equal(rcompiler.OrtValue.from_dlpack(read_only).numpy(), X)


def test_providers_of_options_are_noted():
    options = rcompiler.SessionOptions()
    assert not options.has_providers()
    options.add_provider("CUDAExecutionProvider", {})
    options.set_provider_selection_policy("PREFER_GPU")
    assert options.has_providers()
    with pytest.warns(IgnoredOptionWarning, match="'CUDAExecutionProvider' is not used"):
        found = session(rcompiler, options=options)
    assert any("PREFER_GPU" in note for note in found.notes)


def test_nothing_is_profiled(ort):
    found = session(ort)
    assert found.end_profiling() == "" and found.get_tuning_results() == []
    assert rcompiler.get_all_providers() == rcompiler.get_available_providers()


@pytest.mark.parametrize(
    ("error", "make"),
    [
        (InvalidModel, lambda: session(rcompiler, b"no model")),
        (InvalidModel, lambda: session(rcompiler, "/nonexistent.onnx")),
        (InvalidModel, lambda: session(rcompiler, 7)),
        (ArtifactError, lambda: session(rcompiler, "/nonexistent.rcx")),
        (ArtifactError, lambda: session(rcompiler, b"\x93RCX and no more")),
        (CompilerError, lambda: session(rcompiler, programs=0)),
        (CompilerError, lambda: session(rcompiler, options=object())),
        (AttributeError, lambda: setattr(rcompiler.SessionOptions(), "threads", 1)),
        (CompilerError, lambda: rcompiler.SessionOptions().get_session_config_entry("a")),
        (
            UnsupportedOp,
            lambda: rcompiler.SessionOptions().register_custom_ops_library("libops.so"),
        ),
        (DeviceError, lambda: rcompiler.OrtValue.ortvalue_from_numpy(X, "cuda")),
        (ShapeError, lambda: rcompiler.OrtValue.ortvalue_from_shape_and_type([1], 99)),
        (ShapeError, lambda: session(rcompiler).io_binding().bind_output("other")),
        (ShapeError, lambda: session(rcompiler).io_binding().bind_cpu_input("other", X)),
        (
            ShapeError,
            lambda: session(rcompiler).run_with_iobinding(session(rcompiler).io_binding()),
        ),
    ],
)
def test_bad_input(error, make):
    with pytest.raises(error):
        make()


def test_outputs_are_bound_to_memory_of_their_shape_and_type():
    found = session(rcompiler)
    bound = found.io_binding()
    for name in ("x", "y"):
        bound.bind_cpu_input(name, X)
    bound.bind_ortvalue_output("total", rcompiler.OrtValue.ortvalue_from_numpy(X[:2].copy()))
    with pytest.raises(ShapeError, match="output 'total' is bound to"):
        found.run_with_iobinding(bound)


def with_text(nodes, kind="string[n]"):
    """A second input of another kind, which nodes read or not."""
    text = f'g ({kind} s, float[4, 3] x) => (float[a, b] y) <string[1] one = {{"a"}}> {{ {nodes} }}'
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 19]> {text}')
    return model.SerializeToString()


def test_text_that_nothing_reads_is_taken(ort):
    found = session(ort, with_text("y = Neg(x)"))
    assert seen(found.get_inputs())[0] == ("s", ["n"], "tensor(string)")
    for words in (["a", "b"], ["a"], []):
        feeds = {"s": np.array(words, object), "x": X}
        for _ in range(2):
            np.testing.assert_array_equal(found.run(None, feeds)[0], -X)
    with pytest.raises(Exception, match="s"):
        found.run(None, {"x": X})


def test_a_model_is_compiled_without_text_that_nothing_reads():
    made = rcompiler.compile_onnx(with_text("y = Neg(x)"), eus=1)
    assert [each.name for each in made.inputs] == ["x"]
    np.testing.assert_array_equal(made(X)[0], -X)


@pytest.mark.parametrize(
    ("kind", "nodes", "said"),
    [
        ("string[n]", "e = Equal(s, one) y = Cast<to=1>(e)", "input 's' .Equal.: element type str"),
        ("string[n]", "y = Neg(x) s2 = Identity(s) e = Equal(s2, one)", "input 's' .Identity."),
        ("seq(float[n])", "y = ConcatFromSequence<axis=0>(s)", "input 's'.*type is sequence"),
        ("optional(float[n])", "y = OptionalGetElement(s)", "input 's'.*type is optional"),
    ],
)
def test_inputs_that_are_no_numbers_are_refused_when_the_session_is_made(kind, nodes, said):
    with pytest.raises(UnsupportedOp, match=said):
        session(rcompiler, with_text(nodes, kind))
