"""What a model shows of itself at a prompt and in a notebook: its signature and where it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.container import shown
from rcompiler.support.html_table import html_table


class Named(Protocol):
    """A tensor of a signature."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def sizes(self) -> Sequence[object]: ...
    @property
    def dtype(self) -> str: ...


_MOST_LINES = 8  # of inputs, and of outputs: a decoder has one of each for every layer


def model_text(what: str, artifact: Artifact, eus: int, closed: bool) -> str:
    """A few lines: the kind of model, its target and EUs, its inputs and outputs.

    Args:
        what: the name of its class.
        eus: EUs that it runs on.
        closed: whether it runs no more.
    """
    lines = [
        _title(what, artifact, eus, closed),
        *(line for side in _sides(artifact) for line in _lines(*side)),
    ]
    return "<" + "\n  ".join(lines) + ">"


def family_text(
    what: str,
    artifact: Artifact,
    eus: int,
    closed: bool,
    sides: tuple[Sequence[Named], Sequence[Named]],
    sizes: str,
) -> str:
    """The same of a model for several sizes.

    Args:
        what, artifact, eus, closed: as of `model_text`, of one of its programs.
        sides: inputs and outputs.
        sizes: as text.
    """
    inputs, outputs = sides
    lines = [
        f"{_title(what, artifact, eus, closed)}, for {sizes}",
        *_lines("input", inputs),
        *_lines("output", outputs),
    ]
    return "<" + "\n  ".join(lines) + ">"


def model_html(what: str, artifact: Artifact, eus: int, closed: bool) -> str:
    """The same as a table. Args: see `model_text`."""
    rows = [
        (side, shown(tensor.name), _sizes(tensor), tensor.dtype)
        for side, tensors in _sides(artifact)
        for tensor in tensors
    ]
    return html_table(_title(what, artifact, eus, closed), ("", "name", "shape", "dtype"), rows)


def _sides(artifact: Artifact) -> Sequence[tuple[str, Sequence[Named]]]:
    return ("input", artifact.given), ("output", artifact.returned), ("state", artifact.kept)


def taken_text(artifact: Artifact) -> str:
    """Of a model for several CPUs, which of its levels was taken.

    Args:
        artifact: with levels.
    """
    levels = ", ".join(level.target for level in artifact.levels)
    return f"level {artifact.target}, of {levels}"


def _title(what: str, artifact: Artifact, eus: int, closed: bool) -> str:
    units = "1 EU" if eus == 1 else f"{eus} EUs"
    target = artifact.provenance.get("target", artifact.target)  # as the user named it
    # `shown`: names come from a file, and must not draw on a terminal
    return f"{what} for {shown(target)} on {units}{', closed' if closed else ''}"


def _sizes(tensor: Named) -> str:
    """`[2, 'seq'<=512]`."""
    told = zip(tensor.sizes, tensor.shape, strict=True)
    each = (str(n) if isinstance(n, int) else f"{shown(str(n))}<={m}" for n, m in told)
    return f"[{', '.join(each)}]"


def _lines(side: str, tensors: Sequence[Named]) -> Iterator[str]:
    for tensor in tensors[:_MOST_LINES]:
        yield f"{side} {shown(tensor.name)}: {tensor.dtype}{_sizes(tensor)}"
    if len(tensors) > _MOST_LINES:
        yield f"... and {len(tensors) - _MOST_LINES} more {side}s"
