"""The ways in which a compiled file is loaded, each by its name."""

from rcompiler.runtime.artifact import Artifact

LOADS = {
    "mapped": Artifact.load,
    "full": lambda path: Artifact.load(path, full=True),
    "read": lambda path: Artifact.load(path, mapped=False),
    "bytes": lambda path: Artifact.from_bytes(path.read_bytes()),
}
