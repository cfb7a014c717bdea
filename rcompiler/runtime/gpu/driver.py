"""What the runtime asks of a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
# A scalar by its numpy type, or the bytes of a structure that is passed by value.
Argument = np.generic | bytes


@dataclass(frozen=True)
class KernelLimits:
    """What a compiled kernel needs and allows.

    max_threads: of one block. static_shared: bytes of shared memory that every block takes,
    whatever the launch asks for. registers: of one thread; None where nobody has counted them.
    """

    max_threads: int
    static_shared: int
    registers: int | None = None


@dataclass(frozen=True)
class TensorTile:
    """A tensor in global memory and the box that one TMA copy moves.

    address: of the tensor, a multiple of 16. element_bytes: of one element. dims: elements,
    innermost first. strides: bytes from one index to the next of every dimension but the
    innermost. box: elements that one copy moves, innermost first. swizzle: bytes of the pattern in
    which shared memory holds a row: 0 (as it is), 32, 64 or 128.
    """

    address: int
    element_bytes: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0


class Driver(Protocol):
    """One GPU. Addresses are those of the device; wrong use raises DeviceError.

    name: of the device. capability: compute capability, (9, 0) for sm_90. multiprocessors: how
    many there are, the most blocks that run at once being `multiprocessors * occupancy(...)`.
    Launches run one after another; what one goes wrong with may be raised by `synchronize` or by
    any later call.
    """

    @property
    def name(self) -> str: ...

    @property
    def capability(self) -> tuple[int, int]: ...

    @property
    def multiprocessors(self) -> int: ...

    @property
    def real(self) -> bool:
        """Whether times that it measures say anything of a GPU."""

    def allocate(self, size: int) -> int:
        """Address of `size` new bytes, a multiple of 256; what they hold is undefined."""

    def free(self, address: int) -> None:
        """Give back what `allocate` returned."""

    def write(self, address: int, data: Bytes) -> None:
        """Copy the bytes of `data` to the device."""

    def read(self, address: int, size: int) -> Bytes:
        """A copy of `size` bytes of the device, after all launches so far."""

    def fill(self, address: int, size: int, value: int) -> None:
        """Set `size` bytes to `value` (0..255)."""

    def map_host(self, size: int) -> int:
        """The device's address of `size` new bytes of the host, all 0, that kernels can write."""

    def mapped(self, address: int, size: int) -> Bytes:
        """A copy of bytes from `map_host`, also after a launch that has failed."""

    def unmap_host(self, address: int) -> None:
        """Give back what `map_host` returned."""

    def holds(self, address: int) -> bool:
        """Whether the address lies in memory of this device, whoever reserved it there."""

    def wait_for(self, stream: int) -> None:
        """Return when the work in another's stream is done; 1 is the default stream, as in the
        CUDA array interface.
        """

    def load(self, image: bytes) -> Any:
        """A module from PTX text, or from what else the device takes; the handle of it."""

    def function(self, module: Any, name: str) -> Any:
        """The handle of a kernel of the module."""

    def limits(self, function: Any) -> KernelLimits:
        """What the kernel needs and allows."""

    def occupancy(self, function: Any, threads: int, shared_bytes: int) -> int:
        """Blocks of `threads` threads and `shared_bytes` dynamic bytes that one SM holds."""

    def tensor_map(self, tile: TensorTile) -> bytes:
        """The 128 bytes that a kernel takes by value to copy boxes of the tensor by TMA."""

    def launch(
        self,
        function: Any,
        grid: tuple[int, int, int],
        threads: tuple[int, int, int],
        shared_bytes: int,
        arguments: Sequence[Argument],
        cooperative: bool = False,
    ) -> None:
        """Start the kernel. cooperative: all blocks at once, or DeviceError if they do not fit."""

    def synchronize(self) -> None:
        """Return when all launches are done; raises what went wrong in them."""

    def capture(self, launch: Callable[[], None]) -> Any:
        """The launches that `launch` asks for, in their order, as a graph, which costs less to
        launch.

        They are not launched by this.
        """

    def launch_graph(self, graph: Any, arguments: Sequence[Argument] | None = None) -> None:
        """Start what was captured; arguments: others for the launch of a graph that has only one.

        Raises DeviceError for arguments where there are several.
        """

    def drop_graph(self, graph: Any) -> None:
        """Give back what `capture` returned."""

    def elapsed_ns(self, work: Callable[[], None]) -> float:
        """Time that the device takes for the launches of `work`, by its own clock."""
