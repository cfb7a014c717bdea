"""Tiles over tensors that are still read: no code is made of a body that would need a copy."""

import pytest
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.dialects.task_body import stores_in
from rcompiler.errors import CompilerError
from rcompiler.kernelgen.overwritten import check_overwritten

HEAD = """
func.func @f(%out: tensor<8xf32>, %t: tensor<4xf32>, %c: i1) -> tensor<8xf32> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %s = bufferization.alloc_tensor() : tensor<8xf32>
"""
PUT = "tensor.insert_slice {0} into {1}[{2}] [4] [1] : tensor<4xf32> into tensor<8xf32>\n"
TAKE = "tensor.extract_slice {0}[0] [4] [1] : tensor<8xf32> to tensor<4xf32>\n"


def put(name, tile, into, at="0"):
    return f"  {name} = " + PUT.format(tile, into, at)


def take(name, source):
    return f"  {name} = " + TAKE.format(source)


def loop(name, start, body, yields):
    return (
        f"  {name} = scf.for %i = %c0 to %c8 step %c4 iter_args(%p = {start}) "
        f"-> (tensor<8xf32>) {{\n{body}    scf.yield {yields} : tensor<8xf32>\n  }}\n"
    )


RIGHT = {
    "a tile after the other": put("%a", "%t", "%s") + put("%r", "%t", "%a", "4"),
    "read before": put("%a", "%t", "%s") + take("%b", "%a") + put("%r", "%b", "%a", "4"),
    "carried by a loop": loop("%r", "%s", put("%q", "%t", "%p", "%i"), "%q"),
    "begun in a loop": loop(
        "%r",
        "%out",
        "  %m = bufferization.alloc_tensor() : tensor<8xf32>\n"
        + put("%a", "%t", "%m")
        + take("%b", "%a")
        + put("%q", "%b", "%p", "%i"),
        "%q",
    ),
    "sides of a branch": "  %r = scf.if %c -> (tensor<8xf32>) {\n"
    + put("%a", "%t", "%s")
    + "    scf.yield %a : tensor<8xf32>\n  } else {\n"
    + take("%b", "%s")
    + put("%d", "%b", "%s", "4")
    + "    scf.yield %d : tensor<8xf32>\n  }\n",
}
WRONG = {
    "read after": (
        put("%a", "%t", "%s") + take("%b", "%s") + put("%r", "%b", "%a", "4"),
        "tensor.insert_slice puts tiles into a tensor, and tensor.extract_slice uses that",
    ),
    "two tensors of one": (
        put("%a", "%t", "%s")
        + put("%b", "%t", "%s", "4")
        + take("%d", "%a")
        + put("%r", "%d", "%b"),
        "tensor.insert_slice uses that tensor, too",
    ),
    "read in the loop that carries it": (
        loop("%r", "%s", take("%a", "%s") + put("%q", "%a", "%p", "%i"), "%q"),
        "scf.for puts tiles into a tensor, and tensor.extract_slice uses that",
    ),
    "in every turn": (
        loop(
            "%r",
            "%out",
            put("%a", "%t", "%s") + take("%b", "%a") + put("%q", "%b", "%p", "%i"),
            "%q",
        ),
        "in every turn of a loop that begins behind it",
    ),
    "sums that begin outside of a loop, which carries them in each turn": (
        put("%z", "%t", "%s")
        + loop(
            "%r",
            "%out",
            "  %m = scf.for %j = %c0 to %c8 step %c4 iter_args(%n = %z) -> (tensor<8xf32>) {\n"
            + put("%o", "%t", "%n", "%j")
            + "    scf.yield %o : tensor<8xf32>\n  }\n"
            + take("%b", "%m")
            + put("%q", "%b", "%p", "%i"),
            "%q",
        ),
        "scf.for puts tiles into a tensor, and it does so in every turn",
    ),
}


def check(body):
    with dialects.load(ir.Context()), ir.Location.unknown():
        module = ir.Module.parse(HEAD + body + "  return %r : tensor<8xf32>\n}")
        block = module.body.operations[0].regions[0].blocks[0]
        check_overwritten(block, stores_in(block), "k")


@pytest.mark.parametrize("name", RIGHT)
def test_tensors_that_are_no_more(name):
    check(RIGHT[name])


@pytest.mark.parametrize("name", WRONG)
def test_tensors_that_are_still_read(name):
    body, reason = WRONG[name]
    with pytest.raises(CompilerError, match=f"kernel k: .*{reason}.*begin as a tensor of its own"):
        check(body)
