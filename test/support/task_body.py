"""Bodies of one rTask, written by hand: a product with its bias, x[m, k] * w[k, n] + bias[n].

And schedules whose kernels have the bodies of whole operators, from which those of tasks are made.
"""

import re
from typing import Any

from torch_mlir import ir

from rcompiler import dialects
from rcompiler.passes._pipeline_text import runner

_ARGUMENTS = """  ^bb0(%x: tensor<{m}x{k}xf32>, %w: tensor<{k}x{n}xf32>, %bias: tensor<{n}xf32>, \
%out: tensor<{m}x{n}xf32>, %task: index):
    %zero = arith.constant 0.0 : f32
"""
HEAD = (
    _ARGUMENTS
    + """    %c0 = arith.constant 0 : index
    %m = arith.constant {last} : index
    %n = arith.constant {n} : index
    %rows = arith.constant {rows} : index
    %columns = arith.constant {columns} : index
"""
)
PRODUCT = """
    %a = tensor.extract_slice %x[%i, 0] [{rows}, {k}] [1, 1] : tensor<{m}x{k}xf32> to \
tensor<{rows}x{k}xf32>
    %b = tensor.extract_slice %w[0, %j] [{k}, {columns}] [1, 1] : tensor<{k}x{n}xf32> to \
tensor<{k}x{columns}xf32>
    %e = tensor.empty() : tensor<{rows}x{columns}xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<{rows}x{columns}xf32>) -> \
tensor<{rows}x{columns}xf32>
    %p = linalg.generic {{indexing_maps = [affine_map<(i, j, k) -> (i, k)>, \
affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = \
["parallel", "parallel", "reduction"]}} ins(%a, %b : tensor<{rows}x{k}xf32>, \
tensor<{k}x{columns}xf32>) outs(%f : tensor<{rows}x{columns}xf32>) {{
    ^bb0(%s: f32, %t: f32, %acc: f32):
      %u = arith.mulf %s, %t : f32
      %v = arith.addf %acc, %u : f32
      linalg.yield %v : f32
    }} -> tensor<{rows}x{columns}xf32>
"""
BIAS = """
    %e2 = tensor.empty() : tensor<{rows}x{columns}xf32>
    %c = tensor.extract_slice %bias[%j] [{columns}] [1] : tensor<{n}xf32> to tensor<{columns}xf32>
    %y = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, \
affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = \
["parallel", "parallel"]}} ins(%p, %c : tensor<{rows}x{columns}xf32>, tensor<{columns}xf32>) \
outs(%e2 : tensor<{rows}x{columns}xf32>) {{
    ^bb0(%s: f32, %t: f32, %o: f32):
      %u = arith.addf %s, %t : f32
      linalg.yield %u : f32
    }} -> tensor<{rows}x{columns}xf32>
"""
STORE = """
    %r = tensor.insert_slice %{tile} into %{into}[%i, %j] [{rows}, {columns}] [1, 1] : \
tensor<{rows}x{columns}xf32> into tensor<{m}x{n}xf32>
    scf.yield %r : tensor<{m}x{n}xf32>
"""
LOAD = """
    %p = tensor.extract_slice %sums[%i, %j] [{rows}, {columns}] [1, 1] : tensor<{m}x{n}xf32> to \
tensor<{rows}x{columns}xf32>
"""
LOOPS = {
    "rows outside": ("%i = %c0 to %m step %rows", "%j = %c0 to %n step %columns"),
    "columns outside": ("%j = %c0 to %n step %columns", "%i = %c0 to %m step %rows"),
}


def product_body(
    m: int, n: int, k: int, *, rows: int, columns: int, order: str, fused: bool = True,
    last: int | None = None, stored: str = "",
) -> str:  # fmt: skip
    """The body of the only task. fused: the bias is added where the sums are made, not behind all
    of them. last: where the loop over rows ends, m if None. stored: instead of `STORE`.
    """
    sizes = dict(m=m, n=n, k=k, rows=rows, columns=columns, last=m if last is None else last)
    outer, inner = LOOPS[order]
    kind = f"tensor<{m}x{n}xf32>"

    def nest(name: str, start: str, body: str) -> str:
        return (
            f"    %{name} = scf.for {outer} iter_args(%o_{name} = %{start}) -> ({kind}) {{\n"
            f"    %q_{name} = scf.for {inner} iter_args(%into_{name} = %o_{name}) -> ({kind}) {{"
            + body.format(**sizes, into=f"into_{name}", tile="y" if BIAS in body else "p")
            + f"    }}\n    scf.yield %q_{name} : {kind}\n    }}\n"
        )

    store = stored or STORE
    if fused:
        text = nest("done", "out", PRODUCT + BIAS + store)
    else:
        text = f"    %kept = tensor.empty() : {kind}\n" + nest("sums", "kept", PRODUCT + STORE)
        text += nest("done", "out", LOAD + BIAS + store)
    return HEAD.format(**sizes) + text + f'    "rtask.yield"(%done) : ({kind}) -> ()'


def straight_body(m: int, n: int, k: int) -> str:
    """The body of the only task without loops: its sums, of all of the result, are put into memory,
    and what is computed of them into the result, at the same place.
    """
    sizes = dict(m=m, n=n, k=k, rows=m, columns=n, last=m)
    kind = f"tensor<{m}x{n}xf32>"
    store = STORE.partition("    scf.yield")[0]
    sums = PRODUCT.replace("%p =", "%sum =") + store.replace("%r =", "%sums =")
    text = "    %i = arith.constant 0 : index\n    %j = arith.constant 0 : index\n"
    text += f"    %kept = bufferization.alloc_tensor() : {kind}\n"
    text += sums.format(**sizes, into="kept", tile="sum")
    text += (LOAD + BIAS + store).format(**sizes, into="out", tile="y")
    return HEAD.format(**sizes) + text + f'    "rtask.yield"(%r) : ({kind}) -> ()'


TASK_BODY = re.compile(r"(?m)^  \^bb0\(.*: index\):$")
"""Where the body of one task begins in a printed kernel."""

_BODY = re.compile(r'("rtask\.kernel"\(\) \(\{\n).*?(\n  \}\) \{)', re.S)


def with_body(text: str, body: str) -> str:
    """A module with another body of its only kernel."""
    assert len(_BODY.findall(text)) == 1
    return _BODY.sub(lambda found: found[1] + body + found[2], text)


def without_bodies(text: str) -> str:
    """The schedule alone, and what each kernel says of its tasks."""
    return _BODY.sub(r"\1\2", text)


def lowered(text: str, pipeline: str) -> str:
    """The text of a module after some passes, as rc-opt gives it."""
    with dialects.load(ir.Context()) as context, ir.Location.unknown():
        module = ir.Module.parse(text)
        runner(pipeline, context)(module)
        return str(module)


def of_whole_operators(model: Any, eus: int) -> str:
    """The schedule of a compiled model on so many EUs as it is before rc-tile-kernels."""
    return lowered(model.stage("rkernel"), f"rammer-schedule{{eus={eus}}}")


VECTORS = (
    _ARGUMENTS
    + """    %start = arith.constant dense<0.0> : vector<{lanes}xf32>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %lanes = arith.constant {lanes} : index
    %m = arith.constant {m} : index
    %n = arith.constant {n} : index
    %k = arith.constant {k} : index
    %done = scf.for %i = %c0 to %m step %c1 iter_args(%o = %out) -> (tensor<{m}x{n}xf32>) {{
      %row = scf.for %j = %c0 to %n step %lanes iter_args(%p = %o) -> (tensor<{m}x{n}xf32>) {{
        %sum = scf.for %l = %c0 to %k step %c1 iter_args(%acc = %start) -> (vector<{lanes}xf32>) {{
          %a = tensor.extract %x[%i, %l] : tensor<{m}x{k}xf32>
          %wide = vector.broadcast %a : f32 to vector<{lanes}xf32>
          %b = vector.transfer_read %w[%l, %j], %zero {{in_bounds = [true]}} : \
tensor<{k}x{n}xf32>, vector<{lanes}xf32>
          %more = vector.fma %wide, %b, %acc : vector<{lanes}xf32>
          scf.yield %more : vector<{lanes}xf32>
        }}
        %c = vector.transfer_read %bias[%j], %zero {{in_bounds = [true]}} : tensor<{n}xf32>, \
vector<{lanes}xf32>
        %y = arith.addf %sum, %c : vector<{lanes}xf32>
        %r = vector.transfer_write %y, %p[%i, %j] {{in_bounds = [true]}} : vector<{lanes}xf32>, \
tensor<{m}x{n}xf32>
        scf.yield %r : tensor<{m}x{n}xf32>
      }}
      scf.yield %row : tensor<{m}x{n}xf32>
    }}
    "rtask.yield"(%done) : (tensor<{m}x{n}xf32>) -> ()"""
)


def vector_body(m: int, n: int, k: int, lanes: int) -> str:
    """The same in vectors of `lanes` columns."""
    return VECTORS.format(m=m, n=n, k=k, lanes=lanes)
