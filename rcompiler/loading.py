"""Load a compiled model from its file: one of one size, or of several.

Loading imports numpy, the runtime and the checker.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rcompiler.errors import ArtifactError
from rcompiler.model import Model, being_loaded, model_of
from rcompiler.runtime import composite, container, family
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.container import shown
from rcompiler.runtime.family import Family

if TYPE_CHECKING:
    from rcompiler.bucketed import BucketedModel
    from rcompiler.composite_model import CompositeModel
    from rcompiler.fallback import Fallbacks

Key = str | os.PathLike[str] | bytes


def load(
    path: str | Path,
    eus: int | None = None,
    *,
    full: bool = False,
    mapped: bool = True,
    sha256: str | None = None,
    key: Key | None = None,
    fallback: Fallbacks | None = None,
    **options: Any,
) -> Model | BucketedModel | CompositeModel:
    """Load a saved model, check the proof of its schedule and make it ready to run.

    Args:
        path: an `.rcx` file.
        eus, **options: as for `Executable`; for a GPU `device` (its number) and as for
            `GpuExecutable`.
        full: check the sha256 of large weights, too, which takes as long as reading them.
        mapped: let the weights of a file of more than 8 MiB be those of the file, which all
            processes share; False: read them into memory, for files that are written into while
            they are in use.
        sha256: load the file only if this (64 hex digits) is its digest.
        key: a public Ed25519 key (PEM; a path, or bytes): load the file only if `path`.sig is its
            signature, see `signing.sign`.
        fallback: functions by operator, as of `compile_onnx`, for a model that was compiled with
            some: they are no part of the file.

    Returns:
        A model that is ready to run: a CompiledModel, or for a GPU a GpuModel; a BucketedModel
        (`rcompiler.bucketed`) where it was compiled for several sizes of its inputs, a PackedModel
        (`rcompiler.packed`) where for packed requests; with functions of yours in it a
        CompositeModel.

    Raises:
        ArtifactError: the file is no compiled model, is damaged, or is not the one that was asked
            for.
        ScheduleError: its schedule breaks a law of schedules.
        DeviceError: this machine cannot run it, or gives it no memory or threads.
        FallbackError: a function for an operator is missing, or is none.
        ToolError: `key` needs the package cryptography.
    """
    if not isinstance(path, str | os.PathLike):
        raise ArtifactError(f"load: {shown(path)} is not a path; give that of an .rcx file")
    if key is not None:
        from rcompiler.driver.signing import signed_digest

        digest = signed_digest(Path(path), key)
        if sha256 is not None and str(sha256).lower() != digest:
            raise ArtifactError(f"{shown(path)}: its sha256 is {digest}; do not run this file")
        sha256 = digest
    if fallback is not None:
        from rcompiler.composite_model import CompositeModel  # which other models spare
        from rcompiler.fallback import checked_fallbacks

        functions = checked_fallbacks(fallback)
        with container.reading(Path(path), full, mapped, sha256) as (header, sections, file):
            if composite.STEPS in header:
                plan, parts = composite.unpacked(path, header, sections)
                artifacts = [Artifact.of_part(f"{path}", part, full, file) for part in parts]
                with being_loaded(str(path)):
                    models = [model_of(each, eus, **options) for each in artifacts]
                    return CompositeModel(plan, models, functions)
    return _ready(
        str(path), family.load(Path(path), full=full, mapped=mapped, sha256=sha256), eus, options
    )


def load_bytes(data: bytes, eus: int | None = None, **options: Any) -> Model | BucketedModel:
    """A model of the bytes of an `.rcx` file, checked as `load` checks the file.

    Args:
        data: all bytes of the file, or what `artifact.to_bytes()` gives.
        eus, **options: as for `load`.

    Raises:
        ArtifactError: the bytes are no compiled model, or are damaged.
        ScheduleError: its schedule breaks a law of schedules.
        DeviceError: this machine cannot run it, or gives it no memory or threads.
    """
    return _ready("the bytes of a model", family.from_bytes(data), eus, options)


def _ready(
    name: str, found: Artifact | Family, eus: int | None, options: Mapping[str, Any]
) -> Model | BucketedModel:
    with being_loaded(name):
        if isinstance(found, Family):
            from rcompiler.packed import family_model  # which other models spare

            return family_model(found, eus, **options)
        return model_of(found, eus, **options)
