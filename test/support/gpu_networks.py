"""Networks that an emulated GPU runs in a moment, of structures that schedules differ by."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from onnx import ModelProto

from rcompiler.device.gpu import GPUS
from rcompiler.device.model import Costs, Device
from rcompiler.driver.compilation import Compilation
from rcompiler.driver.gpu_devices import EMULATED
from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.options import CompileOptions, Policy, Precision
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.gpu.executable import GpuExecutable
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools._reference import compare, reference
from rcompiler.tools.models import build
from rcompiler.tools.models.attention import Heads
from rcompiler.tools.models.graph import ModelGraph


def mlp() -> ModelProto:
    """Three products in a row."""
    return build("mlp", batch=2, layers=(16, 48, 32, 10))


def lstm() -> ModelProto:
    """Two layers that run beside one another, a step apart."""
    return build("lstm2", sequence=4, features=8, hidden=16)


def residual_block() -> ModelProto:
    """Two convolutions and what they are added to."""
    g = ModelGraph("residual", 1)
    x = g.input("input", (1, 4, 8, 8))
    y = g.conv_bn(x, 4, 3, pad=1, name="first")
    y = g.conv_bn(y, 4, 3, pad=1, act="", name="second")
    return g.model(output=(g.op("Relu", g.op("Add", x, y)), (1, 4, 8, 8)))


def depthwise_block() -> ModelProto:
    """Channels are made more, filtered one by one, and joined again."""
    g = ModelGraph("depthwise", 2)
    x = g.input("input", (1, 4, 8, 8))
    y = g.conv_bn(x, 12, 1, name="wide")
    y = g.conv_bn(y, 12, 3, pad=1, groups=12, name="each")
    y = g.conv_bn(y, 4, 1, act="", name="join")
    return g.model(output=(g.op("Add", x, y), (1, 4, 8, 8)))


def attention_block() -> ModelProto:
    """Two heads, with a normalisation behind them."""
    g = ModelGraph("attention", 3)
    x = g.input("input", (1, 12, 16))
    heads = Heads(1, 12, 2, 8)
    q, k, v = (g.matmul(x, 16, name=name) for name in "qkv")
    scores = heads.scores(g, heads.split(g, q), heads.split(g, k, keys=True))
    y = g.op("Add", x, g.matmul(heads.mix(g, scores, heads.split(g, v)), 16, name="out"))
    return g.model(output=(g.layer_norm(y), (1, 12, 16)))


def long_sum() -> ModelProto:
    """A product with few results and a sum so long that it is cut into parts (split-K)."""
    g = ModelGraph("long_sum", 4)
    x = g.input("input", (2, 1024))
    return g.model(output=(g.op("Relu", g.matmul(x, 32)), (2, 32)))


def products() -> ModelProto:
    """Two products whose operands come to shared memory in several parts, the last a short one."""
    g = ModelGraph("products", 5)
    y = g.op("Relu", g.matmul(g.input("input", (24, 200)), 72, name="first"))
    return g.model(output=(g.matmul(y, 40, name="second"), (24, 40)))


NETWORKS = {
    "mlp": mlp,
    "lstm": lstm,
    "residual": residual_block,
    "depthwise": depthwise_block,
    "attention": attention_block,
    "split-k": long_sum,
    "products": products,
}

# Work so small is worth sharing only where that costs next to nothing.
_COSTS = Costs(
    task_ns=1.0, hand_off_ns=1.0, barrier_ns=2.0, launch_ns=5.0, min_task_ns=1.0, step_ns=1.0
)
FINE = replace(GPUS["emulated"], name="fine", costs=_COSTS)
# By architecture: the emulated device that targets name, and the one to schedule for.
ARCHITECTURES = {
    "sm_80": (EMULATED, FINE),
    "sm_90a": (f"{EMULATED}-sm_90a", replace(GPUS["emulated-sm_90a"], name="fine", costs=_COSTS)),
}
STATIC: tuple[Policy, ...] = ("rammer", "list", "merge", "base", "wave", "bsp")


def compiled(
    model: ModelProto,
    policies: Sequence[Policy] = STATIC,
    chip: str = "sm_80",
    precision: Precision = "f32",
    by: Device | None = None,
) -> dict[Policy, Artifact]:
    """Scheduled for four EUs by each policy; by: the device whose figures decide, None for one on
    which sharing is cheap.
    """
    target, fine = ARCHITECTURES[chip]
    device = by or fine
    options = CompileOptions(target, precision=precision)
    run = Compilation(options, device, None)
    variants = [replace(options, policy=policy) for policy in policies]
    return dict(zip(policies, run.from_onnx(model, None, None, device, variants), strict=True))


def on_device(artifact: Artifact, seed: int | None = None, **more) -> GpuExecutable:
    """On an emulated device of four EUs; seed: of a hostile order of blocks, None: all together."""
    hostile = {} if seed is None else {"interleave": True, "seed": seed}
    device = partial(EmulatedDriver, capability=(8, 0), multiprocessors=4, **hostile)
    return GpuExecutable(artifact, device, **more)


def right_bits(artifact: Artifact, model: ModelProto, seed: int | None = None) -> bytes:
    """The bits of the one result of a model, which is right; seed: as for `on_device`."""
    feeds = random_inputs(artifact.inputs, 0)
    [found] = on_device(artifact, seed)(**feeds)
    assert compare(found, reference(model, feeds)[1][0]).right
    return found.tobytes()
