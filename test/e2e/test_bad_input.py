"""Everything that can be wrong with what a user gives: a typed error with reason and remedy."""

import os
import resource

import numpy as np
import onnx
import pytest
from bad_models import external, graph_model, relu
from onnx import helper, numpy_helper
from torch_mlir import ir

import rcompiler
from rcompiler.device.cpu import cpu_device
from rcompiler.device.record import save_device
from rcompiler.errors import (
    CompilerError,
    DeviceError,
    InvalidModel,
    ShapeError,
    UnsupportedOp,
)
from rcompiler.model import CompiledModel
from rcompiler.passes.ir.operators import operators
from rcompiler.passes.rtask_form import RTaskForm
from rcompiler.tools import models, rc_compile, rc_run


def refused(kind, *words, **options):
    """Compiles options["model"] and checks kind and words of the error, here and on the CLI."""
    proto = options.pop("model")
    with pytest.raises(kind) as caught:
        rcompiler.compile_onnx(proto, cache=False, **options)
    for word in words:
        assert word in str(caught.value), (word, str(caught.value))
    return str(caught.value)


# -- models -------------------------------------------------------------------------------------
def test_a_truncated_file(tmp_path):
    data = models.build("two_branch", width=32).SerializeToString()
    for size in (1, 10, len(data) // 2, len(data) - 1):
        (tmp_path / "cut.onnx").write_bytes(data[:size])
        refused(InvalidModel, model=tmp_path / "cut.onnx")
    (tmp_path / "cut.onnx").write_bytes(b"")
    refused(InvalidModel, "graph", model=tmp_path / "cut.onnx")


def test_a_damaged_file_never_ends_in_an_internal_error():
    data = bytearray(models.build("two_branch").SerializeToString())
    rng = np.random.default_rng(0)
    for _ in range(60):
        broken = bytearray(data)
        for position in rng.integers(0, len(data), 3):
            broken[position] = rng.integers(256)
        try:
            from rcompiler.frontend import import_onnx

            import_onnx(bytes(broken))
        except CompilerError:
            pass


def test_what_is_no_model_at_all(tmp_path):
    refused(InvalidModel, "nowhere.onnx", model=tmp_path / "nowhere.onnx")
    refused(InvalidModel, "a path, bytes or onnx.ModelProto", model=3)
    refused(InvalidModel, model=b"\x7fELF" * 100)
    refused(InvalidModel, "directory", model=tmp_path)


def test_a_cycle():
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["b"], "second"),
        helper.make_node("Relu", ["b"], ["y"], "third"),
    ]
    refused(InvalidModel, "first", "cycle", model=graph_model(nodes))


def test_a_dangling_name():
    proto = graph_model([helper.make_node("Add", ["x", "ghost"], ["y"], "sum")])
    refused(InvalidModel, "ghost", model=proto)
    proto = graph_model([helper.make_node("Relu", ["x"], ["z"], "act")])
    refused(InvalidModel, "y", model=proto)


def test_an_unknown_operator_and_an_unknown_domain():
    proto = graph_model([helper.make_node("Frobnicate", ["x"], ["y"], "frob")])
    refused((InvalidModel, UnsupportedOp), "Frobnicate", model=proto)
    node = helper.make_node("Special", ["x"], ["y"], "mine", domain="com.example")
    refused(
        UnsupportedOp,
        "mine",
        "Special",
        "com.example",
        model=graph_model([node], domain="com.example"),
    )


def test_missing_or_short_external_data(tmp_path):
    path = external(tmp_path)
    assert np.array_equal(
        rcompiler.compile_onnx(path, cache=False)(np.zeros((2, 3), np.float32))[0], np.ones((2, 3))
    )
    (tmp_path / "weights.bin").write_bytes(b"123")
    refused(InvalidModel, "m.onnx", "external data", model=path)
    (tmp_path / "weights.bin").unlink()
    refused(InvalidModel, "m.onnx", "weight files beside the model", model=path)


@pytest.mark.parametrize(
    "location", ["../weights.bin", "{outside}", "link.bin", "hard.bin", "pipe", "", "folder/w.bin"]
)
def test_external_data_stays_beside_the_model(tmp_path, location):
    """A model must not read other files of the machine into its weights."""
    folder = tmp_path / "model"
    folder.mkdir()
    path = external(folder)
    outside = tmp_path / "weights.bin"
    os.replace(folder / "weights.bin", outside)
    (folder / "link.bin").symlink_to(outside)
    (folder / "hard.bin").hardlink_to(outside)
    (folder / "folder").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    proto = onnx.load(path, load_external_data=False)
    for entry in proto.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = location.format(outside=outside)
    path.write_bytes(proto.SerializeToString())
    refused(InvalidModel, "m.onnx", "external data cannot be read", model=path)


@pytest.mark.parametrize(("key", "said"), [("offset", "-8"), ("length", "1_0"), ("offset", "25")])
def test_external_data_of_places_that_are_none(tmp_path, key, said):
    path = external(tmp_path)
    proto = onnx.load(path, load_external_data=False)
    [entry] = [e for e in proto.graph.initializer[0].external_data if e.key == key]
    entry.value = said
    path.write_bytes(proto.SerializeToString())
    refused(InvalidModel, "external data cannot be read", "tensor 'w' has", model=path)


def test_external_data_of_a_function(tmp_path):
    weight = numpy_helper.from_array(np.full((2, 3), 2, np.float32), "w")
    nodes = [
        helper.make_node("Constant", [], ["c"], value=weight),
        helper.make_node("Mul", ["a", "c"], ["out"]),
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("me", 1)]
    body = helper.make_function("me", "Twice", ["a"], ["out"], nodes, opsets[:1])
    call = helper.make_node("Twice", ["x"], ["y"], domain="me")
    info = [helper.make_tensor_value_info(n, 1, [2, 3]) for n in "xy"]
    graph = helper.make_graph([call], "g", info[:1], info[1:])
    proto = helper.make_model(graph, functions=[body], opset_imports=opsets, ir_version=8)
    tensor = proto.functions[0].node[0].attribute[0].t
    (tmp_path / "w.bin").write_bytes(tensor.raw_data)
    onnx.external_data_helper.set_external_data(tensor, "w.bin")
    tensor.ClearField("raw_data")
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    made = rcompiler.compile_onnx(tmp_path / "m.onnx", cache=False)
    assert made(np.ones((2, 3), np.float32))[0].tolist() == [[2.0] * 3] * 2


def test_dynamic_dimensions_without_shapes():
    proto = relu(("batch", 3))
    refused(ShapeError, "'x'", "shapes=", model=relu((None, 3)))
    refused(ShapeError, model=proto, shapes={"x": (1, 2, 3)})
    refused(ShapeError, model=proto, shapes={"x": (-1, 3)})
    refused(ShapeError, model=proto, shapes={"x": "abc"})
    refused(ShapeError, "z", model=proto, shapes={"z": (1, 3), "batch": 2})
    assert rcompiler.compile_onnx(proto, shapes={"batch": 4}, cache=False).inputs[0].shape == (4, 3)
    with rcompiler.compile_onnx(proto, cache=False) as model:
        assert model.family.text() == "batch: 1 to 8"


@pytest.mark.parametrize("shape", [(1 << 40, 1 << 20), (1 << 62, 8), (2**31, 2**31, 2**31)])
def test_huge_shapes_are_refused_before_anything_is_reserved(shape):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(ShapeError, "'x'", "GiB", model=relu(shape))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_a_huge_intermediate_is_refused():
    nodes = [
        helper.make_node("Reshape", ["x", "column"], ["c"], "column"),
        helper.make_node("Reshape", ["x", "row"], ["r"], "row"),
        helper.make_node("Mul", ["c", "r"], ["p"], "outer"),
        helper.make_node("ReduceSum", ["p"], ["y"], "total", keepdims=0),
    ]
    n = 1 << 19
    shapes = [
        numpy_helper.from_array(np.array(s), k) for k, s in (("column", (n, 1)), ("row", (1, n)))
    ]
    refused(
        ShapeError, "outer", "GiB", model=graph_model(nodes, [("x", (n,))], [("y", ())], shapes)
    )


def test_a_model_larger_than_this_machine(monkeypatch):
    real = os.sysconf
    monkeypatch.setattr(os, "sysconf", lambda name: 1 if name == "SC_PHYS_PAGES" else real(name))
    refused(DeviceError, "bytes of memory", model=relu((1 << 20,)))
    message = refused(
        DeviceError, "bytes of memory", model=models.build("mlp", layers=(64, 128, 64))
    )
    assert "this machine has" in message and "smaller model" in message


# -- options ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "options, kind, word",
    [
        ({"target": "toaster"}, DeviceError, "cpu"),
        ({"target": "ipu"}, DeviceError, "CPU"),
        ({"target": "no/such/file.json"}, DeviceError, "file.json"),
        ({"target": 3}, DeviceError, "such as"),
        ({"target": ""}, DeviceError, "such as"),
        ({"policy": "best"}, CompilerError, "rammer"),
        ({"kernels": "best"}, CompilerError, "kernels 'best' is none of auto, select, fast"),
        ({"roller_policy": "best"}, CompilerError, "none of roller, osdi22"),
        ({"eus": 0}, CompilerError, "1 or more"),
        ({"eus": -2}, CompilerError, "1 or more"),
        ({"eus": 2.5}, CompilerError, "1 or more"),
        ({"eus": True}, CompilerError, "1 or more"),
        ({"eus": 1 << 20}, CompilerError, "4096"),
        ({"tune": "full"}, CompilerError, "tune"),
        ({"deterministic": False}, CompilerError, "deterministic"),
        ({"fusion": "no"}, CompilerError, "fusion"),
        ({"normalise": 1}, CompilerError, "normalise=1: give True or False"),
        ({"cache": 7}, CompilerError, "cache"),
        ({"shapes": 7}, ShapeError, "shapes"),
        ({"values": 7}, ShapeError, "values"),
        ({"values": {"nothing": 7}}, ShapeError, "no input 'nothing'"),
        ({"progress": 7}, CompilerError, "progress"),
    ],
)
def test_unknown_options(options, kind, word):
    with pytest.raises(kind) as caught:
        rcompiler.compile_onnx(relu(), **{"cache": False, **options})
    assert word in str(caught.value) and "defect" not in str(caught.value)


@pytest.mark.parametrize("name", ["a b", "a}b", "a{b", "a'b", 'a"b', "a,b", "a=b", "ü"])
def test_a_device_file_may_have_any_name(tmp_path, name):
    """The name goes through the text of a pipeline."""
    path = tmp_path / f"{name}.json"
    save_device(cpu_device("x86-64", 1), path)
    assert rcompiler.compile_onnx(relu(), target=str(path), cache=False).eus == 1


# -- calls --------------------------------------------------------------------------------------
X = np.linspace(-1, 1, 64 * 32, dtype=np.float32).reshape(64, 32)


@pytest.mark.parametrize(
    "args, kwargs, words",
    [
        ((), {}, "'input' is missing"),
        ((X, X), {}, "for 1 inputs"),
        ((), {"z": X}, "no input 'z'"),
        ((X,), {"input": X}, "by position and by name"),
        ((X[:2],), {}, "has shape"),
        ((X.astype(np.float64),), {}, "float64"),
        ((X.astype(">f4"),), {}, ">f4"),
        ((None,), {}, "has shape"),
        (("text",), {}, "has shape"),
        (([[1], [1, 2]],), {}, "input"),
        ((object(),), {}, "has shape"),
    ],
)
def test_wrong_arguments_of_a_call(model, args, kwargs, words):
    with pytest.raises(ShapeError) as caught:
        model(*args, **kwargs)
    assert words in str(caught.value)


def test_views_and_special_values_are_data(model):
    (expected,) = model(X)
    for view in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X[::-1][::-1]):
        assert np.array_equal(model(view)[0], expected)
    odd = X.copy()
    odd[0, 0], odd[1, 0], odd[2, 0] = np.nan, np.inf, -np.inf
    (found,) = model(odd)
    assert np.isnan(found[0]).all() and np.array_equal(found[3:], expected[3:])


# -- the command line ---------------------------------------------------------------------------
def test_the_tools_print_one_line_and_no_traceback(tmp_path, monkeypatch, capsys, saved):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RC_CACHE_DIR", "")
    (tmp_path / "cut.onnx").write_bytes(models.build("two_branch").SerializeToString()[:100])
    onnx.save(relu(("batch", 3)), "dynamic.onnx")
    onnx.save(relu((None, 3)), "unnamed.onnx")
    onnx.save(relu((1 << 40, 1 << 20)), "huge.onnx")
    onnx.save(graph_model([helper.make_node("Frobnicate", ["x"], ["y"], "frob")]), "unknown.onnx")
    (tmp_path / "external").mkdir()
    path = external(tmp_path / "external")
    (tmp_path / "external" / "weights.bin").unlink()
    (tmp_path / "bad.mlir").write_text("module {" * 200_000)
    (tmp_path / "cut.rcx").write_bytes(saved.read_bytes()[:1000])
    np.save("nothing.npy", np.zeros((0, 3)))
    cases = [
        (rc_compile.main, ["cut.onnx"], "cut.onnx"),
        (rc_compile.main, ["unnamed.onnx"], "shapes"),
        (rc_compile.main, ["dynamic.onnx", "--shapes=batch=0x"], "shapes"),
        (rc_compile.main, ["huge.onnx"], "GiB"),
        (rc_compile.main, ["unknown.onnx"], "Frobnicate"),
        (rc_compile.main, [str(path)], "external data"),
        (rc_compile.main, ["bad.mlir"], "not valid"),
        (rc_compile.main, ["two_branch", "--emit=torch"], "linalg directly"),
        (rc_compile.main, ["two_branch", "--target=ipu"], "CPU"),
        (rc_run.main, ["cut.rcx"], "cut.rcx"),
        (rc_run.main, ["m.rcx", "nothing.npy"], "input"),
        (rc_run.main, ["."], "."),
    ]
    for main, arguments, word in cases:
        code = main(arguments)
        out, err = capsys.readouterr()
        assert code == 1 and word in err, (arguments, code, err)
        assert err.count("\n") == 1 and "Traceback" not in out + err, (arguments, err)


def test_stages_that_do_not_exist(model):
    with pytest.raises(CompilerError, match="linalg directly.*there are: linalg, rtask, rkernel"):
        model.stage("torch")
    with pytest.raises(CompilerError, match="no stage 'ptx'; there are: linalg"):
        model.stage("ptx")


def test_a_defect_is_called_one(monkeypatch):
    """Whatever happens inside leaves as a CompilerError that names the step."""
    from rcompiler.driver import compilation as module

    def broken(*_):
        raise KeyError("inside")

    monkeypatch.setattr(module, "proved_tables", broken)
    refused(CompilerError, "prove: KeyError", "a defect of the compiler", model=relu())


def test_an_invalid_result_of_a_stage_is_a_defect(monkeypatch):
    """Passes are not verified one by one, their stage is."""
    run = RTaskForm.run

    def broken(self, module):
        run(self, module)
        for operator in operators(module):
            operator.attributes["sym_name"] = ir.StringAttr.get("", module.context)

    monkeypatch.setattr(RTaskForm, "run", broken)
    refused(
        CompilerError, "stage 'rtask'", "a non-empty 'sym_name'", "a defect of the compiler",
        model=relu(),
    )  # fmt: skip


def test_more_threads_than_cpus_compute_the_same(model):
    many = CompiledModel(model.artifact, eus=2)
    assert np.array_equal(many(X)[0], model(X)[0])
