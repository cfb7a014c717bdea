"""One model for several sizes of its inputs: programs that share weights, threads and a file."""

import copy
import json
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rcompiler
from rcompiler.bucketed import BucketedModel
from rcompiler.driver import isolate
from rcompiler.errors import ArtifactError, CompilerError, DeviceError, ShapeError
from rcompiler.runtime import container, family
from rcompiler.runtime.artifact import Artifact
from rcompiler.tools import rc_compile, rc_run

_RNG = np.random.default_rng(7)
W = _RNG.standard_normal((64, 4096)).astype(np.float32)
V = _RNG.standard_normal((4096, 32)).astype(np.float32)
SIZES = (1, 3, 8)


def network():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "v"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "sizes",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 32])],
        [numpy_helper.from_array(W, "w"), numpy_helper.from_array(V, "v")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def compiled(sizes=SIZES, **options):
    given = {"shapes": {"batch": sizes}, "cache": False, "eus": 2, **options}
    return rcompiler.compile_onnx(network(), **given)


@pytest.fixture(scope="module")
def model():
    with compiled() as made:
        yield made


@pytest.fixture
def file(model, tmp_path):
    model.save(tmp_path / "m.rcx")
    return tmp_path / "m.rcx"


def rows(count):
    return np.random.default_rng(count).standard_normal((count, 64)).astype(np.float32)


def test_each_size_gives_what_a_model_of_that_size_alone_gives(model):
    for count in (*SIZES, *reversed(SIZES)):
        with compiled(count) as alone:
            [y], [exact] = model(rows(count)), alone(x=rows(count))
        assert y.shape == (count, 32) and y.tobytes() == exact.tobytes()


def test_it_says_for_which_sizes_it_is(model):
    sides = *model.inputs, *model.outputs
    assert [t.sizes for t in sides] == [("batch", 64), ("batch", 32)]
    assert [t.shape for t in sides] == [(8, 64), (8, 32)]
    assert "for 'batch: 1, 3, 8'" in repr(model)
    assert "the largest of 3 programs over one block of weights" in model.report().note
    assert [sizes for sizes, _ in model.programs] == [{"batch": (n, n)} for n in SIZES]
    assert model.program(batch=3).inputs[0].shape == (3, 64)
    assert "tensor<8x64xf32>" in model.stage("linalg")


def test_there_is_one_block_of_weights(model, file):
    loaded = rcompiler.load(file)
    for each in (model, loaded):
        blocks = {id(program.constants) for program in each.family.programs}
        assert len(blocks) == 1
    with compiled(3) as one:
        one.save(file.with_name("one.rcx"))
    assert file.stat().st_size < 1.25 * file.with_name("one.rcx").stat().st_size


def test_a_file_has_what_was_saved(model, file, tmp_path):
    with rcompiler.load(file) as loaded:
        assert isinstance(loaded, BucketedModel)
        loaded.save(tmp_path / "again.rcx")
        assert (tmp_path / "again.rcx").read_bytes() == file.read_bytes()
        for count in SIZES:
            assert loaded(rows(count))[0].tobytes() == model(rows(count))[0].tobytes()
    with pytest.raises(DeviceError, match="closed"):
        loaded(rows(1))
    with pytest.raises(DeviceError, match="closed"):
        copy.copy(loaded)


def test_the_same_options_give_the_same_bytes(file):
    assert compiled().family.to_bytes() == file.read_bytes()


def test_copies_run_on_their_own(model):
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with other:
            assert other(rows(3))[0].tobytes() == model(rows(3))[0].tobytes()


def test_calls_of_several_threads_take_turns(model):
    wanted = {count: model(rows(count))[0].tobytes() for count in SIZES}
    wrong = []

    def call(count):
        for _ in range(50):
            if model(rows(count))[0].tobytes() != wanted[count]:
                wrong.append(count)

    threads = [threading.Thread(target=call, args=(count,)) for count in SIZES]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


def test_programs_for_a_gpu():
    made = network()
    made.graph.node[2].CopyFrom(helper.make_node("Neg", ["b"], ["y"]))
    made.graph.initializer[0].CopyFrom(numpy_helper.from_array(W[:, :32], "w"))
    sizes = {"shapes": {"batch": range(1, 4)}, "buckets": {"batch": (1, 3)}}
    options = {"target": "cuda:emulated", "build": "largest", "cache": False}
    with rcompiler.compile_onnx(made, **sizes, **options) as found:
        for state in ("not asked for", "built"):
            assert found.builds[0].state == state
            for count in (1, 3):
                wanted = -np.maximum(rows(count) @ W[:, :32], 0)
                np.testing.assert_allclose(found(rows(count))[0], wanted, 1e-4, 1e-4)
            found.wait(120.0)
        with pytest.raises(DeviceError, match="a pool is of models for CPUs"):
            rcompiler.Pool(found, 1)
        with pytest.raises(DeviceError, match="on a GPU is not timed"):
            BucketedModel(found.family, timed=True)


def test_memory_can_be_bound_to_a_program(model):
    binding = model.program(batch=3).bind()
    binding.inputs[0][...] = rows(3)
    binding()
    assert binding.outputs[0].tobytes() == model(rows(3))[0].tobytes()


def test_a_process_of_its_own_makes_the_same(file, monkeypatch):
    options = {"shapes": {"batch": SIZES}, "cache": False, "eus": 2}
    found = isolate.compile_onnx(network(), **options)
    assert found.family.to_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (np.zeros((2, 64), np.float32), "no program for batch=2; .* for batch: 1, 3, 8"),
        (np.zeros((1, 65), np.float32), r"shape \[1, 65\]"),
        (np.zeros(64, np.float32), r"the model wants \[batch, 64\]"),
        (np.zeros((3, 64), np.float64), "is float64"),
    ],
)
def test_other_arguments_are_refused(model, x, said):
    with pytest.raises(ShapeError, match=said):
        model(x)


def test_inputs_that_disagree_are_refused():
    node = helper.make_node("Add", ["a", "b"], ["y"])
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 2]) for n in "ab"]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])
    graph = helper.make_graph([node], "add", inputs, [output])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with rcompiler.compile_onnx(made, shapes={"n": (1, 2)}, cache=False) as model:
        one, two = (np.ones((n, 2), np.float32) for n in (1, 2))
        with pytest.raises(ShapeError, match="'n' is 1 in input 'a' and 2 in input 'b'"):
            model(one, two)
        assert model(b=two, a=two)[0].tolist() == [[2, 2], [2, 2]]
        with pytest.raises(ShapeError, match="has no size 'm'; it has: n"):
            model.program(m=1)


def test_what_this_machine_lacks_is_compiled_and_saved(tmp_path):
    """In a process whose host is of a lower level."""
    onnx.save(network(), tmp_path / "m.onnx")
    options = [
        tmp_path / "m.onnx",
        "--target=cpu:v4",
        "--shapes=batch=1+3",
        "-o",
        tmp_path / "m.rcx",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "rcompiler.tools.rc_compile", *map(str, options)],
        env={**os.environ, "RC_HOST_LEVEL": "v3"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [p.target for p in family.load(tmp_path / "m.rcx").programs] == ["x86-64-v4"] * 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "cpu:x86-64,cpu:v3"}, "target='cpu:x86-64,cpu:v3' is for a model of one size"),
        ({"tune": "online"}, "tune='online' is for a model of one size"),
    ],
)
def test_options_for_one_size_are_refused(options, said):
    with pytest.raises(CompilerError, match=said):
        compiled(**options)


def test_who_wants_one_program_is_told(file):
    with pytest.raises(ArtifactError, match="several sizes .* load the file with rcompiler.load"):
        Artifact.load(file)


def _sizes(said):
    said["programs"][0]["sizes"] = [[2, 2]]


def _symbol(said):
    said["axes"][0][0] = 1


def _rank(said):
    said["axes"][0].append(None)


def _names(said):
    said["symbols"] = ["batch", "batch"]


def _many(said):
    said["programs"] *= 30


def _none(said):
    said["programs"] = []


def _place(said):
    said["programs"][0]["sections"]["code"] = "9 code"


def _weights(said):
    said["programs"][0]["sections"]["weights"] = "weights"


def _exchanged(said):
    one, two = said["programs"][:2]
    one["sections"], two["sections"] = two["sections"], one["sections"]


@pytest.mark.parametrize(
    "change",
    [_sizes, _symbol, _rank, _names, _many, _none, _place, _weights, _exchanged],
    ids=lambda change: change.__name__,
)
def test_a_file_that_contradicts_itself_is_refused(file, change):
    header, sections = container.read(file, mapped=False)
    header = json.loads(json.dumps({n: v for n, v in header.items() if n != "sections"}))
    change(header["buckets"])
    container.write(file, header, sections)
    with pytest.raises(ArtifactError, match=f"{file}: .*(compile|damaged)"):
        family.load(file)


@pytest.mark.parametrize("seed", range(3))
def test_the_tools_take_a_size_that_there_is(tmp_path, capsys, seed):
    onnx.save(network(), tmp_path / "m.onnx")
    file = tmp_path / "m.rcx"
    assert rc_compile.main([str(tmp_path / "m.onnx"), "--shapes=batch=1+3", f"-o{file}"]) == 0
    options = [str(file), f"--onnx={tmp_path / 'm.onnx'}", "--verify", f"--seed={seed}"]
    assert rc_run.main([*options, f"--profile={tmp_path / 'p.json'}"]) == 0
    out = capsys.readouterr().out
    assert "largest error" in out and ("1x32" in out or "3x32" in out)


def test_what_is_checked_and_emitted_is_of_the_largest_sizes(tmp_path, capsys):
    onnx.save(network(), tmp_path / "m.onnx")
    assert rc_compile.main([str(tmp_path / "m.onnx"), "--check"]) == 0
    assert "all 3 nodes can be compiled" in capsys.readouterr().out
    options = [str(tmp_path / "m.onnx"), "--shapes=batch=2+5"]
    for stage in ("linalg", "vdevice"):
        target = tmp_path / f"{stage}.mlir"
        assert rc_compile.main([*options, f"--emit={stage}", f"-o{target}"]) == 0
        assert "tensor<5x64xf32>" in target.read_text()
        assert target.with_suffix(".npz").exists()


def test_the_model_that_takes_a_call(model):
    assert model.taking(rows(3)) is model.program(batch=3) is not model.largest
    assert model.taking(x=rows(8)) is model.largest
    assert model.constants().keys() == model.largest.constants().keys()
