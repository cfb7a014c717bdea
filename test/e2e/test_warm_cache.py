"""Finished models in the cache: found where all that decides them is the same, and nowhere else.

That a model was found, and not compiled, is seen by a compiler that is out of reach.
"""

import inspect
import json
import os
import random
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import onnx
import pytest
import sized_networks
from quantised_networks import products

import rcompiler
from rcompiler import compile as door
from rcompiler.device.cpu import detect_cpu
from rcompiler.device.record import save_device
from rcompiler.driver import finished_models, model_key, model_source, warm_start
from rcompiler.driver.model_source import ModelSource
from rcompiler.errors import CacheWarning, CompilerError, InvalidModel, OptionalPassWarning
from rcompiler.passes import find
from rcompiler.runtime import container
from rcompiler.support import bounded_folder
from rcompiler.tools import models, rc_compile, rc_run

LAYERS = (8, 16, 4)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("RC_CACHE_DIR", str(folder))
    monkeypatch.setenv("RC_CACHE_MODELS", "1")
    return folder


def network(**options):
    return models.build("mlp", layers=LAYERS, **options)


def recurrent():
    return onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]>'
        "g (float[4] x, float[4] h) => (float[4] next) { next = Add (x, h) }"
    )


def written(tmp_path, proto, name="model.onnx"):
    path = tmp_path / name
    onnx.save(proto, path)
    return path


def entries(cache):
    return sorted(cache.glob("*.rcx"))


def given(**options):
    """All arguments of a call, by name."""
    signature = inspect.signature(rcompiler.compile_onnx)
    bound = signature.bind(network(), **options)
    bound.apply_defaults()
    return dict(bound.arguments)


def saved(model, path):
    model.save(path)
    return path.read_bytes()


class Absent:
    """Inside of it the compiler is out of reach."""

    def __enter__(self):
        self._own, door._COMPILER = door._COMPILER, "rcompiler.is_not_there"

    def __exit__(self, *_):
        door._COMPILER = self._own


def in_process(code, *arguments):
    """What a program prints, as JSON."""
    made = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout)


LOOK = """
import json, sys
import numpy as np
import rcompiler
made = {how}
found = made({feeds})
names = [name for name in ("torch_mlir", "llvmlite", "onnx") if name in sys.modules]
heavy = ("passes", "codegen.cpu", "codegen.emit", "frontend", "roller", "driver.compilation")
names += [name for name in heavy if "rcompiler." + name in sys.modules]
print(json.dumps([names, np.asarray(found[0]).tolist()]))
"""
X = np.linspace(-1, 1, 32 * LAYERS[0], dtype=np.float32).reshape(32, -1)
_FEEDS = "np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, -1)"
_SESSION = "(lambda s: lambda x: s.run(None, {{'input': x}}))(rcompiler.InferenceSession({}))"
WAYS = {
    "compile_onnx": "rcompiler.compile_onnx(sys.argv[1])",
    "session": _SESSION.format("sys.argv[1]"),
    "session of bytes": _SESSION.format("open(sys.argv[1], 'rb').read()"),
}


@pytest.mark.parametrize("open_batch", [False, True], ids=["one size", "open"])
@pytest.mark.parametrize("way", WAYS)
def test_a_second_process_imports_no_compiler(way, open_batch, tmp_path):
    proto = network(batch=8)
    if open_batch:
        for value in (*proto.graph.input, *proto.graph.output):
            value.type.tensor_type.shape.dim[0].dim_param = "batch"
    path = written(tmp_path, proto)
    code = LOOK.format(how=WAYS[way], feeds=_FEEDS)
    imported, first = in_process(code, path)
    assert "torch_mlir" in imported
    imported, second = in_process(code, path)
    assert imported == [] and second == first


KINDS = {
    "plain": (network, {}),
    "emulated": (network, {"target": "cuda:emulated", "eus": 2}),
    "another CPU": (network, {"target": "cpu:v4+vnni+bf16+fp16+amx"}),
    "values": (recurrent, {"values": {"h": np.arange(4, dtype=np.float32)}}),
    "levels": (lambda: products(40, 192)[0], {"target": "cpu:x86-64,cpu:v4+vnni+amx,cpu:v3"}),
    "weights of 8 bits": (network, {"precision": "w8"}),
    "filters": (lambda: models.build("squeezenet1_1", image=64), {}),
    "buckets": (
        lambda: sized_networks.bert(layers=1),
        {"shapes": {"batch": (1, 2), "seq": range(1, 9)}, "eus": 2},
    ),
    "packed": (
        lambda: sized_networks.bert(layers=1),
        {"shapes": {"batch": 4, "seq": range(1, 13)}, "packed": ("batch", "seq")},
    ),
    "state": (recurrent, {"state": {"h": "next"}}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_found_is_what_was_compiled(kind, tmp_path):
    build, options = KINDS[kind]
    proto = build()
    compiled = rcompiler.compile_onnx(proto, **options)
    anew = rcompiler.compile_onnx(proto, **options, cache=False)
    with Absent():
        found = rcompiler.compile_onnx(proto, **options)
    assert type(found) is type(compiled) is type(anew)
    want = saved(anew, tmp_path / "anew.rcx")
    assert saved(compiled, tmp_path / "compiled.rcx") == want
    assert saved(found, tmp_path / "found.rcx") == want
    assert found.report().to_json() == anew.report().to_json()
    assert dict(found.artifact.provenance) == dict(anew.artifact.provenance)
    for stage in anew.artifact.stages:
        assert found.artifact.stages[stage] == anew.artifact.stages[stage]


# Of each option two values, of which none is refused.
OTHER = {
    "target": "cpu:x86-64",
    "device": "epyc-9555",
    "shapes": {"input": (16, 8)},
    "buckets": {"batch": (2, 4)},
    "packed": ("batch", "seq"),
    "values": {"input": X},
    "bounds": {"y": 4},
    "state": {"x": "y"},
    "eus": 1,
    "policy": "base",
    "kernels": "fast",
    "roller_policy": "osdi22",
    "fusion": False,
    "normalise": False,
    "tune_budget": 2.0,
    "roots": "direct",
    "precision": "w8",
    "denormals": "zero",
    "machine_code": False,
    "deterministic": False,
}
NOT_KEPT = {
    "tune": "kernels",
    "fallback": {"Relu": np.abs},
    "build": "largest",
    "policy": "rcompiler.rammer.policy:waves",
    "progress": "no function",
}


def key_of(folder, **options):
    return model_key.model_key("the digest", given(**options), folder)


def test_every_option_decides():
    """An option that is new has to be named here, and is in the key without anybody's help."""
    names = {*inspect.signature(rcompiler.compile_onnx).parameters}
    assert names == {"model", *OTHER, *NOT_KEPT, *model_key.WITHOUT_EFFECT}


@pytest.mark.parametrize("option", OTHER)
def test_another_value_is_another_key(option, cache):
    assert key_of(cache) == key_of(cache) is not None
    assert key_of(cache, **{option: OTHER[option]}) not in (None, key_of(cache))


@pytest.mark.parametrize("option", NOT_KEPT)
def test_what_is_not_a_function_of_its_key(option):
    assert model_key.is_kept(given())
    assert not model_key.is_kept(given(**{option: NOT_KEPT[option]}))


@pytest.mark.parametrize("option", sorted(model_key.WITHOUT_EFFECT))
def test_what_has_no_effect(option, cache):
    other = {"cache": str(cache), "progress": print}[option]
    assert key_of(cache, **{option: other}) == key_of(cache)


PAIRS = [
    ({"batch": 1}, {"batch": (1,)}),
    ({"batch": 1}, {"batch": True}),
    ({"batch": (1, 4)}, {"batch": range(1, 4)}),
    ({"batch": range(1, 5)}, {"batch": range(1, 4)}),
    ({"a": 1, "b": 2}, {"a": 2, "b": 1}),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"a": (1, 2)}, {"a": [1, 2]}),
    ({"1": 1}, {"1": "1"}),
    ({"a": "1, 2"}, {"a": ("1", "2")}),
    ({"x": np.float32(1)}, {"x": np.float64(1)}),
    ({"x": X}, {"x": -X}),
    ({"x": X}, {"x": X.T.copy()}),
    ({"x": X}, {"x": X.reshape(-1)}),
    ({"x": X}, {"x": X.view(np.int32)}),
    ({"x": 0.0}, {"x": -0.0}),
]


@pytest.mark.parametrize("one, other", PAIRS)
def test_values_that_look_alike(one, other, cache):
    assert key_of(cache, shapes=one) != key_of(cache, shapes=other)


@pytest.mark.parametrize("value", [object(), {"x": np.array([None])}, {"x": iter(())}, {1: {2}}])
def test_a_value_without_a_content(value, cache):
    """It is the compiler's to refuse."""
    with pytest.raises(TypeError):
        key_of(cache, shapes=value)
    with pytest.raises(CompilerError):
        rcompiler.compile_onnx(network(), shapes=value)


def test_the_machine_decides(cache, monkeypatch, tmp_path):
    keys = [key_of(cache)]
    monkeypatch.setattr(model_key, "host_name", lambda: "another CPU")
    keys.append(key_of(cache))
    monkeypatch.undo()
    monkeypatch.setattr(model_key, "host_flags", lambda: frozenset({"sse2"}))
    keys.append(key_of(cache))
    monkeypatch.undo()
    monkeypatch.setenv("RC_HOST_LEVEL", "x86-64")
    keys.append(key_of(cache))
    monkeypatch.undo()
    monkeypatch.setattr(model_key, "code_version", lambda: "another code")
    keys.append(key_of(cache))
    monkeypatch.undo()
    device = detect_cpu()
    for number in (1234.5, 1234.25):
        path = tmp_path / f"{number}.json"
        save_device(replace(device, costs=replace(device.costs, barrier_ns=number)), path)
        keys.append(key_of(cache, device=path))
        monkeypatch.setenv("RC_DEVICE", str(path))
        assert key_of(cache) == keys[-1]
    assert None not in keys and len({*keys}) == len(keys)


def test_a_machine_that_is_not_measured_has_no_key(cache, monkeypatch):
    monkeypatch.delenv("RC_DEVICE")
    assert key_of(cache) is None


def test_a_device_file_decides_by_its_content(cache, tmp_path):
    path = tmp_path / "device.json"
    save_device(rcompiler.device.record.builtin_device("epyc-9555"), path)
    before = key_of(cache, target=str(path))
    save_device(replace(rcompiler.device.record.builtin_device("epyc-9555"), eus=3), path)
    assert key_of(cache, target=str(path)) != before


def test_one_entry_for_the_path_and_the_bytes(tmp_path, cache):
    path = written(tmp_path, network())
    rcompiler.compile_onnx(path)
    with Absent():
        rcompiler.compile_onnx(str(path))
        rcompiler.compile_onnx(path.read_bytes())
    assert len(entries(cache)) == 1


def test_a_model_that_has_changed_is_compiled(tmp_path, cache):
    path = written(tmp_path, network())
    first = rcompiler.compile_onnx(path)(X)
    status = os.stat(path)
    onnx.save(network(seed=1), path)
    assert os.stat(path).st_size == status.st_size
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # who wants to deceive us
    second = rcompiler.compile_onnx(path)(X)
    assert np.abs(first[0] - second[0]).max() > 1e-3 and len(entries(cache)) == 2
    assert (rcompiler.compile_onnx(network(seed=1), cache=False)(X)[0] == second[0]).all()


def test_a_model_that_its_owner_changes(cache):
    proto = network()
    rcompiler.compile_onnx(proto)
    with Absent():
        rcompiler.compile_onnx(proto)
    weight = proto.graph.initializer[0]
    weight.raw_data = bytes(len(weight.raw_data))
    rcompiler.compile_onnx(proto)
    large = models.build("mlp", layers=(256, 128))
    rcompiler.compile_onnx(large)
    weight = max(large.graph.initializer, key=lambda each: len(each.raw_data))
    assert len(weight.raw_data) > model_source._LARGE
    weight.raw_data = weight.raw_data[:-1] + b"\1"
    rcompiler.compile_onnx(large)
    assert len(entries(cache)) == 4


def external(tmp_path, seed=0):
    path = tmp_path / "model.onnx"
    onnx.save(network(seed=seed), path, save_as_external_data=True, location="w.bin",
              size_threshold=0)  # fmt: skip
    return path


def test_weights_in_another_file_decide(tmp_path, cache):
    path = external(tmp_path)
    first = rcompiler.compile_onnx(path)(X)
    with Absent():
        again = rcompiler.compile_onnx(path)(X)
    assert (first[0] == again[0]).all()
    weights = tmp_path / "w.bin"
    status, content = os.stat(weights), bytearray(weights.read_bytes())
    content[: 4 * LAYERS[0] * LAYERS[1]] = bytes(4 * LAYERS[0] * LAYERS[1])
    weights.write_bytes(content)
    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))
    second = rcompiler.compile_onnx(path)(X)
    assert (first[0] != second[0]).any() and len(entries(cache)) == 2
    weights.unlink()
    with pytest.raises(InvalidModel, match="external data cannot be read"):
        rcompiler.compile_onnx(path)


def test_a_file_that_changes_while_it_is_compiled_is_not_kept(tmp_path, cache, monkeypatch):
    path = external(tmp_path)
    real = ModelSource.opened

    @contextmanager
    def opened(self):
        with real(self) as model:
            yield model
        external(tmp_path, seed=1)

    monkeypatch.setattr(ModelSource, "opened", opened)
    rcompiler.compile_onnx(path)
    assert not entries(cache)


def test_the_digest_of_a_large_file_is_kept_while_nobody_writes_to_it(tmp_path, monkeypatch):
    monkeypatch.setattr(model_source, "_REMEMBERED", 1)
    path = written(tmp_path, network())
    models_kept, reads = warm_start.finished_models(None), []
    real = model_source._state
    monkeypatch.setattr(model_source, "_state", lambda *given: reads.append(1) or real(*given))

    def digest():
        ModelSource(path)._read(path, models_kept)
        return len(reads)

    assert [digest(), digest()] == [1, 2]  # it was written a moment ago
    monkeypatch.setattr(model_source, "_SETTLED_NS", -(10**15))
    assert [digest(), digest()] == [3, 3]
    os.utime(path)
    assert [digest(), digest()] == [4, 4]
    path.write_bytes(path.read_bytes())
    assert [digest(), digest()] == [5, 5]


def test_code_that_has_changed(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(warm_start, "is_current", lambda: False)
    rcompiler.compile_onnx(network())
    assert not entries(cache)
    monkeypatch.undo()


def damaged(path, how):
    data = bytearray(path.read_bytes())
    if how == "empty":
        data = b""
    elif how == "cut":
        data = data[: len(data) // 2]
    elif how == "text":
        data = b"no model"
    elif how == "longer":
        data += b"\0"
    else:
        place = random.Random(how).randrange(len(data))
        data[place] ^= 1 << random.Random(how + 1).randrange(8)
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["empty", "cut", "text", "longer", *range(20)])
def test_a_damaged_entry_is_built_again(how, cache):
    want = rcompiler.compile_onnx(network())(X)
    [path] = entries(cache)
    whole = path.read_bytes()
    damaged(path, how)
    with pytest.warns(CacheWarning, match="damaged and is built again") as told:
        found = rcompiler.compile_onnx(network())
    assert told[0].filename == __file__
    assert (found(X)[0] == want[0]).all() and path.read_bytes() == whole


def test_an_entry_of_another_model_is_found_out(cache):
    rcompiler.compile_onnx(network(seed=1))
    [other] = entries(cache)
    content = other.read_bytes()
    other.unlink()
    want = rcompiler.compile_onnx(network())(X)
    [path] = entries(cache)
    path.write_bytes(content)
    with pytest.warns(CacheWarning, match="damaged"):
        assert (rcompiler.compile_onnx(network())(X)[0] == want[0]).all()


def test_an_entry_of_another_format_is_built_again(cache):
    rcompiler.compile_onnx(network())
    [path] = entries(cache)
    data = path.read_bytes()
    number = container.VERSION.to_bytes(4, "little")
    path.write_bytes(data[:4] + (container.VERSION + 1).to_bytes(4, "little") + data[8:])
    assert data[4:8] == number
    with pytest.warns(CacheWarning, match="damaged"):
        rcompiler.compile_onnx(network())


def test_a_schedule_that_is_not_proved_is_not_run(cache, monkeypatch):
    """An entry whose hashes are right, written by who knows the key."""
    want = rcompiler.compile_onnx(network(), eus=2)(X)
    [path] = entries(cache)
    header, sections = container.read(path, mapped=False)
    del header["sections"]
    tables = sections["tables"].copy()
    tables[:8] = 255
    container.write(path, header, {**sections, "tables": tables})
    with pytest.warns(CacheWarning, match="damaged"):
        assert (rcompiler.compile_onnx(network(), eus=2)(X)[0] == want[0]).all()


def test_facts_that_are_damaged_are_learnt_again(tmp_path, cache):
    path = written(tmp_path, network())
    rcompiler.InferenceSession(path)
    [facts] = cache.glob("*.facts")
    whole = facts.read_bytes()
    for data in (b"", whole[:40], whole[:-1] + b"!", b"\0" * 32 + b"{}"):
        facts.write_bytes(data)
        assert rcompiler.InferenceSession(path).get_inputs()[0].name == "input"
        assert facts.read_bytes() == whole


def labelled():
    """A ZipMap of the input."""
    number = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    maps = onnx.helper.make_map_type_proto(onnx.TensorProto.INT64, number)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml",
                               classlabels_int64s=[30, 10])],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ("n", 2))],
        [onnx.helper.make_value_info("y", onnx.helper.make_sequence_type_proto(maps))],
    )  # fmt: skip
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


LOOK_AT_MAPS = """
import json, sys
import numpy as np
import rcompiler
[maps] = rcompiler.InferenceSession(sys.argv[1]).run(None, {"x": np.float32([[1, 2], [3, 4]])})
print(json.dumps(["onnx" in sys.modules, [[*each.items()] for each in maps]]))
"""


def test_maps_of_a_model_that_is_found_have_their_labels(tmp_path):
    path = written(tmp_path, labelled())
    for compiled in (True, False):
        found = in_process(LOOK_AT_MAPS, path)
        assert found == [compiled, [[[10, 2], [30, 1]], [[10, 4], [30, 3]]]]


def test_facts_of_an_older_version_are_learnt_again(tmp_path, cache):
    path = written(tmp_path, labelled())
    rcompiler.InferenceSession(path)
    [facts] = cache.glob("*.facts")
    whole, kept = facts.read_bytes(), finished_models.FinishedModels(cache)
    known = kept.facts(facts.stem)
    del known["declared"]["outputs"][0]["labels"]
    kept.keep_facts(facts.stem, known)
    assert facts.read_bytes() != whole
    assert rcompiler.InferenceSession(path).get_outputs()[0].type.startswith("seq(map(int64")
    assert facts.read_bytes() == whole


WRITE = """
import sys
import numpy as np
import rcompiler
from rcompiler.tools import models, rc_compile, rc_run
for _ in range(3):
    for seed in range(3):
        model = rcompiler.compile_onnx(models.build("mlp", layers=(8, 16, 4), seed=seed))
        x = np.linspace(-1, 1, 256, dtype=np.float32).reshape(32, -1)
        print(seed, model(x)[0].sum())
"""


def test_several_processes_write_at_once(cache):
    arguments = [sys.executable, "-W", "error", "-c", WRITE]
    processes = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    told = [process.communicate()[0].splitlines() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len({line for lines in told for line in lines}) == 3  # one answer for each seed
    assert len(entries(cache)) == 3 and not list(cache.glob("*.tmp"))
    for path in entries(cache):
        container.read(path)


def fill(cache, *sizes):
    """Entries of so many bytes, the oldest first."""
    cache.mkdir(mode=0o700, exist_ok=True)
    for number, size in enumerate(sizes):
        path = cache / f"{number}.o"
        path.write_bytes(bytes(size))
        os.utime(path, (1000 + number, 1000 + number))


def test_what_was_not_used_for_the_longest_time_goes_first(cache):
    fill(cache, 400, 300, 200)
    (cache / "profile.sqlite").write_bytes(bytes(10**4))
    folder = bounded_folder.BoundedFolder(cache)
    folder.touch("0.o")
    folder.added(200, 900)
    assert {path.name for path in cache.iterdir()} == {"0.o", "1.o", "2.o", "profile.sqlite"}
    bounded_folder.BoundedFolder(cache).added(200, 600)
    assert {path.name for path in cache.iterdir()} == {"0.o", "2.o", "profile.sqlite"}


def test_unfinished_files_of_processes_that_ended_go(cache):
    fill(cache, 10)
    for name in (".a.o.1234.tmp", ".b.o.1234.tmp"):
        (cache / name).write_bytes(b"half")
    os.utime(cache / ".a.o.1234.tmp", (1000, 1000))
    bounded_folder.BoundedFolder(cache).added(1, 10**6)
    assert {path.name for path in cache.iterdir()} == {"0.o", ".b.o.1234.tmp"}


def test_the_folder_is_bounded(cache, monkeypatch):
    monkeypatch.setenv("RC_CACHE_MB", "1")
    for seed in range(6):
        rcompiler.compile_onnx(models.build("mlp", layers=(128, 256), seed=seed))
    found = sum(path.stat().st_size for path in cache.iterdir())
    assert entries(cache) and found <= 1.1e6
    with Absent():
        rcompiler.compile_onnx(models.build("mlp", layers=(128, 256), seed=5))


def test_a_model_that_is_large_for_the_folder_is_not_kept(cache, monkeypatch):
    monkeypatch.setenv("RC_CACHE_MB", "1")
    rcompiler.compile_onnx(models.build("mlp", layers=(256, 256)))
    assert not entries(cache) and list(cache.glob("*.o"))


@pytest.mark.parametrize("text", ["-1", "many", "1.5"])
def test_a_bound_that_is_no_number(text, monkeypatch):
    monkeypatch.setenv("RC_CACHE_MB", text)
    with pytest.raises(CompilerError, match="RC_CACHE_MB.*give a number of megabytes"):
        rcompiler.compile_onnx(network())


def test_nothing_is_kept_without_a_cache(cache, monkeypatch):
    rcompiler.compile_onnx(network(), cache=False)
    monkeypatch.setenv("RC_CACHE_MODELS", "0")
    rcompiler.compile_onnx(network())
    assert not entries(cache)
    monkeypatch.setenv("RC_CACHE_DIR", "")
    monkeypatch.setenv("RC_CACHE_MODELS", "1")
    rcompiler.compile_onnx(network())
    assert not entries(cache)


def test_a_folder_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(CacheWarning, match="cannot be"):
        rcompiler.compile_onnx(network(), cache=tmp_path / "file")


def test_a_full_disk(cache, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(container, "write_to", full)
    with pytest.warns(CacheWarning, match="cannot be written .No space left"):
        found = rcompiler.compile_onnx(network())
    assert len(found(X)) == 1 and not entries(cache) and not list(cache.glob(".*"))


LATER = """
import sys, threading
import numpy as np
import rcompiler
from rcompiler.driver import finished_models
from rcompiler.runtime import container
from rcompiler.tools import models

finished_models._LARGE = 0
answered = threading.Event()
write = container.write_to

def slow(*given):
    answered.wait(60)
    write(*given)

container.write_to = slow
model = rcompiler.compile_onnx(models.build("mlp", layers=(8, 16, 4)))
print(len(model(np.ones((32, 8), np.float32))))
answered.set()
"""


def test_a_large_model_is_written_while_its_caller_goes_on(cache):
    told = subprocess.run([sys.executable, "-W", "error", "-c", LATER], stdout=subprocess.PIPE)
    assert told.returncode == 0 and told.stdout == b"1\n"
    with Absent():  # the process has waited for its writer
        assert len(rcompiler.compile_onnx(network())(X)) == 1


def test_who_asks_for_a_model_waits_until_it_is_written(cache, monkeypatch):
    monkeypatch.setattr(finished_models, "_LARGE", 0)
    write = container.write_to

    def slow(*given):
        time.sleep(0.5)
        write(*given)

    monkeypatch.setattr(container, "write_to", slow)
    rcompiler.compile_onnx(network())
    with Absent():
        rcompiler.compile_onnx(network())


def test_of_a_model_with_functions_of_the_callers_the_parts_are_kept(cache):
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21, "own": 1]>'
        "g (float[4] x) => (float[4] y) { a = Add (x, x)  b = own.Twice (a)  y = Sub (b, x) }"
    )
    options = {"fallback": {"own::Twice": lambda x: 2 * x}}
    for _ in range(2):
        found = rcompiler.compile_onnx(proto, **options)(np.ones(4, np.float32))
        assert found[0].tolist() == [3.0] * 4 and len(entries(cache)) == 2


def test_a_pass_that_was_left_out_is_told_every_time(cache, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("seeded")

    monkeypatch.setattr(find("rtask-fuse-axes"), "run", broken)
    for _ in range(2):
        with pytest.warns(OptionalPassWarning, match="rtask-fuse-axes"):
            rcompiler.compile_onnx(network())
    assert not entries(cache)


def test_progress_is_told_of_a_model_that_is_found(cache):
    told = []
    rcompiler.compile_onnx(network(), progress=lambda step, _: told.append(step))
    assert told[0] == "import" and warm_start.STEP not in told
    told.clear()
    rcompiler.compile_onnx(network(), progress=lambda *each: told.append(each))
    [(step, seconds)] = told
    assert step == warm_start.STEP and seconds > 0


def test_tools_find_models(tmp_path, cache, capsys):
    path = written(tmp_path, network())
    first, second = tmp_path / "first.rcx", tmp_path / "second.rcx"
    assert rc_compile.main([str(path), "-o", str(first), "--timing"]) == 0
    assert "roller-tile" in capsys.readouterr().err
    with Absent():
        assert rc_compile.main([str(path), "-o", str(second), "--timing", "--report"]) == 0
        told = capsys.readouterr()
        assert warm_start.STEP in told.err and "roller-tile" not in told.err
        assert "fc1_Gemm" in told.out and second.read_bytes() == first.read_bytes()
        assert rc_compile.main([str(path), "--emit=linalg", "-o", str(tmp_path / "s.mlir")]) == 0
        assert "linalg" in (tmp_path / "s.mlir").read_text() and (tmp_path / "s.npz").exists()
        assert rc_run.main([str(path), "--verify"]) == 0


def test_a_session_goes_on_with_the_model_that_it_was_made_of(tmp_path, cache):
    proto = network()
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    path = written(tmp_path, proto)
    rcompiler.InferenceSession(path).run(None, {"input": X[:4]})
    session = rcompiler.InferenceSession(path)
    onnx.save(network(seed=1), path)
    [want] = rcompiler.compile_onnx(network(), cache=False)(X)
    np.testing.assert_allclose(session.run(None, {"input": X})[0], want, 1e-5, 1e-5)
    path.unlink()
    np.testing.assert_allclose(session.run(None, {"input": X[:3]})[0], want[:3], 1e-5, 1e-5)


def test_no_warning_of_a_compilation_is_lost(cache):
    """What is found says nothing, as what was compiled did."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rcompiler.compile_onnx(network())
        rcompiler.compile_onnx(network())
