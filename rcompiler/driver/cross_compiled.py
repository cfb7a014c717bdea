"""What compiling gives where the code is for another CPU than that of this machine."""

from __future__ import annotations

from typing import NoReturn

from rcompiler.bucketed import BucketedModel
from rcompiler.driver.equal_weights import with_shared_weights
from rcompiler.model import Explained, Model, model_of
from rcompiler.packed import family_model
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.cpu_needs import lacking_flags, require_flags, require_one
from rcompiler.runtime.family import Family


class CrossCompiledModel(Explained):
    """A model for a CPU with instructions that this one lacks: it says what it is, and is saved.

    Attributes:
        inputs, outputs: name, shape and dtype of each.
    """

    def __init__(self, artifact: Artifact) -> None:
        """Check its tables.

        Args:
            artifact: what is saved.

        Raises:
            ArtifactError: the artifact contradicts itself.
        """
        artifact.check()
        self._artifact = artifact
        self.inputs, self.outputs = artifact.given, artifact.returned
        self.eus = max((program.eus for program in artifact.programs), default=1)
        self._closed = False

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        """As of `Executable`.

        Raises:
            ArtifactError: always; it names what this CPU lacks.
        """
        self._refuse()

    def bind(self, inputs: object = None, outputs: object = None) -> NoReturn:
        """As of `Executable`.

        Raises:
            ArtifactError: always; it names what this CPU lacks.
        """
        self._refuse()

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """It holds nothing of the machine. Idempotent."""
        self._closed = True

    def _refuse(self) -> NoReturn:
        self.check_open()
        if self.artifact.levels:
            require_one(self.artifact.levels)
        require_flags(self.artifact.target, self.artifact.cpu_flags)
        raise AssertionError("this CPU has what it lacked when the model was compiled")


def compiled_family(family: Family, eus: int | None) -> BucketedModel:
    """The same for several sizes.

    Args:
        family: what was compiled.
        eus: as of `BucketedModel`.

    Raises:
        ArtifactError, ScheduleError, DeviceError: as `model_of`.
    """
    lacking = lacking_flags(family.programs[0].cpu_flags)
    return family_model(family, eus, stand_in=CrossCompiledModel if lacking else None)


def compiled_model(artifact: Artifact) -> Model | CrossCompiledModel:
    """The model of what was just compiled: ready to run where this machine has what it needs, and
    over the weights of another model where these are equal.

    Args:
        artifact: what was compiled.

    Raises:
        ArtifactError, ScheduleError, DeviceError: as `model_of`.
    """
    if lacking_flags(artifact.cpu_flags):
        return CrossCompiledModel(artifact)
    return model_of(with_shared_weights(artifact))
