"""Arguments of kernels as the CUDA driver takes them, and launches as a graph of it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rcompiler.errors import DeviceError
from rcompiler.runtime.gpu.driver import Argument

Ask = Callable[[str, tuple[Any, ...]], Any]  # the values of a call's result, or DeviceError


@dataclass(frozen=True, eq=False)
class CudaGraph:
    """What is instantiated, its graph, and of a graph with one launch the node of it.

    only: that node and its parameters; None where there are several, or none.
    """

    executable: Any
    graph: Any
    only: tuple[Any, Any] | None

    @staticmethod
    def captured(api: Any, ask: Ask, stream: Any, launch: Callable[[], None]) -> CudaGraph:
        """Of what `launch` launches on the stream. Raises DeviceError."""
        what = "capture a launch"
        mode = api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        ask(what, api.cuStreamBeginCapture(stream, mode))
        try:
            launch()
        finally:  # also what has failed must be ended, or the stream stays as it is
            ended = api.cuStreamEndCapture(stream)
        graph = ask(what, ended)
        nodes, count = ask(what, api.cuGraphGetNodes(graph, 2))  # of more, the first two
        only = None
        if count == 1:
            only = nodes[0], ask(what, api.cuGraphKernelNodeGetParams(nodes[0]))
        return CudaGraph(ask(what, api.cuGraphInstantiate(graph, 0)), graph, only)

    def start(self, api: Any, ask: Ask, stream: Any, arguments: Sequence[Argument] | None) -> None:
        """Launch it; arguments: others of its only launch."""
        what = "launch a graph"
        if arguments is not None:
            if self.only is None:
                raise DeviceError(f"{what}: new arguments are for one launch; give it none")
            node, parameters = self.only
            packed = PackedArguments(arguments)  # alive until the driver has copied them
            parameters.kernelParams = packed.address
            ask(what, api.cuGraphExecKernelNodeSetParams(self.executable, node, parameters))
        ask(what, api.cuGraphLaunch(self.executable, stream))

    def drop(self, api: Any, ask: Ask) -> None:
        """Give it back."""
        ask("drop a graph", api.cuGraphExecDestroy(self.executable))
        ask("drop a graph", api.cuGraphDestroy(self.graph))


class PackedArguments:
    """Values in memory of the host, and an array of their addresses, while this object lives.

    Attributes:
        address: of the array; the driver copies the values when it launches.
    """

    def __init__(self, arguments: Sequence[Argument]) -> None:
        given = [a if isinstance(a, bytes) else a.tobytes() for a in arguments]
        self._values = [ctypes.create_string_buffer(data, len(data)) for data in given]
        self._places = (ctypes.c_void_p * max(len(given), 1))(*map(ctypes.addressof, self._values))
        self.address = ctypes.addressof(self._places)
