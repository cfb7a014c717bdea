"""A folder of packed files, each under the hash of its content: nothing is kept twice."""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rcompiler.errors import CompilerError
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.container import replacing

_INDEX = "index.json"
_PRESET = 2  # of lzma: a fifth of the time of the default, and numbers that repeat are near


class PackedFolder:
    """Blocks of bytes by key, and an index that names them.

    Artifacts are kept in two blocks, weights and all else, because schedules of a model have the
    same weights.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def create(self) -> None:
        """Make the folder, if it is not there."""
        self.path.mkdir(parents=True, exist_ok=True)

    def index(self) -> list[dict[str, Any]]:
        """The entries; none of a folder that is empty. Raises CompilerError for a wrong file."""
        try:
            found = json.loads((self.path / _INDEX).read_text())
        except FileNotFoundError:
            return []
        except ValueError as error:
            raise CompilerError(f"{self.path / _INDEX}: not an index ({error})") from None
        if not isinstance(found, list):
            raise CompilerError(f"{self.path / _INDEX}: not an index")
        return found

    def write_index(self, entries: Sequence[dict[str, Any]]) -> None:
        """Instead of what is there."""
        with replacing(self.path / _INDEX) as file:
            file.write((json.dumps(list(entries), indent=1) + "\n").encode())

    def put(self, data: bytes) -> str:
        """Keep a block; its key."""
        key = hashlib.sha256(data).hexdigest()
        if not self._file(key).exists():
            with replacing(self._file(key)) as file:
                file.write(lzma.compress(data, preset=_PRESET))
        return key

    def get(self, key: str) -> bytes:
        """The block. Raises CompilerError when it is absent or damaged."""
        try:
            data = lzma.decompress(self._file(key).read_bytes())
        except (OSError, lzma.LZMAError) as error:
            raise CompilerError(f"{self._file(key)}: cannot be read ({error})") from None
        if hashlib.sha256(data).hexdigest() != key:
            raise CompilerError(f"{self._file(key)}: is damaged; make the folder again")
        return data

    def put_artifact(self, artifact: Artifact, scratch: Path) -> list[str]:
        """Keep an artifact; its keys. scratch: a file that may be overwritten."""
        artifact.save(scratch)
        data = scratch.read_bytes()
        # Sections stand in the order of their names, so weights come last.
        start = len(data) - artifact.storage.section(artifact.constants).size
        return [self.put(data[:start]), self.put(data[start:])]

    def get_artifact(self, keys: Sequence[str], scratch: Path) -> Artifact:
        """The artifact with these keys. scratch: a file that is overwritten."""
        scratch.write_bytes(b"".join(map(self.get, keys)))
        return Artifact.load(scratch, full=True, mapped=False)

    @property
    def nbytes(self) -> int:
        """Of all files."""
        return sum(file.stat().st_size for file in self.path.iterdir() if file.is_file())

    def _file(self, key: str) -> Path:
        return self.path / f"{key}.xz"
