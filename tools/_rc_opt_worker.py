"""The process behind rc-opt: parse, run the pipeline, print; see rc_opt.py and _guard.py."""

import io
import os
import sys
import traceback
from pathlib import Path
from typing import TextIO

import numpy as np
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.errors import CompilerError, ScheduleTextError
from rcompiler.passes import _reproducer, find, names
from rcompiler.passes._pipeline_text import build
from rcompiler.passes.constants.model_context import ModelContext, as_declared
from rcompiler.runtime.deferred import Constant, whole
from rcompiler.schedule_text import is_schedule_form, mlir_form, schedule_form
from rcompiler.tools._data import read_arrays, write_arrays
from rcompiler.tools._diagnostics import Diagnostics, Origin
from rcompiler.tools._guard import Chunk, Job, chunks


class _Worker:
    """One job: its progress notes and its output.

    arrays: those that the printed modules may name, by their keys.
    """

    def __init__(self, job: Job, out: TextIO) -> None:
        self.job, self.out, self.printed = job, out, False
        self.arrays: dict[str, Constant] = {}
        self._given: dict[str, np.ndarray] = {}

    def note(self, text: str) -> None:
        """Leave a mark for the guard."""
        with open(self.job.progress, "a") as file:
            file.write(text + "\n")

    def run(self, text: str) -> int:
        """All modules of the input; 1 if one failed."""
        beside = Path(self.job.input).with_suffix(".npz")
        if self.job.input != "-" and beside.exists():
            self._given = read_arrays(beside)
        code = 0
        for index, chunk in enumerate(chunks(text, self.job.split_input_file)):
            code |= self._chunk(index, chunk)
        return code

    def _chunk(self, index: int, chunk: Chunk) -> int:
        job = self.job
        diagnostics = Diagnostics(job.input, echo=not job.verify_diagnostics)
        context = dialects.load(ModelContext())
        context.allow_unregistered_dialects = job.allow_unregistered_dialect
        diagnostics.attach(context)
        ok = False
        with context:
            try:
                self.note(f"{index} the parser")
                text, diagnostics.origin = _readable(chunk)
                module = ir.Module.parse(text)
                context.arrays = as_declared(module.operation, self._given)
                ok = self._passes(index, chunk, module, context, diagnostics)
            except ScheduleTextError as error:
                diagnostics.refuse(error, chunk.first_line)
            except ir.MLIRError as error:
                diagnostics.explain(error)
        if job.verify_diagnostics:
            return diagnostics.check(chunk.text, chunk.first_line)
        if ok:
            self._print(module)
            self.arrays.update(context.arrays)
        return 0 if ok else 1

    def _passes(
        self,
        index: int,
        chunk: Chunk,
        module: ir.Module,
        context: ir.Context,
        diagnostics: Diagnostics,
    ) -> bool:
        job = self.job
        self.note(f"{index} the pass pipeline's parser")
        mark = (lambda element: self.note(f"{index} '{element}'")) if job.trace else None
        manager = build(job.pass_pipeline, context, mark)
        if job.dump_pass_pipeline:
            print(manager, file=sys.stderr, flush=True)
        if job.print_ir_before_all or job.print_ir_after_all:
            manager.enable_ir_printing(
                print_before_all=job.print_ir_before_all, print_after_all=job.print_ir_after_all
            )
        if job.timing:
            manager.enable_timing()
        self.note(f"{index} the pass pipeline")
        try:
            manager.run(module.operation)
        except ir.MLIRError as error:
            diagnostics.explain(error)
        except Exception:
            traceback.print_exc()
            print("rc-opt: this is a bug of the pass, or of what it calls", file=sys.stderr)
        else:
            return True
        if not job.verify_diagnostics:
            self._reproducer(chunk)
        return False

    def _reproducer(self, chunk: Chunk) -> None:
        path, job = self.job.reproducer, self.job
        if path:
            _reproducer.write(path, chunk.text, job.pass_pipeline, job.allow_unregistered_dialect)
            message = f"to see it again: rc-opt --run-reproducer {path}"
        elif not job.run_reproducer:
            message = "--reproducer=FILE writes the module and the pipeline into one file"
        else:
            return
        print(f"rc-opt: note: {message}", file=sys.stderr)

    def _print(self, module: ir.Module) -> None:
        if self.printed:
            print("// -----", file=self.out)
        self.printed = True
        text = str(module)  # which ends its last line
        text = schedule_form(text) if self.job.schedule_form else text
        print(text, end="", file=self.out, flush=True)


def _readable(chunk: Chunk) -> tuple[str, Origin]:
    """What MLIR parses of a module, and where in the input its places come from.

    Raises ScheduleTextError for a bad text in the schedule form.
    """
    above = chunk.first_line
    if not is_schedule_form(chunk.text):
        return "\n" * above + chunk.text, lambda line, column: (line, column)
    form = mlir_form(chunk.text)

    def origin(line: int, column: int) -> tuple[int, int]:
        line, column = form.place(line, column)
        return above + line, column

    return form.text, origin


def _list_passes() -> None:
    found = [cls for kind in ("passes", "pipelines") for name in names(kind) if (cls := find(name))]
    width = max(len(cls.name()) for cls in found)
    for cls in found:
        print(f"{cls.name():{width}}  {cls.summary()}")
        for option in cls.options():
            needed = "" if "(default: " in option else " (needed)"
            print(f"{'':{width}}    {option}{needed}")


def _main() -> int:
    job = Job.from_json(sys.argv[1])
    text = sys.stdin.buffer.read().decode()
    # A file is written at the end and only on success, like mlir-opt's; so it may be the input.
    out = io.StringIO() if job.output not in ("", "-") else sys.stdout
    worker = _Worker(job, out)
    try:
        if job.list_passes:
            _list_passes()
            code = 0
        else:
            code = worker.run(text)
        if isinstance(out, io.StringIO) and not code:
            arrays = {key: whole(array) for key, array in worker.arrays.items()}
            write_arrays(Path(job.output), arrays)
            Path(job.output).write_text(out.getvalue())
    except CompilerError as error:
        print(f"rc-opt: {error}", file=sys.stderr)
        code = 1
    except BrokenPipeError:  # the reader of our output left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:
        print(f"rc-opt: {job.output}: cannot write: {error.strerror}", file=sys.stderr)
        code = 1
    worker.note("done")
    return code


if __name__ == "__main__":
    try:
        sys.exit(_main())
    except KeyboardInterrupt:
        os._exit(130)
