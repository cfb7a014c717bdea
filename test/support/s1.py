"""S1 modules before and after a pass, and the numbers that both give."""

import re

import numpy as np
from naive_linalg import Runner
from torch_mlir import ir

from rcompiler.passes import _pipeline_text

RUN = Runner()


def product(b, x, weights):
    """x times constant weights, with a frontend Builder."""
    return b.matmul(x, b.constant(weights))


def module_of(b, results):
    """Text of the module that returns `results` as y0, y1, ..."""
    return b.module([(f"y{k}", value) for k, value in enumerate(results)])


def run_passes(text, passes, locations=False):
    """The module after textual `passes`, verified; with the locations of its ops or without."""
    with ir.Context() as context:
        module = ir.Module.parse(text)
        _pipeline_text.build(passes, context).run(module.operation)
        module.operation.verify()
        return module.operation.get_asm(enable_debug_info=locations)


def numbers(texts, constants, arrays):
    """The results of several modules that take the same constants and inputs, in pairs."""
    return zip(*(RUN.run(text, constants, arrays) for text in texts), strict=True)


def assert_same_bits(texts, constants, arrays):
    """Fails unless two modules give equal results to the last bit."""
    for expected, found in numbers(texts, constants, arrays):
        np.testing.assert_array_equal(found, expected)


def batched(text):
    """What rtask-batch-products made: how many products have slices cut from their results, and how
    often weights are cut.
    """
    sources = re.findall(r"extract_slice (%[\w#]+)\[", text)
    ops = re.findall(r"(%[\w#]+) = linalg.generic .*?iterator_types = \[(.*?)\]", text)
    products = {name for name, kinds in ops if "reduction" in kinds}
    constants = set(re.findall(r"(%\w+) = arith.constant dense", text))
    return len(products & set(sources)), sum(name in constants for name in sources)
