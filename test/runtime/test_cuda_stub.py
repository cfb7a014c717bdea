"""The CUDA driver of the runtime under the real cuda-bindings, over a library that stands in for
the driver's (test/support/cuda_stub.c).
"""

import re
from dataclasses import replace

import numpy as np
import pytest
from cuda_stub import Stub, build, missing
from onnx import TensorProto, helper, numpy_helper

import rcompiler

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "it is there")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("libcuda"))


@pytest.fixture
def stub(library, tmp_path):
    return Stub(library, tmp_path)


def products(count: int) -> object:
    """Products of f16, one behind the other: their factors come in boxes."""
    rng, size = np.random.default_rng(3), 128
    weights = [
        numpy_helper.from_array(rng.standard_normal((size, size)).astype(np.float16), f"w{k}")
        for k in range(count)
    ]
    nodes = [helper.make_node("MatMul", [f"x{k}", f"w{k}"], [f"x{k + 1}"]) for k in range(count)]
    sides = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT16, [size, size])]
        for name in ("x0", f"x{count}")
    ]
    graph = helper.make_graph(nodes, "g", *sides, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """One launch of PTX alone; the same with machine code, which the stub does not look into; and a
    launch for each operator.
    """
    folder = tmp_path_factory.mktemp("models")
    options = {"target": "cuda:h200", "machine_code": False}
    model = rcompiler.compile_onnx(products(2), **options)
    artifact, image = model.artifact, model.artifact.image
    assert image.boxes
    artifact.save(folder / "ptx.rcx")
    replace(artifact, image=replace(image, cubin=b"\x7fELF of nobody")).save(folder / "cubin.rcx")
    rcompiler.compile_onnx(products(2), policy="base", **options).save(folder / "base.rcx")
    return folder


def script(path, body=""):
    return f"""
import gc, warnings
import numpy as np
import rcompiler
model = rcompiler.load({str(path)!r})

def once():
    [y] = model(np.zeros((128, 128), np.float16))
    assert y.shape == (128, 128) and y.dtype == np.float16
{body}
"""


def test_calls_that_a_driver_takes(stub, models):
    """Nothing is refused: addresses, arguments of kernels, tensor maps at multiples of 64 bytes."""
    found = stub.run(script(models / "ptx.rcx", "say(once)\nsay(once)\nmodel.close()\n"))
    assert found.said == "no error\n" * 2 and found.warned == ""
    assert found.noted("refused") == []
    assert found.noted("load") == ["load ptx"]
    assert len(found.noted("map of rank 3")) >= 2
    launches = found.noted("launch")
    assert [line[-1] for line in launches] == ["1", "2"] and "cooperative 1" in launches[0]


def test_tensor_maps_of_the_bindings_lie_elsewhere(stub):
    """Why maps are not encoded by cuda-bindings: the stub refuses what lies at 16 bytes."""
    found = stub.run("""
from rcompiler.runtime.gpu.cuda import CudaDriver
from rcompiler.runtime.gpu.driver import TensorTile
driver = CudaDriver()
place = driver.allocate(1 << 20)
for k in range(100):
    assert len(driver.tensor_map(TensorTile(place, 2, (64, 64), (128,), (64, 8), 128))) == 128
say(lambda: driver.tensor_map(TensorTile(place + 8, 2, (64, 64), (128,), (64, 8), 128)))
""")
    assert len(found.noted("map of rank 2")) == 100
    [refused] = found.noted("refused")
    assert "tensor % 16 == 0" in refused
    assert found.said.startswith(
        "DeviceError: describe a tensor: the stub's result 1 (CUDA_ERROR_I"
    )


def test_machine_code_that_is_refused_gives_way_to_ptx(stub, models):
    body = """
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    say(once)
    say(once)
for warning in found:
    print(warning.category.__name__, warning.message)
"""
    taken = stub.run(script(models / "cubin.rcx", body))
    assert taken.noted("load") == ["load elf"] and taken.said == "no error\n" * 2
    found = stub.run(script(models / "cubin.rcx", body), REFUSE="elf")
    assert found.noted("load") == ["load elf", "load ptx"]
    first, second, warning, *others = found.said.splitlines()
    assert (first, second, others) == ("no error", "no error", [])
    assert warning.startswith("MachineCodeWarning the machine code of the model was refused")
    assert "NO_BINARY_FOR_GPU): the stub takes no elf" in warning


def test_code_that_is_refused_in_both_forms(stub, models):
    found = stub.run(script(models / "cubin.rcx", "say(once)"), REFUSE="elf,ptx")
    assert found.noted("load") == ["load elf", "load ptx"]
    assert found.said.startswith("DeviceError: load the code on stub 0: ")
    for part in ("UNSUPPORTED_PTX_VERSION", "update the NVIDIA driver", "machine code: load the"):
        assert part in found.said


FAILURES = [
    ("cuLaunchCooperativeKernel", 701, "launch 'veu' .*LAUNCH_OUT_OF_RESOURCES.*compile the model"),
    ("cuStreamSynchronize", 719, "LAUNCH_FAILED.*in a new process"),
    ("cuMemAlloc", 2, "reserve .* bytes on stub 0: .*smaller model"),
    ("cuModuleGetFunction", 500, "find kernel 'veu'"),
    ("cuTensorMapEncodeTiled", 1, "describe a tensor: .*INVALID_VALUE"),
    ("cuDevicePrimaryCtxRetain", 46, "use stub 0: .*exclusive use"),
    ("cuCtxPushCurrent", 201, "INVALID_CONTEXT"),
]


def test_more_shared_memory_is_asked_for(stub, models):
    """And refused before a launch, where the kernel may not have it."""
    body = f"""
from rcompiler.runtime.gpu.cuda import CudaDriver
driver = CudaDriver()
image = rcompiler.load({str(models / "ptx.rcx")!r}).artifact.image
function = driver.function(driver.load(image.ptx), image.entry)
say(lambda: print(driver.occupancy(function, 256, 100 << 10)))
os.environ["RC_STUB_FAIL"] = "cuFuncSetAttribute=1"
say(lambda: driver.occupancy(function, 256, 200 << 10))
say(lambda: driver.occupancy(function, 256, 300 << 10))
"""
    first, second, third, fourth = stub.run("import rcompiler\n" + body).said.splitlines()
    assert (first, second) == ("1", "no error")
    assert "give 'veu' 204800 bytes of shared memory: " in third and "INVALID_VALUE" in third
    assert "a block of stub 0 has 232448; compile the model for this device" in fourth


@pytest.mark.parametrize(("function", "result", "message"), FAILURES)
def test_a_call_that_fails(stub, models, function, result, message):
    found = stub.run(script(models / "ptx.rcx", "say(once)"), FAIL=f"{function}={result}")
    assert re.match(f"DeviceError: .*{message}", found.said)
    assert all(function in line for line in found.noted("refused"))


def test_a_wait_without_end_says_who_waits(stub, models):
    """Also when the context is lost with the launch: what the kernel wrote lies on the host."""
    body = """
os.environ["RC_STUB_STOP"] = "1,-1,132"
say(once)
say(once)
model.close()
"""
    found = stub.run(script(models / "ptx.rcx", body))
    first, second = found.said.splitlines()
    assert "the schedule stopped: a wait took longer than 2 s; EU 1" in first
    assert "in a new process" in second


def test_graphs_get_the_number_of_the_inference(stub, models):
    body = "binding = model.bind()\nfor _ in range(3): binding()\nprint(binding.elapsed_ns(2))\n"
    found = stub.run(script(models / "ptx.rcx", body))
    assert found.said == "250000.0\n" and found.noted("refused") == []
    assert [line[-1] for line in found.noted("launch")] == ["1", "2", "3", "4", "5"]
    assert set(found.noted("graph")) == {"graph of 1 launches"}


def test_launches_apart_are_one_graph(stub, models):
    body = "say(once)\nbinding = model.bind()\nbinding()\nbinding()\n"
    found = stub.run(script(models / "base.rcx", body))
    count = len(found.noted("launch")) // 3
    assert count > 1 and len(found.noted("launch")) == 3 * count
    assert "cooperative 0" in found.noted("launch")[0] and found.noted("refused") == []
    assert found.noted("graph") == [f"graph of {count} launches"] * 2


@pytest.mark.parametrize("function", ["cuStreamBeginCapture", "cuStreamEndCapture"])
def test_a_capture_that_fails(stub, models, function):
    found = stub.run(script(models / "ptx.rcx", "say(model.bind)"), FAIL=f"{function}=900")
    assert "DeviceError: capture a launch: " in found.said


def test_a_graph_that_cannot_be_made(stub, models):
    fail = "cuGraphInstantiateWithFlags=2"
    found = stub.run(script(models / "ptx.rcx", "say(model.bind)"), FAIL=fail)
    assert re.match("DeviceError: capture a launch: .*OUT_OF_MEMORY", found.said)


def test_a_device_with_little_memory(stub, models):
    found = stub.run(script(models / "ptx.rcx", "say(once)\nmodel.close()"), MEMORY=40_000)
    assert re.match(
        r"DeviceError: reserve \d+ bytes on stub 0: .*OUT_OF_MEMORY.*larger device", found.said
    )


def test_without_a_device(stub, models):
    found = stub.run(script(models / "ptx.rcx", "say(once)"), DEVICES=0)
    assert re.match(
        "DeviceError: start the CUDA driver: .*NO_DEVICE.*CUDA_VISIBLE_DEVICES", found.said
    )


def test_a_device_that_is_not_there(stub, models):
    body = f"other = rcompiler.load({str(models / 'ptx.rcx')!r}, device=1)\n"
    body += "say(lambda: other(np.zeros((128, 128), np.float16)))\n"
    found = stub.run(script(models / "ptx.rcx", body))
    assert "there is no GPU 1: this machine has GPUs 0 to 0" in found.said


def test_a_driver_that_is_too_old(stub, models):
    found = stub.run(script(models / "ptx.rcx", "say(once)"), VERSION=11040)
    message = "the NVIDIA driver of this machine is of CUDA 11.4, and one of CUDA 12.0 or later is"
    assert f"DeviceError: {message} needed; update" in found.said


def test_memory_is_given_back(stub, models):
    body = """
say(once)
binding = model.bind()
binding()
del binding, model
gc.collect()
"""
    found = stub.run(script(models / "ptx.rcx", body))
    assert found.noted("released") == ["released 0 with 0 allocations"]
