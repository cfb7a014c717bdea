"""What names memory of this process or of its device, and so can be neither copied nor pickled."""

from typing import ClassVar, NoReturn

from rcompiler.errors import CompilerError


class Staying:
    """A copy would name memory that is another's, or is gone. Attributes: instead: the remedy."""

    __slots__ = ()
    instead: ClassVar[str]

    def __reduce__(self) -> NoReturn:
        raise CompilerError(
            f"a {type(self).__name__} is memory of this process, which can be neither copied nor "
            f"pickled; {self.instead}"
        )
