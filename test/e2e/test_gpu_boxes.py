"""Products of warpgroups, whose factors TMA brings in boxes, on the emulated Hopper."""

import dataclasses
import re
from functools import partial

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import rcompiler
from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.emulator.faults import EmulationFault
from rcompiler.errors import ArtifactError, DeviceError
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.gpu.executable import GpuExecutable
from rcompiler.runtime.gpu.tensor_maps import TensorMapBox

TARGET = "cuda:emulated-sm_90a"
HALF = TensorProto.FLOAT16


def model_of(nodes, inputs, outputs):
    """A graph of f16 inputs and outputs by name and shape."""
    values = [
        [helper.make_tensor_value_info(name, HALF, shape) for name, shape in some.items()]
        for some in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "boxes", *values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def arrays_of(model):
    rng = np.random.default_rng(7)
    shapes = (
        [d.dim_value for d in value.type.tensor_type.shape.dim] for value in model.graph.input
    )
    return [rng.standard_normal(shape).astype(np.float16) for shape in shapes]


def compiled(model, **more):
    return rcompiler.compile_onnx(model, target=TARGET, **more)


def uses_boxes(model) -> bool:
    text = model.stage("ptx")
    return "wgmma.mma_async" in text and "cp.async.bulk.tensor" in text


def gemm(m, k, n, trans_a=0, trans_b=0):
    a, b = ((k, m) if trans_a else (m, k)), ((n, k) if trans_b else (k, n))
    node = helper.make_node("Gemm", ["a", "b"], ["y"], transA=trans_a, transB=trans_b)
    return model_of([node], {"a": a, "b": b}, {"y": (m, n)})


# All four ways in which factors lie; lines that hang over the tile and over the reduction (40 steps
# are a chunk of 64, of 72 one and the start of another); fewer rows than an instruction has.
@pytest.mark.parametrize("sizes", [(128, 64, 128), (72, 40, 56), (200, 72, 96), (8, 136, 264)])
@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_factors_lie_by_steps_or_by_positions(sizes, turned):
    model = gemm(*sizes, *turned)
    found = compiled(model)
    assert uses_boxes(found) and "mma.sync" not in found.stage("ptx")
    a, b = arrays_of(model)
    x, y = (v.T if t else v for v, t in zip((a, b), turned, strict=True))
    wanted = x.astype(np.float64) @ y.astype(np.float64)
    assert np.abs(found(a, b)[0] - wanted).max() <= 1e-3 * np.abs(wanted).max()


def two_readers(second):
    """A square product, and what is computed of it in two ways and multiplied."""
    nodes = [
        helper.make_node("MatMul", ["a", "b"], ["p"]),
        helper.make_node(*second),
        helper.make_node("Mul", ["p", "q"], ["y"]),
    ]
    return model_of(nodes, {"a": (64, 32), "b": (32, 64)}, {"y": (64, 64)})


@pytest.mark.parametrize("op", ["Sigmoid", "Transpose"])
def test_an_epilogue_may_read_the_product_twice(op):
    """Each element from one place: warpgroups multiply, too. From two places it is two products."""
    model = two_readers((op, ["p"], ["q"]))
    found, (a, b) = compiled(model), arrays_of(model)
    p = a.astype(np.float64) @ b.astype(np.float64)
    q = p.T if op == "Transpose" else 1 / (1 + np.exp(-p))
    assert np.abs(found(a, b)[0] - p * q).max() <= 2e-3 * np.abs(p * q).max()
    assert uses_boxes(found)


def test_results_may_be_split_in_heads():
    """A column of the product is then two dims of the result, which change places."""
    shape = onnx.numpy_helper.from_array(np.array([24, 4, 16]), "shape")
    nodes = [
        helper.make_node("MatMul", ["a", "b"], ["p"]),
        helper.make_node("Reshape", ["p", "shape"], ["r"]),
        helper.make_node("Transpose", ["r"], ["y"], perm=[1, 0, 2]),
    ]
    model = model_of(nodes, {"a": (24, 32), "b": (32, 64)}, {"y": (4, 24, 16)})
    model.graph.initializer.append(shape)
    found, (a, b) = compiled(model, precision="f16"), arrays_of(model)
    wanted = (a.astype(np.float64) @ b.astype(np.float64)).reshape(24, 4, 16).transpose(1, 0, 2)
    assert np.abs(found(a, b)[0] - wanted).max() <= 2e-3 * np.abs(wanted).max()
    assert uses_boxes(found)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("taps", [1, 3])
@pytest.mark.parametrize("images", [1, 2])
def test_convolutions_of_blocked_channels(images, taps, stride):
    """Their images are padded by who computes them; each tap is a box of its own."""
    channels, size, pads = 64, 10, taps // 2
    end = (size + 2 * pads - taps) // stride + 1
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node(
            "Conv",
            ["r", "w"],
            ["y"],
            pads=[pads] * 4,
            strides=[stride] * 2,
            kernel_shape=[taps] * 2,
        ),
    ]
    rng = np.random.default_rng(3)
    weights = rng.standard_normal((96, channels, taps, taps)).astype(np.float16)
    shapes = {"x": (images, channels, size, size)}, {"y": (images, 96, end, end)}
    model = model_of(nodes, *shapes)
    model.graph.initializer.append(
        helper.make_tensor("w", HALF, weights.shape, weights.tobytes(), raw=True)
    )
    found = compiled(model)
    assert uses_boxes(found)
    [x] = arrays_of(model)
    image = np.pad(np.maximum(x, 0), ((0, 0), (0, 0), (pads, pads), (pads, pads))).astype(float)
    wanted = np.zeros((images, 96, end, end))
    for p in range(taps):
        for q in range(taps):
            part = image[:, :, p:, q:][:, :, : stride * end : stride, : stride * end : stride]
            wanted += np.einsum("nchw,oc->nohw", part[:, :, :end, :end], weights[:, :, p, q])
    assert np.abs(found(x)[0] - wanted).max() <= 1e-3 * np.abs(wanted).max()


def test_a_batch_of_products():
    node = helper.make_node("MatMul", ["a", "b"], ["y"])
    model = model_of([node], {"a": (3, 40, 64), "b": (3, 64, 48)}, {"y": (3, 40, 48)})
    found = compiled(model)
    assert uses_boxes(found)
    a, b = arrays_of(model)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(found(a, b)[0] - wanted).max() <= 1e-3 * np.abs(wanted).max()


def test_rows_at_no_multiple_of_16_bytes_are_no_boxes():
    found = compiled(gemm(32, 41, 36))
    assert not uses_boxes(found) and "mma.sync" in found.stage("ptx")


@pytest.fixture(scope="module")
def plain():
    """A product, its factors, and what it is by the default schedule."""
    model = gemm(136, 264, 200)
    arrays = arrays_of(model)
    return model, arrays, compiled(model)(*arrays)[0]


@pytest.mark.parametrize("eus", [1, 3, 4])
@pytest.mark.parametrize("policy", ["base", "list"])
def test_a_schedule_changes_no_bit(plain, policy, eus):
    model, arrays, expected = plain
    [found] = compiled(model, policy=policy, eus=eus)(*arrays)
    assert (found.view(np.uint16) == expected.view(np.uint16)).all()


def chain():
    """Two products: what the first one stores is what boxes of the second one bring."""
    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["y"]),
    ]
    shapes = {"x": (96, 128), "v": (128, 256), "w": (256, 64)}
    return model_of(nodes, shapes, {"y": (96, 64)})


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_blocks_gives_the_same_bits(seed):
    model = chain()
    arrays = arrays_of(model)
    artifact = compiled(model, eus=4).artifact
    device = partial(
        EmulatedDriver, capability=(9, 0), multiprocessors=4, interleave=True, seed=seed
    )
    [plain], [found] = compiled(model)(*arrays), GpuExecutable(artifact, device)(*arrays)
    assert (found.view(np.uint16) == plain.view(np.uint16)).all()


def broken(artifact: Artifact, pattern: str, by: str, **options) -> GpuExecutable:
    text, changed = re.subn(pattern, by, artifact.image.ptx.decode())
    assert changed
    image = dataclasses.replace(artifact.image, ptx=text.encode(), cubin=b"")
    device = partial(EmulatedDriver, capability=(9, 0), multiprocessors=4)
    return GpuExecutable(dataclasses.replace(artifact, image=image), device, **options)


@pytest.mark.parametrize(
    ("pattern", "by", "said"),
    [
        # nobody waits for the products before sums are read, and buffers are given back
        (r"wgmma\.wait_group\.sync\.aligned\s+\d;", "", "still"),
        # boxes read what other threads stored, without a fence between the two ways
        (r"fence\.proxy\.async\.\S*;", "", "proxy"),
        # a part is multiplied before its counter says that it is there
        (r"(mbarrier\.try_wait\S* (%p\d+), [^;]*;)", r"\1 setp.eq.u32 \2, 0, 0;", "async"),
    ],
)
def test_faults_are_reported(pattern, by, said):
    model = chain()
    executable = broken(compiled(model, eus=4).artifact, pattern, by)
    with pytest.raises(Exception, match=said) as found:
        executable(*arrays_of(model))
    cause = found.value
    while cause is not None and not isinstance(cause, EmulationFault):
        cause = cause.__cause__
    assert cause is not None or "EmulationFault" in repr(found.value)


def test_inputs_that_move_have_other_maps():
    """Arrays of the caller on the device are read where they lie."""
    model = chain()
    arrays = arrays_of(model)
    artifact = compiled(model, eus=4).artifact
    device = partial(EmulatedDriver, capability=(9, 0), multiprocessors=4)
    executable = GpuExecutable(artifact, device)
    [plain] = executable(*arrays)
    first = executable.bind()
    for place, array in zip(first.inputs, arrays, strict=True):
        place.write(array)
    first()
    assert (first.outputs[0].numpy() == plain).all()
    assert (executable.on_device(*first.inputs)[0].numpy() == plain).all()
    assert (executable(*arrays)[0] == plain).all()


def test_the_artifact_keeps_boxes(tmp_path):
    model = compiled(chain(), eus=4)
    model.save(tmp_path / "m.rcm")
    image = Artifact.load(tmp_path / "m.rcm").image
    assert image.boxes == model.artifact.image.boxes and image.boxes
    assert all(isinstance(box, TensorMapBox) for own in image.boxes.values() for box in own)


def test_a_box_of_an_unknown_operand():
    artifact = compiled(chain(), eus=4).artifact
    [number, *_] = artifact.image.boxes
    own = (dataclasses.replace(artifact.image.boxes[number][0], argument=9),)
    for boxes in ({number: own}, {99: artifact.image.boxes[number]}):
        image = dataclasses.replace(artifact.image, boxes=boxes)
        with pytest.raises(ArtifactError, match="tensor map"):
            dataclasses.replace(artifact, image=image).check()


def test_a_box_that_never_comes_ends_the_wait():
    """More bytes are waited for than come: it is said who waits."""
    model = gemm(64, 64, 64)
    pattern = r"(mbarrier\.arrive\.expect_tx\S* %rd\d+, \[[^]]*\], )(%r\d+)"
    message = (
        r"a wait took longer than 0.001 s; EU \d at word \d+ \(before operator 'Gemm_0'\) waits "
        r"for a box of a tensor .*: a defect of the compiler or of the device; report it"
    )
    executable = broken(compiled(model).artifact, pattern, r"\g<1>1000000", wait_limit_s=1e-3)
    with pytest.raises(DeviceError, match=message):
        executable(*arrays_of(model))
