"""One engine in a process of its own, for rc-bench --beside: loads a model, runs it when asked.

A question names everything, so that a worker that was started anew answers like the one before:
an engine is loaded when it is first asked for.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np

from rcompiler.errors import CompilerError
from rcompiler.support.workers import Worker, WorkerDied, serve_answers
from rcompiler.tools._baselines import BASELINES, Bound

OURS = "rcompiler"
ONE_EU = "rcompiler on 1 EU"  # the model compiled for one EU, which waits for nobody
_LOOK_S, _ASLEEP, _PATIENCE_S = 0.02, 0.05, 2.0  # at rest: less than a share of a look, of a CPU
_RIGHT, _FAILED = range(2)


@dataclass(frozen=True)
class Loaded:
    """What an engine runs. folder: has model.onnx, inputs.npz, and OURS.rcx and ONE_EU.rcx as they
    are asked for.
    """

    engine: str
    folder: str
    threads: int


class Engine:
    """The asking side."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._worker = Worker(__name__)

    def outputs(self) -> list[np.ndarray]:
        """Of one inference. Raises CompilerError where the engine cannot run the model."""
        with np.load(BytesIO(self._ask("outputs", 0.0))) as arrays:
            return [arrays[name] for name in arrays.files]

    def times(self, seconds: float) -> np.ndarray:
        """ns of each call, at least one. Raises CompilerError."""
        return np.frombuffer(self._ask("times", seconds), np.int64)

    def close(self) -> None:
        self._worker.kill()
        self._worker.close()

    def _ask(self, kind: str, seconds: float) -> bytes:
        question = {**asdict(self._loaded), "kind": kind, "seconds": seconds}
        try:
            status, answer = self._worker.ask(json.dumps(question).encode())
        except WorkerDied as error:
            raise CompilerError(f"{self._loaded.engine} ended: {error}") from None
        if status == _FAILED:
            raise CompilerError(answer.decode())
        return answer


def serve() -> None:
    """The worker's side."""
    serve_answers(_answer)


def _answer(question: bytes) -> tuple[int, bytes]:
    asked = json.loads(question)
    kind, seconds = asked.pop("kind"), asked.pop("seconds")
    try:
        bound = _bound(Loaded(**asked))
    except CompilerError as error:
        return _FAILED, str(error).encode()
    if kind == "times":
        times = _times(bound.run, seconds)
        come_to_rest()
        return _RIGHT, times.tobytes()
    bound.run()
    stream = BytesIO()
    np.savez(stream, *bound.outputs)
    return _RIGHT, stream.getvalue()


def come_to_rest() -> None:
    """Wait until the threads of this process sleep, but not for ever.

    Those of onnxruntime spin for a tenth of a second after its last call; whoever was measured then
    had to share the CPUs with them.
    """
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        used = time.process_time()
        time.sleep(_LOOK_S)
        if time.process_time() - used < _ASLEEP * _LOOK_S:
            return


@cache
def _bound(loaded: Loaded) -> Bound:
    """Imports one engine: this process is to have the threads of no other."""
    return _bind(loaded, _feeds(loaded.folder))


@cache
def _feeds(folder: str) -> dict[str, np.ndarray]:
    """The inputs; kept, as engines read them where they lie."""
    with np.load(Path(folder) / "inputs.npz") as arrays:
        return dict(arrays)


def _bind(loaded: Loaded, feeds: dict[str, np.ndarray]) -> Bound:
    folder = Path(loaded.folder)
    if loaded.engine in (OURS, ONE_EU):
        import rcompiler
        from rcompiler.bucketed import BucketedModel

        model = rcompiler.load(folder / f"{loaded.engine}.rcx", eus=loaded.threads)
        assert not isinstance(model, BucketedModel)
        binding = model.bind(feeds)
        return Bound(binding, [np.asarray(y) for y in binding.outputs])
    import onnx

    proto = onnx.load(folder / "model.onnx")
    return BASELINES[loaded.engine].bind(proto, loaded.threads, feeds)


def _times(run: Callable[[], object], seconds: float) -> np.ndarray:
    now = time.perf_counter_ns
    found: list[int] = []
    end = now() + int(seconds * 1e9)
    start = now()
    while True:
        run()
        stop = now()
        found.append(stop - start)
        start = stop
        if stop >= end:
            return np.array(found, np.int64)
