"""Reproducers: one .mlir file with a module and, in its leading comment, the pipeline to run.

// rc-opt reproducer; run it with: rc-opt --run-reproducer FILE
// pipeline: rtask-dce,func.func(cse)
// allow-unregistered-dialect: false
func.func @main() ...
"""

import re
from pathlib import Path

from rcompiler.errors import CompilerError

_TITLE = "// rc-opt reproducer; run it with: rc-opt --run-reproducer FILE"
_KEYS = ("pipeline", "allow-unregistered-dialect")
_POLICY, _NAME = re.compile(r"policy\s*=\s*([^\s,{}()]*)"), re.compile(r"\w+")


def write(path: str, module: str, pipeline: str, allow_unregistered_dialect: bool) -> None:
    """Write a reproducer; CompilerError if the file cannot be written."""
    values = (" ".join(pipeline.split()), str(allow_unregistered_dialect).lower())
    head = [_TITLE, *(f"// {key}: {value}" for key, value in zip(_KEYS, values, strict=True))]
    try:
        Path(path).write_text("\n".join([*head, module.lstrip("\n")]))
    except OSError as error:
        raise CompilerError(f"{path}: cannot write the reproducer: {error.strerror}") from None


def read(name: str, text: str) -> tuple[str, bool]:
    """The pipeline and allow-unregistered-dialect of the reproducer `text`, a file called `name`.

    CompilerError if its leading comment does not hold them, or if the pipeline has a policy that is
    imported: a file may come from a stranger, and does not say which code runs.
    """
    found = {}
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        key, colon, value = line.removeprefix("//").strip().partition(":")
        if colon and key in _KEYS:
            found[key] = value.strip()
    if "pipeline" not in found:
        raise CompilerError(f"{name}: not a reproducer: no '// pipeline:' in the leading comment")
    for policy in _POLICY.findall(found["pipeline"]):
        if not _NAME.fullmatch(policy):
            raise CompilerError(
                f"{name}: its pipeline imports and calls a policy, {policy}; if you trust it, give "
                "the pipeline with -p"
            )
    return found["pipeline"], found.get("allow-unregistered-dialect") == "true"
