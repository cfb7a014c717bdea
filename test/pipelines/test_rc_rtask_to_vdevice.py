"""rc-rtask-to-vdevice under each policy; its text is in rc-rtask-to-vdevice.mlir."""

from pathlib import Path
from typing import get_args

import pytest
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.device.record import load_device
from rcompiler.errors import PipelineError
from rcompiler.options import Policy
from rcompiler.passes._pipeline_text import expand, runner
from rcompiler.passes.schedule.tables import read_tables
from rcompiler.passes.vdevice_attach_device import VdeviceAttachDevice
from rcompiler.pipelines.rc_rtask_to_vdevice import RcRtaskToVdevice

DEVICE = load_device(Path(__file__).parents[1] / "Inputs" / "v3-2.json")
TENSOR = "tensor<1048576xf32>"  # large enough for a share of each EU


def _absolute(result, source):
    """The rOperator that takes the absolute value of a tensor."""
    return f"""
  %{result} = "rtask.operator"() ({{
    %e = tensor.empty() : {TENSOR}
    %y = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel"]}}
        ins(%{source} : {TENSOR}) outs(%e : {TENSOR}) {{
    ^bb0(%l: f32, %o: f32):
      %s = math.absf %l : f32
      linalg.yield %s : f32
    }} -> {TENSOR}
    "rtask.yield"(%y) : ({TENSOR}) -> ()
  }}) {{kind = "elementwise", sym_name = "{result}"}} : () -> {TENSOR}"""


MODULE = f"""
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: {TENSOR}) -> {TENSOR} {{
  {_absolute("a", "x")}
  {_absolute("b", "a")}
  {_absolute("c", "b")}
  return %c : {TENSOR}
}}"""


@pytest.mark.parametrize("policy", get_args(Policy))
def test_every_policy_makes_a_schedule(policy):
    pipeline = [VdeviceAttachDevice(DEVICE), RcRtaskToVdevice(policy)]
    with dialects.load(ir.Context()) as context, ir.Location.unknown():
        module = ir.Module.parse(MODULE)
        runner(pipeline, context, verify=True)(module)
        programs = read_tables(module.operation).programs
    assert len(programs) == (3 if policy in ("base", "wave") else 1)
    assert all(program.eus == 2 for program in programs)
    assert {program.dynamic for program in programs} == {policy == "dynamic"}


def test_other_policies_are_refused_by_name():
    with pytest.raises(PipelineError, match="'policy': policy 'paper' is none of base, wave, bsp"):
        expand("rc-rtask-to-vdevice{policy=paper}")
