"""What a result of the CUDA driver means for the person who can do something about it."""

from rcompiler.errors import DeviceError

# After these the context is of no use any more, nor is what lies in its memory.
FATAL = frozenset(
    (
        "CUDA_ERROR_ASSERT",
        "CUDA_ERROR_CONTAINED",
        "CUDA_ERROR_CONTEXT_IS_DESTROYED",
        "CUDA_ERROR_ECC_UNCORRECTABLE",
        "CUDA_ERROR_EXTERNAL_DEVICE",
        "CUDA_ERROR_HARDWARE_STACK_ERROR",
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "CUDA_ERROR_INVALID_ADDRESS_SPACE",
        "CUDA_ERROR_INVALID_PC",
        "CUDA_ERROR_LAUNCH_FAILED",
        "CUDA_ERROR_LAUNCH_TIMEOUT",
        "CUDA_ERROR_MISALIGNED_ADDRESS",
        "CUDA_ERROR_NVLINK_UNCORRECTABLE",
        "CUDA_ERROR_TENSOR_MEMORY_LEAK",
    )
)

_UPDATE = "update the NVIDIA driver"
_REMEDIES = {
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE": (
        "compile the model for fewer EUs, or end what else runs on the device"
    ),
    "CUDA_ERROR_DEVICE_UNAVAILABLE": (
        "the device is in exclusive use: end the other process, or take another device"
    ),
    "CUDA_ERROR_ECC_UNCORRECTABLE": "the memory of the device is faulty: reset it, or take another",
    "CUDA_ERROR_INVALID_PTX": (
        f"a defect of the compiler, or a driver older than the PTX: {_UPDATE}, or compile where "
        "ptxas is installed, so that the artifact carries machine code"
    ),
    "CUDA_ERROR_JIT_COMPILER_NOT_FOUND": (
        "the driver is installed without its PTX compiler: compile where ptxas is installed, so "
        "that the artifact carries machine code"
    ),
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": (
        "a block takes more registers or shared memory than there are: compile the model again"
    ),
    "CUDA_ERROR_LAUNCH_TIMEOUT": (
        "the display's watchdog ended the launch: take a device without a display"
    ),
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the code is for another GPU: compile the model for this one",
    "CUDA_ERROR_NO_DEVICE": "take a machine with an NVIDIA GPU, or look at CUDA_VISIBLE_DEVICES",
    "CUDA_ERROR_OUT_OF_MEMORY": (
        "end what else uses the device's memory, or take a larger device or a smaller model"
    ),
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": f"{_UPDATE}: its parts are of different versions",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": (
        f"{_UPDATE}, or compile where ptxas is installed, so that the artifact carries machine code"
    ),
}
_NEW_PROCESS = "the CUDA context is lost, load the model in a new process"


def failure(what: str, name: str, text: str, log: str = "") -> DeviceError:
    """what: was done; name, text: of the CUresult; log: of the driver's PTX compiler."""
    remedy = _REMEDIES.get(name)
    if name in FATAL:
        remedy = f"{remedy}; {_NEW_PROCESS}" if remedy else _NEW_PROCESS
    said = f": {' '.join(log.split())[:1000]}" if log.strip() else ""
    end = remedy or "see the driver's documentation of this result"
    return DeviceError(f"{what}: {text} ({name}){said}; {end}")


def lost(what: str, first: str) -> DeviceError:
    """A call after a failure that destroyed the context; first: the message of that."""
    return DeviceError(f"{what}: an earlier launch failed and {_NEW_PROCESS}; of that: {first}")


def no_package(error: ImportError) -> DeviceError:
    """cuda.bindings cannot be imported."""
    return DeviceError(
        f"the package cuda-bindings cannot be imported ({error}); install it with "
        "\"pip install 'cuda-bindings>=13,<14'\", or compile the model for cuda:emulated"
    )


def no_driver(error: Exception) -> DeviceError:
    """The library of the driver is absent, as cuda.pathfinder says, or cannot be used."""
    reason = str(error).strip().rstrip(".")
    return DeviceError(
        f"this machine has no usable NVIDIA driver ({reason}); run on a machine that has a GPU, "
        "or compile the model for cuda:emulated"
    )


def old_driver(version: int, needed: int) -> DeviceError:
    """versions: of the release of CUDA that a driver is of: 12040 is 12.4."""
    have, need = (f"{v // 1000}.{v % 1000 // 10}" for v in (version, needed))
    return DeviceError(
        f"the NVIDIA driver of this machine is of CUDA {have}, and one of CUDA {need} or later is "
        f"needed; {_UPDATE}"
    )
