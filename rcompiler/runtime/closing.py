"""What can be closed, and runs no more then: by a call, or at the end of a `with` block."""

from __future__ import annotations

from typing import Self

from rcompiler.errors import DeviceError

CLOSED = "the model is closed; load it again"


class Closable:
    """A model as a context manager."""

    @property
    def closed(self) -> bool:
        """Whether `close` was called: the model runs no more, but still says what it is."""
        raise NotImplementedError

    def close(self) -> None:
        """Give back what the model holds of the machine. Idempotent."""
        raise NotImplementedError

    def check_open(self) -> None:
        """Refuse to go on where the model is closed.

        Raises:
            DeviceError: it is.
        """
        if self.closed:
            raise DeviceError(CLOSED)

    def __enter__(self) -> Self:
        """The model itself.

        Raises:
            DeviceError: it is closed.
        """
        self.check_open()
        return self

    def __exit__(self, *raised: object) -> None:
        """Close it, whether the block ended well or not.

        Args:
            *raised: what the block raised, which goes on.
        """
        self.close()
