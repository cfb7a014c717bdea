"""What lives in this process alone: can be closed, and be neither copied nor pickled."""

from __future__ import annotations

from typing import ClassVar, NoReturn, Self

from rcompiler.errors import CompilerError, DeviceError

CLOSED = "the model is closed; load it again"


class Closable:
    """A model as a context manager: closed by a call, or at the end of a `with` block."""

    @property
    def closed(self) -> bool:
        """Whether `close` was called: the model runs no more, but still says what it is."""
        raise NotImplementedError

    def close(self) -> None:
        """Give back what the model holds of the machine. Idempotent."""
        raise NotImplementedError

    def check_open(self) -> None:
        """Raises DeviceError where the model is closed."""
        if self.closed:
            raise DeviceError(CLOSED)

    def __enter__(self) -> Self:
        """The model itself. Raises DeviceError where it is closed."""
        self.check_open()
        return self

    def __exit__(self, *raised: object) -> None:
        """Close it, whether the block ended well or not."""
        self.close()


class Staying:
    """Names memory of this process or of its device: that of a copy would be another's, or gone.

    Attributes: instead: the remedy.
    """

    __slots__ = ()
    instead: ClassVar[str]

    def __reduce__(self) -> NoReturn:
        raise CompilerError(
            f"a {type(self).__name__} is memory of this process, which can be neither copied nor "
            f"pickled; {self.instead}"
        )
