"""Networks on images of which batch, height and width are open: one program for all sizes.

Compared with the program of each size, to the bit, and with ONNX's reference; also through a
session, which makes such a program by itself.
"""

import image_networks
import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from turns import turn_of
from whole_ranges import whole_ranges

import rcompiler
from rcompiler.errors import RangeError, ShapeError
from rcompiler.runtime.sized_arguments import SizedCall

OPTIONS = {"device": "default", "eus": 2}
NETWORKS = [  # of each the least side, sizes that it takes, and one that it does not
    pytest.param(lambda: image_networks.unet(True), 4, [(4, 12), (8, 4), (16, 20)], (6, 8),
                 id="unet-transposed"),
    pytest.param(lambda: image_networks.unet(False), 4, [(4, 5), (7, 13), (19, 16)], None,
                 id="unet-resized"),
    pytest.param(image_networks.yolo, 8, [(8, 16), (15, 23), (24, 13)], (17, 16), id="yolo"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _settings(monkeypatch, tmp_path_factory):
    monkeypatch.setattr(SizedCall, "beyond", np.nan)
    monkeypatch.setenv("RC_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setenv("RC_DEVICE", "default")


def image(batch, height, width):
    shape = batch, 3, height, width
    return np.random.default_rng(height).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("network, least, sizes, wrong", turn_of(NETWORKS, 2))
def test_one_program_answers_for_images_of_all_sizes(network, least, sizes, wrong):
    proto = network()
    reference = ReferenceEvaluator(proto)
    (name,) = [value.name for value in proto.graph.input]
    sides = range(least, 25)
    shapes = {"batch": range(1, 3), "height": sides, "width": sides}
    with rcompiler.compile_onnx(
        proto, shapes=shapes, buckets=whole_ranges(proto, shapes), **OPTIONS
    ) as model:
        for number, (height, width) in enumerate(sizes):
            batch = 1 + number % 2
            x = image(batch, height, width)
            (found,), (expected,) = model(x), reference.run(None, {name: x})
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, 1e-3, 1e-4)
            if number:
                exact = {"batch": batch, "height": height, "width": width}
                with rcompiler.compile_onnx(proto, shapes=exact, **OPTIONS) as other:
                    np.testing.assert_array_equal(found, other(x)[0])
        if wrong is not None:
            with pytest.raises(RangeError, match=r"Concat '.*' meets \d+ elements along axis 2"):
                model(image(1, *wrong))
            with pytest.raises(ShapeError):
                rcompiler.compile_onnx(
                    proto, shapes={"batch": 1, "height": wrong[0], "width": wrong[1]}, **OPTIONS
                )


@pytest.mark.parametrize("network, least, sizes, wrong", turn_of(NETWORKS, 2))
def test_a_session_has_one_program_for_images_of_many_sizes(network, least, sizes, wrong):
    proto = network()
    reference = ReferenceEvaluator(proto)
    (name,) = [value.name for value in proto.graph.input]
    with rcompiler.InferenceSession(proto.SerializeToString(), eus=2) as session:
        for height, width in [*sizes, (16, 8), (24, 16), (8, 24)]:
            x = image(1, height, width)
            (found,), (expected,) = session.run(None, {name: x}), reference.run(None, {name: x})
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, 1e-3, 1e-4)
        ranges = [model.inputs[0] for model in session.programs if any(model.inputs[0].extents)]
        assert ranges, session.notes
        assert len(session.programs) < 6
