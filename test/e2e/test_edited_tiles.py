"""Bodies of tasks that are edited: the code is another one, the results are the same.

How long each takes is what `python test/support/edited_tiles.py` prints; no test asserts a time.
"""

import numpy as np
import pytest
from edited_tiles import EDITS, Product

SIZE = 96
# Tilings, and so texts and code, are the same on every machine.
TARGET, RECORD = "cpu:x86-64", "zen5-2"


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    return Product.of(SIZE, TARGET, RECORD, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def unedited(product):
    return product.edited(lambda kernel: None)


def test_the_body_of_the_passes_gives_the_code_of_the_compiler(product, unedited):
    assert unedited.stage("llvm") == product.model.stage("llvm")


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_body_runs_as_it_is_written(product, unedited, name):
    edited = product.edited(EDITS[name])
    assert edited.stage("vdevice") != unedited.stage("vdevice")
    assert edited.stage("llvm") != unedited.stage("llvm")  # the code follows the body ...
    [result], [expected] = edited(*product.inputs), product.model(*product.inputs)
    np.testing.assert_array_equal(result, expected)  # ... in which each sum has the same order
    assert (np.abs(result - product.reference()) <= product.tolerance()).all()


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_touches_nothing_but_the_body(product, name):
    def attributes(text):
        return [line for line in text.splitlines() if line.startswith("  }) {")]

    own = attributes(product.model.stage("vdevice"))
    assert own and attributes(product.tiled(EDITS[name])) == own


def test_loops_of_an_edited_body_are_seen_in_its_text(product):
    swapped = product.tiled(EDITS["tiles of 1 x 1 vector, loops swapped"])
    small = product.tiled(EDITS["tiles of 1 x 1 vector"])
    for text in (small, swapped):
        assert "-> tensor<1x4xf32>" in text  # four lanes: a register tile
    assert small.index("step %c4") < small.index("step %c1 ")  # columns outside
    assert swapped.index("step %c1 ") < swapped.index("step %c4")
    parts = product.tiled(EDITS["reduction outside, parts of 32"])
    assert "to %c96 step %c32" in parts
    split = product.tiled(EDITS["epilogue split off"])
    assert split.count('"rtask.stage"') == 1 and '"rtask.stage"' not in small
