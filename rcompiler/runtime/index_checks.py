"""What a launch says of indices that the model computes: memory for it, and what becomes of it."""

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

from rcompiler.errors import RangeError
from rcompiler.runtime.memory import ALIGNMENT
from rcompiler.runtime.program import IndexCheck
from rcompiler.support.extent import SIZE_BESIDE


class Answers:
    """Memory for the answers of one launch, each at a multiple of 64 bytes.

    Attributes:
        addresses: of the answers.
    """

    __slots__ = ("_block", "_skip", "addresses")

    def __init__(self, block: Any, size: int) -> None:
        """block: a ctypes array of the bytes that `size` answers take, and room to align them."""
        start = ctypes.addressof(block)
        self._block, self._skip = block, -start % ALIGNMENT
        start += self._skip
        self.addresses = range(start, start + size, ALIGNMENT)


class IndexChecks:
    """The checks of a model.

    Attributes:
        size: bytes of all answers.
    """

    def __init__(self, checks: Sequence[IndexCheck]) -> None:
        self._checks = checks
        self.size = len(checks) * ALIGNMENT
        self._new = ctypes.c_char * (self.size + ALIGNMENT)
        self._answers = struct.Struct(f"q{ALIGNMENT - 8}x" * len(checks)).unpack_from

    def __bool__(self) -> bool:
        return bool(self._checks)

    def new(self) -> Answers:
        """Memory on this machine."""
        return Answers(self._new(), self.size)

    def look(self, answers: Answers) -> None:
        """Raise RangeError if an index was outside, of the first node of which it is said."""
        if any(self._answers(answers._block, answers._skip)):
            self.look_at(answers._block, answers._skip)

    def look_at(self, data: Any, offset: int = 0) -> None:
        """The same of answers that lie in a buffer."""
        answers = self._answers(data, offset)
        sizes = (*answers[1:], 0)
        for check, wrong, size in zip(self._checks, answers, sizes, strict=True):
            if wrong and check.says != SIZE_BESIDE:
                raise RangeError(_told(check, wrong, size), check.bound, wrong)


def _told(check: IndexCheck, wrong: int, size: int) -> str:
    """What is wrong. size: what the next check says, see `IndexCheck.says`."""
    if not check.says:
        return (
            f"{check.reader} was given the index {wrong}, which the model has computed; it "
            f"reads from {check.first} to {check.last}"
        )
    index = wrong - check.last - 1 if wrong > 0 else wrong - check.first
    numbers = {"{}": wrong, "{index}": index, "{first}": -size, "{last}": size - 1}
    numbers[SIZE_BESIDE] = size
    text = check.says
    for place, number in numbers.items():
        text = text.replace(place, str(number))
    return text
