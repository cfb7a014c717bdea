"""How large compiled files are, beside the models that they are made of.

    python tools/bench artifact_sizes                       # all built-in networks
    python tools/bench artifact_sizes resnet50 gpt2_small --target=cuda:h200

Megabytes of the ONNX model, of the weights as the code reads them, of the weights that the file
keeps, and of all else in it (code, tables, certificate, texts of the stages). "share" is the file
divided by the model; "too large" marks a file that keeps more weights than 1.1 times the model and
a quarter of a megabyte.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import rcompiler
from rcompiler.composite_model import CompositeModel
from rcompiler.tools import models
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, table

MOST = 1.1
_SMALL = 250_000  # bytes in which small weights may be kept in more than one form
_COLUMNS = ("network", "model MB", "weights MB", "kept MB", "else MB", "share", "made", "")


@dataclass(frozen=True)
class Sizes:
    """Bytes of a model, its weights, those of them that its file keeps, and its file; made: how
    many parts of the weights a load makes.
    """

    model: int
    weights: int
    kept: int
    file: int
    made: int

    @property
    def too_large(self) -> bool:
        """Whether the file keeps more weights than it should."""
        return self.kept > MOST * self.model + _SMALL


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="default: all built-in ones")
    parser.add_argument("--target", default="cpu", metavar="NAME", help="default: cpu")


def _run(options: argparse.Namespace) -> int:
    found = {}
    for name in options.networks or models.names():
        doing(name)
        found[name] = sizes(name, options.target)
    table(_COLUMNS, [_row(name, each) for name, each in found.items()])
    return 1 if any(each.too_large for each in found.values()) else 0


def _row(name: str, found: Sizes) -> list[str]:
    parts = found.model, found.weights, found.kept, found.file - found.kept
    megabytes = [f"{size / 1e6:.2f}" for size in parts]
    remark = "too large" if found.too_large else ""
    return [name, *megabytes, f"{found.file / found.model:.3f}", str(found.made), remark]


def sizes(network: str, target: str = "cpu") -> Sizes:
    """Those of a built-in network, compiled for a target.

    Raises:
        CompilerError: no network has that name, or no target.
    """
    proto = models.build(network)
    with rcompiler.compile_onnx(proto, target=target, machine_code=False) as model:
        assert not isinstance(model, CompositeModel)  # it has no functions of Python
        artifact = model.artifact
        return Sizes(
            proto.ByteSize(),
            artifact.constants.size,
            artifact.storage.section(artifact.constants).size,
            len(artifact.to_bytes()),
            len(artifact.storage.recipes),
        )


main = Command(__name__, __doc__, _options, _run)
