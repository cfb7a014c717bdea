"""The schedule form: a module with a schedule as short text, the program first.

MLIR prints ops that are defined in Python in its generic form only: IRDL gives them a printer of
that form and a parser that refuses every other. So this room has a printer and a parser of its own,
from text to text, without MLIR: `schedule_form` makes the short text of what MLIR has printed, and
`mlir_form` makes MLIR of it again, the same module. docs/schedule-form.md has the grammar.
"""

from rcompiler.schedule_text.mlir_lines import MlirForm
from rcompiler.schedule_text.parser import mlir_form
from rcompiler.schedule_text.printer import schedule_form
from rcompiler.schedule_text.words import is_schedule_form

__all__ = ["MlirForm", "is_schedule_form", "mlir_form", "schedule_form"]
