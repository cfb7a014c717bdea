"""A model as it was imported, for as many attempts and ways to lower it as there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rcompiler.device.model import Device
from rcompiler.driver import denormal_weights
from rcompiler.driver.left_in_files import left_in_files
from rcompiler.frontend import Imported
from rcompiler.options import CompileOptions
from rcompiler.runtime.deferred import Constant


@dataclass(frozen=True)
class ImportedModel:
    """S1 of a model.

    Attributes:
        s1: its text and signature.
        arrays: its constants by the keys that the text names; what was read of a file is there.
        notes: what its report says of it.
    """

    s1: Imported
    arrays: Mapping[str, Constant]
    notes: tuple[str, ...]

    @staticmethod
    def of(s1: Imported, options: CompileOptions, target: Device) -> ImportedModel:
        """Takes the constants of what was imported, which nobody else has.

        Args:
            s1: it has no constants afterwards.
            options: of the compilation.
            target: what code is generated for.

        Raises:
            InvalidModel: the system refuses to keep the file of the model open.
        """
        notes = *s1.notes, *_of_denormals(s1, options, target)
        arrays = left_in_files(s1.constants)
        s1.constants.clear()
        return ImportedModel(s1, arrays, notes)


def _of_denormals(s1: Imported, options: CompileOptions, target: Device) -> Iterator[str]:
    if not target.is_cpu:
        return
    if options.denormals == "zero":
        yield "denormal numbers are taken for zeros"
    elif (note := denormal_weights.note_of(s1.constants.values())) is not None:
        yield note
