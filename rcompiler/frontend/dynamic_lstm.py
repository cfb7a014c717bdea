"""DynamicQuantizeLSTM of onnxruntime as a function of standard operators, its products of integers.

What is fed is quantised once, for all steps, and the hidden state at each of them, by the range of
its numbers then; the gates are computed in f32. So does onnxruntime (rnn_helpers.cc, ComputeGemm)
on one thread; on several each has the range of the sequences that it computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, helper, parser

# Steps of Scan are unrolled, which takes time to compile: of more, the LSTM of f32 is a loop.
MOST_STEPS = 128
_ACTIVATIONS = [b"Sigmoid", b"Tanh", b"Tanh"]
_LENGTHS, _PEEPHOLE = 4, 7  # inputs
_STEP = """step (float[batch, hidden] h, float[batch, hidden] c, float[batch, gates] fed)
=> (float[batch, hidden] h_next, float[batch, hidden] c_next, float[batch, hidden] shown) {{
  h_bytes, h_scale, h_zero = DynamicQuantizeLinear (h)
  sums = MatMulInteger (h_bytes, r{d}, h_zero, r_zero{d})
  sums_real = Cast <to: int = 1> (sums)
  factor = Mul (h_scale, r_scale{d})
  recurred = Mul (sums_real, factor)
  all = Add (fed, recurred)
  i, o, f, g = Split <axis: int = -1> (all)
  i_open = Sigmoid (i)
  o_open = Sigmoid (o)
  f_open = Sigmoid (f)
  new = Tanh (g)
  kept = Mul (f_open, c)
  added = Mul (i_open, new)
  c_next = Add (kept, added)
  seen = Tanh (c_next)
  h_next = Mul (o_open, seen)
  shown = Identity (h_next)
}}"""
_OPSET = 17


def integer_lstm(node: NodeProto, domain: str, x: Sequence[int]) -> FunctionProto | None:
    """The function; None of a form of the operator that is not here: with many steps, other
    activations, lengths of sequences, a bound, peepholes, or coupled gates. x: the shape of what is
    fed; () where it is not known.
    """
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if not _plain(node, given) or x and x[0] > MOST_STEPS:
        return None
    direction = given.get("direction", b"forward")
    backward = {b"forward": [0], b"reverse": [1], b"bidirectional": [0, 1]}[direction]
    lines = [
        "x_bytes, x_scale, x_zero = DynamicQuantizeLinear (x)",
        "batch = Shape <start: int = 1, end: int = 2> (x)",
        f"hidden = Constant <value_ints = [{given['hidden_size']}]> ()",
        "extents = Concat <axis: int = 0> (batch, hidden)",
        "zeros = ConstantOfShape (extents)",
        "column = Constant <value_ints = [1]> ()",
        "row = Constant <value_ints = [0]> ()",
    ]
    for d in range(len(backward)):
        lines += _direction(node, d)
    order = list(range(len(backward)))
    for made, axis, out in (("ys", 1, "y"), ("hs", 0, "y_h"), ("cs", 0, "y_c")):
        along = "column" if axis else "row"
        lines += [f"{made}_one{d} = Unsqueeze ({made}{d}, {along})" for d in order]
        parts = ", ".join(f"{made}_one{d}" for d in order)
        lines.append(f"{out} = Concat <axis: int = {axis}> ({parts})")
    function = parser.parse_function(
        f'<domain: "{domain}", opset_import: ["" : {_OPSET}]> DynamicQuantizeLSTM '
        "<activation_alpha, activation_beta, activations, clip, direction, hidden_size, "
        "input_forget> (x, w, r, b, lengths, h0, c0, p, w_scale, w_zero, r_scale, r_zero) "
        "=> (y, y_h, y_c) {\n" + "\n".join(lines) + "\n}"
    )
    return _with_loops(function, backward)


def _plain(node: NodeProto, given: dict[str, Any]) -> bool:
    usual = given.get("activations", _ACTIVATIONS)
    others = any(k < len(node.input) and node.input[k] for k in (_LENGTHS, _PEEPHOLE))
    simple = [usual[i : i + 3] == _ACTIVATIONS for i in range(0, len(usual), 3)]
    changed = given.get("clip") or given.get("input_forget")
    changed = changed or not isinstance(given.get("hidden_size"), int)  # it is written into a text
    return all(simple) and not others and not changed


def _direction(node: NodeProto, d: int) -> list[str]:
    """The nodes of one direction; a line "LOOP d" in the place of its loop over steps."""

    def has(index: int) -> bool:
        return index < len(node.input) and bool(node.input[index])

    lines = [f"at{d} = Constant <value_int = {d}> ()"]
    lines += [
        f"{operand}{d} = Gather <axis: int = 0> ({operand}, at{d})"
        for operand in ("w", "r", "w_scale", "w_zero", "r_scale", "r_zero")
    ]
    lines += [
        f"sums{d} = MatMulInteger (x_bytes, w{d}, x_zero, w_zero{d})",
        f"real{d} = Cast <to: int = 1> (sums{d})",
        f"factor{d} = Mul (x_scale, w_scale{d})",
        f"scaled{d} = Mul (real{d}, factor{d})",
    ]
    fed = f"scaled{d}"
    if has(3):
        fed = f"biased{d}"
        lines += [
            f"both{d} = Gather <axis: int = 0> (b, at{d})",
            f"first{d}, second{d} = Split <axis: int = 0> (both{d})",
            f"bias{d} = Add (first{d}, second{d})",
            f"biased{d} = Add (scaled{d}, bias{d})",
        ]
    for index, state in ((5, "h0"), (6, "c0")):
        begin = f"Gather <axis: int = 0> ({state}, at{d})" if has(index) else "Identity (zeros)"
        lines.append(f"{state}_{d} = {begin}")
    lines.append(f"hs{d}, cs{d}, ys{d} = Scan (h0_{d}, c0_{d}, {fed})")
    return lines


def _with_loops(function: FunctionProto, backward: list[int]) -> FunctionProto:
    """The function, its loops with their steps."""
    loops = [node for node in function.node if node.op_type == "Scan"]
    for d, (loop, back) in enumerate(zip(loops, backward, strict=True)):
        step: GraphProto = parser.parse_graph(_STEP.format(d=d))
        attributes: list[AttributeProto] = [
            helper.make_attribute("body", step),
            helper.make_attribute("num_scan_inputs", 1),
            helper.make_attribute("scan_input_directions", [back]),
            helper.make_attribute("scan_output_directions", [back]),
        ]
        loop.attribute.extend(attributes)
    return function
