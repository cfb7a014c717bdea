"""The device that a compiled model runs on."""

from rcompiler.errors import DeviceError
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.gpu.driver import Driver
from rcompiler.runtime.gpu.image import GpuImage

EMULATED = "cuda:emulated"  # the target that runs without a GPU


def open_device(artifact: Artifact) -> Driver:
    """The emulated device for a model compiled for it, else the GPU of this machine.

    Raises DeviceError where there is none.
    """
    image = artifact.image
    assert isinstance(image, GpuImage)
    if artifact.target.startswith(EMULATED):
        from rcompiler.emulator.driver import EmulatedDriver  # large, and of no use elsewhere

        eus = max((program.eus for program in artifact.programs), default=1)
        return EmulatedDriver(capability=image.capability, multiprocessors=eus)
    raise DeviceError(
        f"the model is compiled for {artifact.target}, and there is no CUDA driver here; run it on "
        "a machine that has such a GPU, or compile it for cuda:emulated"
    )
