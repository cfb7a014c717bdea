"""What code for GPUs must not wait for: seen in its instructions, as no GPU is there."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from short_networks import half_block  # noqa: E402
from toolkit import needs_sass  # noqa: E402

import rcompiler  # noqa: E402
from rcompiler.codegen.sass import opcodes  # noqa: E402
from rcompiler.tools.models.graph import ModelGraph  # noqa: E402

TARGET = "cuda:h200"
_ASKS, _MULTIPLIES, _LOOPS = "UTMALDG.", "HGMMA.", "BRA.U.ANY"


@needs_sass
def test_a_box_is_asked_for_without_a_loop_over_threads():
    """ptxas writes one where it does not know that a single thread asks, or that the operands are
    the same in all threads of a warp: then the next request waits for it, and so do products.
    """
    image = rcompiler.compile_onnx(half_block(128, 256), target=TARGET).artifact.image
    found = {
        name: counts
        for name, counts in opcodes(image.cubin).items()
        if any(opcode.startswith(_ASKS) for opcode in counts)
    }
    assert found
    for counts in found.values():
        asked = sum(n for opcode, n in counts.items() if opcode.startswith(_ASKS))
        started = sum(n for opcode, n in counts.items() if opcode.startswith(_MULTIPLIES))
        assert asked > 1 and started > 1
        assert counts[_LOOPS] == 0


def test_rows_are_read_before_they_are_stored():
    """A load behind a store that may be to the same place waits: no compiler moves it up."""
    g = ModelGraph("rows", 1)
    rows = g.layer_norm(g.input("x", (64, 768)))
    made = rcompiler.compile_onnx(g.model(output=(rows, (64, 768))), target=TARGET)
    text = made.artifact.image.ptx.decode()
    [function] = re.findall(r"^\.func k_.*?^\}", text, re.MULTILINE | re.DOTALL)
    order = "".join(kind[0] for kind in re.findall(r"\b(ld|st)\.global", function))
    stores = [len(run) for run in re.findall("s+", order)]
    assert stores and min(stores) >= 4 and sum(n == 8 for n in stores) > len(stores) // 2
