"""The texts of the stages of a compilation, verified and printed while it goes on.

To verify and to print the modules of a network of thousands of operators takes a sixth of its
compilation (LSTM-TC: six of 38 s). Another process does that: it gets long modules as bytecode,
which takes a tenth of the time to write, and what it gives back is what this one would have
printed.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from torch_mlir import ir

from rcompiler import dialects
from rcompiler.errors import CompilerError
from rcompiler.support.workers import WorkerDied, Workers, can_help, serve_answers

_WORTH_A_PROCESS = 1 << 17  # bytes of bytecode: a third of a second
_INVALID = 1  # status of an answer


class StageTexts:
    """Texts by stage, in the order in which the stages were first kept."""

    def __init__(self) -> None:
        self._texts: dict[str, str | _Pending] = {}
        self._asking: ThreadPoolExecutor | None = None

    def keep(self, stage: str, module: ir.Module) -> None:
        """Verify the result of a stage and note its text; of a long one, until `all` is called.

        Raises CompilerError if it is not valid.
        """
        bytecode = io.BytesIO()
        module.operation.write_bytecode(bytecode)
        if bytecode.tell() < _WORTH_A_PROCESS or not can_help():
            try:
                module.operation.verify()
            except ir.MLIRError as error:
                raise _invalid(stage, str(error)) from error
            self._texts[stage] = module.operation.get_asm(assume_verified=True)
            return
        if self._asking is None:
            self._asking = ThreadPoolExecutor(1)
        code = bytecode.getvalue()
        self._texts[stage] = _Pending(stage, code, self._asking.submit(_ask, code))

    def add(self, stage: str, text: str) -> None:
        """Note a text that is no module."""
        self._texts[stage] = text

    def all(self) -> dict[str, str]:
        """Raises CompilerError: a stage was not valid."""
        for stage, text in self._texts.items():
            if isinstance(text, _Pending):
                self._texts[stage] = text.wait()
        if self._asking is not None:
            self._asking.shutdown()
            self._asking = None
        return {stage: text for stage, text in self._texts.items() if isinstance(text, str)}

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """A stage that is not valid is the reason of whatever goes wrong after it, unless an error
        says of itself what it is about.
        """
        try:
            yield
        except CompilerError:
            raise
        except Exception:
            self.all()
            raise


class _Pending:
    """A text that another process makes."""

    def __init__(self, stage: str, bytecode: bytes, answer: Future[tuple[int, bytes]]) -> None:
        self._stage, self._bytecode, self._answer = stage, bytecode, answer

    def wait(self) -> str:
        """Raises CompilerError if the stage is not valid."""
        try:
            status, answer = self._answer.result()
        except (WorkerDied, OSError):  # then it is made here
            status, answer = _verified(self._bytecode)
        if status == _INVALID:
            raise _invalid(self._stage, answer.decode())
        return answer.decode()


def _invalid(stage: str, why: str) -> CompilerError:
    return CompilerError(
        f"the result of stage '{stage}' is not valid: {why}; this is a defect of the compiler, "
        "report it with the model"
    )


def _ask(bytecode: bytes) -> tuple[int, bytes]:
    with _WORKERS.borrow() as worker:
        return worker.ask(bytecode)


def _verified(bytecode: bytes) -> tuple[int, bytes]:
    """Status and text, or what is wrong. The context is a new one: resources keep their names."""
    with dialects.load(ir.Context()) as context, ir.Location.unknown():
        context.enable_multithreading(False)
        try:
            module = ir.Module.parse(bytecode)
        except ir.MLIRError as error:
            return _INVALID, str(error).encode()
        return 0, module.operation.get_asm(assume_verified=True).encode()


def serve() -> None:
    """The other process: a module's bytecode for each question, its text for an answer."""
    serve_answers(_verified)


_WORKERS = Workers("rcompiler.driver.stage_texts")
