"""Whether what an artifact says of a model fits together: it may come from a stranger."""

from collections.abc import Sequence

from rcompiler.errors import ArtifactError
from rcompiler.runtime.gpu.image import GpuImage
from rcompiler.runtime.image import Image
from rcompiler.runtime.program import (
    MAX_OPERANDS,
    MAX_WORKSPACE,
    IndexCheck,
    IndexRange,
    KernelEntry,
    State,
    Tensor,
    check_range,
)


def check_indices(
    inputs: Sequence[Tensor], ranges: Sequence[IndexRange], checks: Sequence[IndexCheck]
) -> None:
    """Whether ranges are of inputs with indices, and possible.

    Raises:
        ArtifactError: naming the first that is not.
    """
    integers = {tensor.name for tensor in inputs if tensor.dtype in ("int32", "int64")}
    for each in ranges:
        if each.input not in integers:
            raise ArtifactError(f"artifact: '{each.input}' is no input with indices")
        check_range(each.first, each.last, each.reader)
    for check in checks:
        check_range(check.first, check.last, check.reader)


def check_kernels(image: Image | GpuImage, kernels: Sequence[KernelEntry]) -> None:
    """Whether the code has the kernels, with possible operands.

    Raises:
        ArtifactError: naming the first that it has not.
    """
    for kernel in kernels:
        if (
            not image.provides(kernel.name)
            or not 0 <= kernel.outputs <= len(kernel.operand_bytes)
            or min(kernel.operand_bytes, default=0) < 0
            or len(kernel.operand_bytes) > MAX_OPERANDS
            or not 0 <= kernel.workspace <= MAX_WORKSPACE
            or not all(0 <= number < len(kernel.operand_bytes) for number in kernel.pinned)
        ):
            raise ArtifactError(
                f"artifact: kernel '{kernel.name}' is not in the code or has impossible "
                "operands; compile the model again"
            )
    if isinstance(image, GpuImage):
        image.check_boxes([len(kernel.operand_bytes) for kernel in kernels])


def check_states(
    states: Sequence[State], inputs: Sequence[Tensor], outputs: Sequence[Tensor], told: int
) -> None:
    """Whether states are the last inputs and outputs, in order, and keep their types.

    told: inputs that are sizes, which a model with states has not; counted results are the same.

    Raises:
        ArtifactError: naming the first contradiction.
    """
    if states and told:
        raise ArtifactError(
            "artifact: it has states, and sizes that are known at run time; compile the model again"
        )
    given, returned = len(inputs) - len(states), len(outputs) - len(states)
    names = set()
    for number, state in enumerate(states):
        places = given + number, returned + number
        if min(given, returned) < 0 or (state.input, state.output) != places:
            raise ArtifactError(
                "artifact: its states are not the last of its inputs and outputs; compile the "
                "model again"
            )
        last, following = inputs[state.input], outputs[state.output]
        if (last.shape, last.dtype) != (following.shape, following.dtype):
            raise ArtifactError(
                f"artifact: state '{last.name}' changes its type; compile the model again"
            )
        names.add(last.name)
    if len(names) < len(states):
        raise ArtifactError("artifact: two states have one name; compile the model again")
