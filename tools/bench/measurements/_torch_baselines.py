"""PyTorch on a GPU, as gpu_bench measures it beside us: eager, its CUDA graph, torch.compile.

Numbers are those of the precision asked for: in f16 and bf16 the whole module is of that type, and
images lie channels last, where its kernels are fastest; in tf32 so do images, and products may
round. Single products are cuBLAS's, convolutions cuDNN's, and so is ONNX's LSTM.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

import numpy as np

from measurements._gpu_engines import DeviceEngine, Feeds
from rcompiler.errors import CompilerError, ToolError
from rcompiler.options import Precision
from rcompiler.tools._reference import has

_WARM_UP = 5


class Baseline(Protocol):
    """short: the name in the head of a column. settings: what differs from the defaults."""

    short: str
    settings: Mapping[str, str]

    def prepare(self, torch: Any, module: Any, inputs: Sequence[Any]) -> Callable[[], Any]:
        """One inference as a call that gives a tuple of outputs and does not wait for them."""


class Eager:
    """Operator by operator."""

    short = "torch"
    settings: Mapping[str, str] = {}

    def prepare(self, torch: Any, module: Any, inputs: Sequence[Any]) -> Callable[[], Any]:
        return lambda: module(*inputs)


class CudaGraphBaseline:
    """The same kernels in one CUDA graph: of a product, nothing but what cuBLAS takes."""

    short = "graph"
    settings: Mapping[str, str] = {}

    def prepare(self, torch: Any, module: Any, inputs: Sequence[Any]) -> Callable[[], Any]:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP):  # libraries choose and reserve now, not while captured
                module(*inputs)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = module(*inputs)

        def run() -> Any:
            graph.replay()
            return outputs

        return run


class Compiled:
    """torch.compile, which tunes its kernels and makes a CUDA graph of them."""

    short = "compile"
    settings: Mapping[str, str] = {
        "mode": "max-autotune",
        "freezing": "True",
        "pattern_matcher": "True; False for models that it breaks",
    }

    def prepare(self, torch: Any, module: Any, inputs: Sequence[Any]) -> Callable[[], Any]:
        try:
            return self._compiled(torch, module, inputs, True)
        except ToolError:
            raise
        except Exception:  # PyTorch 2.14 mistakes the masks of attention that is spelled out
            return self._compiled(torch, module, inputs, False)

    def _compiled(
        self, torch: Any, module: Any, inputs: Sequence[Any], patterns: bool
    ) -> Callable[[], Any]:
        import torch._inductor.config as inductor

        torch.compiler.reset()  # what was compiled before counts against a limit
        compiled = torch.compile(module, mode="max-autotune", dynamic=False)
        with inductor.patch(freezing=True, pattern_matcher=patterns):
            compiled(*inputs)
        return lambda: compiled(*inputs)


BASELINES: dict[str, Baseline] = {
    "torch": Eager(),
    "torch_graph": CudaGraphBaseline(),
    "torch_compile": Compiled(),
}


def bound(
    name: str, onnx: bytes, precision: Precision, feeds: Feeds, limit_s: float, device: str = "cuda"
) -> DeviceEngine:
    """An ONNX model in PyTorch, run a few times.

    limit_s: seconds that it may take to be ready. Raises ToolError where PyTorch is not installed,
    sees no GPU or takes longer; CompilerError where it cannot run the model.
    """
    if not has("torch"):
        raise ToolError("torch is not installed")
    import torch
    from onnx import ModelProto

    from measurements._torch_graph import torch_module

    if device == "cuda" and not torch.cuda.is_available():
        raise ToolError("torch sees no GPU")
    torch.set_float32_matmul_precision("highest" if precision == "f32" else "high")
    torch.backends.cudnn.allow_tf32 = precision != "f32"
    kinds = {"f16": torch.float16, "bf16": torch.bfloat16}
    dtype = kinds.get(precision, torch.float32)
    try:
        with _within(limit_s), torch.no_grad():
            module = torch_module(ModelProto.FromString(onnx), dtype).to(device)
            inputs = [_tensor(torch, array, dtype).to(device) for array in feeds.values()]
            if precision != "f32":
                module, inputs = _channels_last(torch, module, inputs)
            call = BASELINES[name].prepare(torch, module, inputs)
            for _ in range(_WARM_UP):
                outputs = call()
            found = [output.float().cpu().numpy() for output in outputs]
    except CompilerError:
        raise
    except Exception as error:  # its exceptions have no common base class
        raise CompilerError(f"{name} cannot run the model: {error}") from None
    return _engine(torch, call, found)


def release() -> None:
    """Give the memory of engines that nobody holds any more back to the device."""
    import gc
    import sys

    gc.collect()
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_available():
        sys.modules["torch"].cuda.empty_cache()


def _engine(torch: Any, call: Callable[[], Any], outputs: list[np.ndarray]) -> DeviceEngine:
    def run() -> None:
        with torch.no_grad():
            call()
        torch.cuda.synchronize()

    def elapsed_ns(calls: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.no_grad():
            start.record()
            for _ in range(calls):
                call()
            end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e6

    return DeviceEngine(run, elapsed_ns, outputs)


def _tensor(torch: Any, array: np.ndarray, dtype: Any) -> Any:
    tensor = torch.from_numpy(np.array(array))
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def _channels_last(torch: Any, module: Any, inputs: list[Any]) -> tuple[Any, list[Any]]:
    """Images and filters with their channels next to one another."""
    order = torch.channels_last
    images = [x.contiguous(memory_format=order) if x.dim() == 4 else x for x in inputs]
    return module.to(memory_format=order), images


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raises ToolError in the block when it takes longer. In the main thread only."""

    def late(number: int, frame: FrameType | None) -> None:
        raise ToolError(f"was not ready after {seconds:g} s; give it more with --limit")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
