"""The device that a compiled model runs on."""

from rcompiler.errors import DeviceError
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.gpu.cuda import CudaDriver
from rcompiler.runtime.gpu.driver import Driver
from rcompiler.runtime.gpu.image import GpuImage
from rcompiler.support.installed import is_compilers, without

EMULATED = "cuda:emulated"  # the targets that run without a GPU begin so


def is_emulated(target: str) -> bool:
    """Whether models for this target run on the emulated device."""
    return target.startswith(EMULATED)


def open_device(artifact: Artifact, device: int = 0) -> Driver:
    """The emulated device for a model compiled for it, else a GPU of this machine.

    device: its number among those that CUDA_VISIBLE_DEVICES leaves.

    Raises DeviceError where there is none, and for code that nothing here runs.
    """
    image = artifact.image
    assert isinstance(image, GpuImage)
    capability = image.capability
    if is_emulated(artifact.target):
        try:
            from rcompiler.emulator.driver import EmulatedDriver  # large, and of no use elsewhere
        except ModuleNotFoundError as error:
            if not is_compilers(error.name):
                raise
            raise DeviceError(f"a model for {EMULATED} {without([str(error.name)])}") from None
        eus = max((program.eus for program in artifact.programs), default=1)
        return EmulatedDriver(capability=capability, multiprocessors=eus)
    return CudaDriver(device)
