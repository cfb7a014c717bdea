"""The checker is read by people who trust nothing else: it stays small, and stands alone."""

import ast
import io
import tokenize
from pathlib import Path

import rcompiler.checker

FOLDER = Path(rcompiler.checker.__file__).parent
MOST_LINES = 535  # of code
_NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(text: str) -> int:
    """Lines without comments, docstrings and blank ones."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            lines.difference_update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(lines)


def test_the_checker_is_small():
    sizes = {path.name: code_lines(path.read_text()) for path in FOLDER.glob("*.py")}
    assert sum(sizes.values()) <= MOST_LINES, sizes


def test_lines_of_code_are_counted():
    assert code_lines('"""Doc."""\n\n# why\ndef f():\n    """Doc."""\n    return """a\nb"""\n') == 3
