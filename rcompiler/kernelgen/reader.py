"""What parts of an evaluator ask of it, so that they can be written without it.

Sums, combinations and rows are values that an evaluator is asked for, and read their own operands
by it: the recursion goes through `Reader`, the imports go one way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from torch_mlir import ir

from rcompiler.kernelgen.body import BodyEvaluator
from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.prefetch import Prefetcher
from rcompiler.kernelgen.stack import StackSlots
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.generic import Generic


class NeedsScalars(Exception):
    """The lanes of a vector are not linear in memory here: evaluate lane by lane."""


class Reader(Protocol):
    """Reads tensor elements of one rTask's region.

    Coordinates `at` are of a tensor, `dims` of the loops of an op. lanes: elements of a vector,
    whose coordinates contain LANE; 0 for one element.
    """

    @property
    def emitter(self) -> Emitter:
        """Where code is written."""

    @property
    def body(self) -> BodyEvaluator:
        """Computes the scalar regions of ops."""

    @property
    def prefetcher(self) -> Prefetcher:
        """Sees every load through `load`."""

    @property
    def slots(self) -> StackSlots:
        """Memory of the task on its stack."""

    def generic(self, op: ir.Operation) -> Generic:
        """What is known of a linalg.generic, which is looked at once."""

    def depth(self, op: ir.Operation) -> int:
        """The loop that an op stands in: what it computes is not known further out."""

    @property
    def point(self) -> int:
        """Which of several points of a forall is computed: results of one are those of no other."""

    def around(self, op: ir.Operation) -> Sequence[Linear]:
        """Where the point of a forall is that an op is computed at, as far as it depends on it."""

    def moved(self, names: Mapping[str, str]) -> AbstractContextManager[None]:
        """What is computed inside is that of a point with other names in its place."""

    def read(self, value: ir.Value, at: list[Linear], lanes: int) -> Val:
        """The element or elements of any tensor of the region."""

    def load(self, buffer: Buffer, at: list[Linear], lanes: int) -> Val:
        """The same of a tensor that lies in memory."""

    def words(self, value: ir.Value, at: list[Linear], lanes: int, steps: int) -> Val:
        """`steps` consecutive elements of an operand as one integer."""

    def place_of(self, value: ir.Value, at: list[Linear], lanes: int) -> tuple[Buffer, Linear]:
        """The memory of such an operand, and the elements in front of one of it."""

    def coordinates(
        self, generic: Generic, operand: int, dims: list[Linear], lanes: int
    ) -> list[Linear]:
        """Where an op reads an operand; raises NeedsScalars."""

    def operand(self, generic: Generic, k: int, dims: list[Linear], lanes: int) -> Val:
        """What an op reads of an operand."""

    def inline(self, generic: Generic, at: list[Linear], lanes: int) -> list[Val]:
        """All results of an elementwise op, computed here."""
