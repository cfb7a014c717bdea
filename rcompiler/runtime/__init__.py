"""Run compiled models. Imports only numpy and the standard library."""

from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.executable import Executable

__all__ = ["Artifact", "Executable"]
