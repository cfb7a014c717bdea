"""Other engines to measure beside: each loads an ONNX model into one call that allocates nothing.

A baseline is one small class; ``BASELINES`` names those there are, in the order in which they are
reported. Settings are an engine's defaults but for those that `settings` lists: as many threads as
we have EUs, one inference at a time, f32 arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from onnx import ModelProto

from rcompiler.errors import CompilerError
from rcompiler.tools._measure import Engine
from rcompiler.tools._reference import has, session

Feeds = Mapping[str, np.ndarray]
Call = Callable[[Feeds], Sequence[np.ndarray]]  # the outputs of an inference


@dataclass(frozen=True)
class Bound:
    """A loaded model with its inputs and outputs at fixed places in memory.

    run: one inference. outputs: in the order of the model, of an inference that has been run.
    """

    run: Engine
    outputs: list[np.ndarray]


class Baseline(Protocol):
    """short: the name in the head of a column. settings: what differs from the defaults."""

    short: str
    settings: Mapping[str, str]

    def bind(self, model: ModelProto, threads: int, feeds: Feeds) -> Bound:
        """Load ``model`` and run it once. Raises CompilerError where the engine cannot."""

    def loaded(self, model: ModelProto, threads: int) -> Call:
        """Load ``model`` for inputs of any size. Raises CompilerError where the engine cannot."""


class OnnxRuntime:
    """onnxruntime's CPU provider with I/O binding; one thread is the calling thread."""

    short = "ort"
    settings: Mapping[str, str] = {"intra_op_num_threads": "threads", "inter_op_num_threads": "1"}

    def bind(self, model: ModelProto, threads: int, feeds: Feeds) -> Bound:
        loaded = session(model, threads)
        try:
            return _bound(loaded, feeds)
        except Exception as error:  # its exceptions have no common base class
            raise CompilerError(f"onnxruntime cannot run the model: {error}") from None

    def loaded(self, model: ModelProto, threads: int) -> Call:
        found = session(model, threads)
        return lambda feeds: found.run(None, dict(feeds))


def _bound(loaded: Any, feeds: Feeds) -> Bound:
    binding = loaded.io_binding()
    for value in loaded.get_inputs():
        binding.bind_cpu_input(value.name, np.asarray(feeds[value.name], order="C"))
    names = [value.name for value in loaded.get_outputs()]
    for name in names:
        binding.bind_output(name, "cpu")
    loaded.run_with_iobinding(binding)
    # What the first run has allocated is the memory of all others.
    for name, value in zip(names, binding.get_outputs(), strict=True):
        binding.bind_ortvalue_output(name, value)
    run = partial(loaded.run_with_iobinding, binding)
    run()
    return Bound(run, binding.copy_outputs_to_cpu())


class OpenVino:
    """OpenVINO's CPU plugin: one infer request on tensors of ours.

    Its default precision is bf16 where the CPU has instructions for it, hence the hint.
    """

    short = "ov"

    def __init__(self, precision: str = "f32") -> None:
        """precision: of operators of f32, "f32" or "bf16"."""
        self.settings: Mapping[str, str] = {
            "INFERENCE_NUM_THREADS": "threads",
            "NUM_STREAMS": "1",
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": precision,
        }

    def bind(self, model: ModelProto, threads: int, feeds: Feeds) -> Bound:
        try:
            return self._bind(model, threads, feeds)
        except Exception as error:  # its exceptions have no common base class
            raise CompilerError(f"openvino cannot run the model: {error}") from None

    def _bind(self, model: ModelProto, threads: int, feeds: Feeds) -> Bound:
        import openvino

        network = openvino.Core().read_model(model.SerializeToString())
        if network.is_dynamic():
            network.reshape({name: list(array.shape) for name, array in feeds.items()})
        request = self._request(network, threads)
        for name, array in feeds.items():
            tensor = openvino.Tensor(np.asarray(array, order="C"), shared_memory=True)
            request.set_tensor(name, tensor)
        # Otherwise each call copies the outputs into new arrays.
        run = partial(request.infer, share_outputs=True)
        run()
        return Bound(run, [np.array(tensor.data) for tensor in request.output_tensors])

    def loaded(self, model: ModelProto, threads: int) -> Call:
        try:
            import openvino

            network = openvino.Core().read_model(model.SerializeToString())
            request = self._request(network, threads)
        except Exception as error:  # its exceptions have no common base class
            raise CompilerError(f"openvino cannot load the model: {error}") from None
        return lambda feeds: [*request.infer(dict(feeds), share_outputs=True).values()]

    def _request(self, network: Any, threads: int) -> Any:
        import openvino

        settings = {**self.settings, "INFERENCE_NUM_THREADS": str(threads)}
        return openvino.Core().compile_model(network, "CPU", settings).create_infer_request()


BASELINES: dict[str, Baseline] = {"onnxruntime": OnnxRuntime(), "openvino": OpenVino()}


def installed(names: Sequence[str] | None = None) -> list[str]:
    """The baselines to measure beside: ``names``, or all that are installed.

    Raises CompilerError when one that is asked for is not installed.
    """
    found = [name for name in BASELINES if has(name)]
    if names is None:
        return found
    for name in names:
        if name not in found:
            raise CompilerError(f"{name} is not installed; pip install {name}")
    return list(dict.fromkeys(names))
