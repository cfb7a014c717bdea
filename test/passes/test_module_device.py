"""The device that a module is for: what the text says is what passes read, or it is refused."""

from dataclasses import replace

import pytest
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.device.cpu import cpu_device
from rcompiler.device.model import MeasurementOrigin, Recall
from rcompiler.device.record import builtin_device, builtin_names
from rcompiler.errors import DeviceError
from rcompiler.passes.ir.clone import copy_module
from rcompiler.passes.ir.module_device import Attached, attached, device_of
from rcompiler.passes.vdevice_attach_device import VdeviceAttachDevice

DEVICE = cpu_device("v3", 2)


def printed(device, **more):
    with dialects.load(ir.Context()), ir.Location.unknown():
        module = ir.Module.parse("")
        VdeviceAttachDevice(device, **more).run(module.operation)
        return str(module)


def read(text):
    with dialects.load(ir.Context()):
        return attached(ir.Module.parse(text).operation)


@pytest.mark.parametrize("name", builtin_names())
def test_every_record_comes_back(name):
    device = builtin_device(name)
    facts = replace(device, measurement=None, recall=None)
    assert read(printed(device, precision="f16", target="x")) == Attached(facts, "f16", "x")


def test_how_it_was_measured_and_fitted_is_not_in_the_text():
    recall = Recall(1 << 20, 1.0, 1.0, 0.1, "2026-01-01", 1)
    measurement = MeasurementOrigin("here", "2026-01-01", 1, ("peak f32",))
    assert printed(replace(DEVICE, measurement=measurement, recall=recall)) == printed(DEVICE)


def test_whole_numbers_print_as_the_numbers_that_they_are():
    costs = replace(DEVICE.costs, task_ns=50)
    assert printed(replace(DEVICE, costs=costs)) == printed(DEVICE)


def test_the_target_is_what_the_device_is_where_nobody_says():
    assert read(printed(DEVICE)).target == "cpu:v3"
    assert read(printed(builtin_device("h200"))).target == "cuda:sm_90a"


def test_a_copy_is_for_the_same_device():
    with dialects.load(ir.Context()), ir.Location.unknown():
        module = ir.Module.parse(printed(DEVICE))
        assert device_of(copy_module(module).operation) == DEVICE


GOOD = printed(DEVICE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"does not say which device .*run vdevice-attach-device\{device=...\} first"),
        (GOOD.replace(', target = "cpu:v3"', ""), "not a dictionary of figures, precision, target"),
        ("module attributes {vdevice.device = 3} {}", "write it with vdevice-attach-device"),
        (GOOD.replace('precision = "f32"', 'precision = "f8"'), "precision 'f8' is none of f32"),
        (GOOD.replace('target = "cpu:v3"', 'target = ""'), "target '' is no name of a target"),
        (
            GOOD.replace("eus = 2 : i64, ", ""),
            "figures: the field 'eus' is missing",
        ),
        (GOOD.replace("eus = 2", "eus = 0"), "vdevice.device: figures: .*eus"),
        (GOOD.replace("eus = 2", "eyes = 2"), "figures: no field 'eyes'"),
    ],
)
def test_what_is_no_device_is_refused(text, message):
    assert text != GOOD
    with pytest.raises(DeviceError, match=message):
        read(text)
