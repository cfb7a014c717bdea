"""operators.md: the operators of onnxruntime's domain, from the declarations that refuse others."""

from collections.abc import Iterator

from rcompiler.frontend import contrib, registry, untranslated
from reference.docstrings import markdown

_ABOUT = f"""\
What tools of onnxruntime write beside the standard (domain `{contrib.DOMAIN}`), and what of it is
compiled. Each operator is translated as the standard operators that it stands for, so that these
are fused and scheduled as in a graph that an exporter wrote. An input or attribute that is not
here is refused, and so is what a line says is not translated: `rc-compile --check` names the node
and the reason. Some that onnxruntime reads in the standard's domain, such as
SimplifiedLayerNormalization, are found there, too."""
_FEW_BITS = """\
Operators with a lowering of their own; [quantised](../quantised.md) says what stays integer."""
_REFUSED = """\
Operators that onnxruntime's CPU provider runs, and that are refused. A model that it saved with
ORT_ENABLE_ALL has operators of the domain com.microsoft.nchwc, whose blocks of channels are those
of one machine: save it again with ORT_ENABLE_EXTENDED. A file in its own format (`.ort`) is read by
a session of onnxruntime, which writes it as ONNX where `optimized_model_filepath` is set and the
entry `session.save_model_format` is `ONNX`."""


def text() -> str:
    """The whole document."""
    lines = ["# Operators of onnxruntime", "", _ABOUT, ""]
    lines += ["| operator | inputs | attributes | what it computes |", "|---|---|---|---|"]
    lines += map(_row, sorted(contrib.OPERATORS.values(), key=lambda each: each.name))
    lines += ["", "## Weights of a few bits", "", _FEW_BITS, "", ", ".join(_lowered()) + "."]
    lines += ["", "## Not translated", "", _REFUSED, "", "| operator | why, and what to do |"]
    lines += ["|---|---|"]
    lines += [f"| {op} | {why} |" for op, why in sorted(untranslated.ONNXRUNTIME.items())]
    return "\n".join(lines)


def _row(operator: contrib.Operator) -> str:
    inputs = ", ".join(f"{x.name}?" if x.optional else x.name for x in operator.inputs)
    usual = ", ".join(f"{name}{_usual(value)}" for name, value in operator.attributes.items())
    return f"| {operator.name} | {inputs} | {usual} | {markdown(operator.summary)} |"


def _usual(value: object) -> str:
    """Nothing of an attribute that has to be given, or is left to the operator."""
    return "" if isinstance(value, type) or value in ("", ()) else f"={value}"


def _lowered() -> Iterator[str]:
    lowered = {op for op, domain in registry.names() if domain == contrib.DOMAIN}
    yield from sorted(lowered | {contrib.LSTM})
