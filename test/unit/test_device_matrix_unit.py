"""Matrix units of devices: by the data sheets, and what records may say of them."""

import json
from dataclasses import replace

import pytest

from rcompiler.device.cpu import cpu_device
from rcompiler.device.gpu import gpu_device
from rcompiler.device.record import from_json, to_json
from rcompiler.errors import DeviceError


def test_matrix_units_by_hand():
    """H200: 989 TFLOPS of 132 SMs; wgmma of f16 64 x 8n x 16, mma.sync of tf32 16 x 8 x 8, of bytes
    16 x 8 x 32. A100: 624 TOPS of 108 SMs for bytes.
    """
    compute = gpu_device("h200").compute
    wgmma, mma = compute.matrix_unit("wgmma", "f16"), compute.matrix_unit("mma", "tf32")
    shape = (wgmma.threads, wgmma.rows, wgmma.columns, wgmma.most_columns, wgmma.depth, wgmma.item)
    assert shape == (128, 64, 8, 256, 16, 2)
    shape = (mma.threads, mma.rows, mma.columns, mma.most_columns, mma.depth, mma.item)
    assert shape == (32, 16, 8, 8, 8, 4)
    assert compute.matrix_rate(wgmma) == pytest.approx(0.8 * 989_000 / 132)
    assert compute.matrix_rate(mma) == pytest.approx(0.5 * 494_000 / 132)
    of_bytes = compute.matrix_unit("mma", "i8")
    assert of_bytes == replace(mma, element="i8", depth=32, item=1)
    assert compute.matrix_rate(of_bytes) == pytest.approx(0.5 * 1_979_000 / 132)
    of_bytes = compute.matrix_unit("wgmma", "i8")
    assert of_bytes == replace(wgmma, element="i8", columns=16, depth=32, item=1)
    assert compute.matrix_rate(of_bytes) == pytest.approx(0.8 * 1_979_000 / 132)
    a100 = gpu_device("a100").compute
    assert a100.matrix_rate(a100.matrix_unit("mma", "i8")) == pytest.approx(0.8 * 624_000 / 108)
    assert a100.matrix_unit("mma", "bf16").depth == 16
    assert compute.matrix_unit("wgmma", "tf32") is None
    assert gpu_device("a100").compute.matrix_unit("wgmma", "f16") is None
    assert gpu_device("v100").compute.matrix_units == ()


def test_records_of_before_matrix_units_were_described():
    record = json.loads(to_json(gpu_device("a100")))
    assert len(record["compute"].pop("matrix_units")) == 4
    compute = replace(gpu_device("a100").compute, matrix_units=())
    assert from_json(json.dumps(record)) == replace(gpu_device("a100"), compute=compute)
    assert "matrix_units" not in json.loads(to_json(cpu_device("v3")))["compute"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda u: u[0].pop("depth"), r"matrix_units\[0\]: the field 'depth' is missing"),
        (lambda u: u[1].update(rows=0), r"matrix_units\[1\]: mma of bf16: rows is 0"),
        (lambda u: u[1].update(share=1.5), "mma of bf16: share is 1.5; no loop is faster"),
        (lambda u: u[1].update(most_columns=12), "most_columns is 12; it must be a multiple of"),
        (lambda u: u[0].update(instruction="dot"), "instruction 'dot'; it is one of"),
        (lambda u: u[0].update(element="f8"), "no peak in `matrix` for mma of f8"),
        (lambda u: u.append(dict(u[0])), "describe each of them once"),
        (lambda u: u.append(16), r"matrix_units\[4\]: 16 where an object belongs"),
    ],
)
def test_odd_matrix_units_are_refused(change, message):
    record = json.loads(to_json(gpu_device("a100")))
    change(record["compute"]["matrix_units"])
    with pytest.raises(DeviceError, match=message):
        from_json(json.dumps(record))
