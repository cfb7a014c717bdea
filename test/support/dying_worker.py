"""A worker that ends as libraries of others do, at some of what it is asked.

The environment variable `KINDS` has the first bytes of the questions at which it ends; "?": one of
three, whatever is asked. To the others it answers as the worker of the onnx package does.
"""

import hashlib
import os
import signal

from rcompiler.support import onnx_worker
from rcompiler.support.workers import Workers, serve_answers

KINDS = "RC_TEST_DIES_AT"


def dying_workers() -> Workers:
    return Workers(__name__)


def serve() -> None:
    """Of the worker."""
    kinds = os.environ[KINDS].encode()

    def answer(question: bytes) -> tuple[int, bytes]:
        drawn = kinds == b"?" and hashlib.sha256(question).digest()[0] % 3 == 0
        if drawn or question[:1] in kinds:
            os.kill(os.getpid(), signal.SIGSEGV)
        return onnx_worker.answered(question)

    serve_answers(answer)
