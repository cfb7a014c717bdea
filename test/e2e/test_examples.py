"""What `examples/` shows works: the service answers, its image is made of what there is."""

import io
import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

import rcompiler
from rcompiler.tools import rc_compile

EXAMPLES = Path(__file__).parents[2] / "examples"
_WAIT_S = 60


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """The address of a service of a small model, which is stopped at the end."""
    proto = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]> g (float[2,3] x, int64[2] rows) => '
        "(float[2,3] y) { a = Gather(x, rows) y = Add(a, x) }"
    )
    path = tmp_path_factory.mktemp("service") / "model.rcx"
    rcompiler.compile_onnx(proto, cache=False).save(path)
    command = [sys.executable, EXAMPLES / "web_service.py", path, "--port=0", "--instances=2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGTERM)
        assert process.wait(_WAIT_S) == 0


def _answer(request):
    """Status and body."""
    try:
        with urllib.request.urlopen(request, timeout=_WAIT_S) as found:
            return found.status, found.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def _npz(**arrays):
    made = io.BytesIO()
    np.savez(made, **arrays)
    return made.getvalue()


X, ROWS = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 0])


def test_a_service_answers(service):
    status, body = _answer(f"{service}/health")
    assert status == 200 and [each["name"] for each in json.loads(body)["inputs"]] == ["x", "rows"]
    status, body = _answer(urllib.request.Request(f"{service}/run", _npz(x=X, rows=ROWS)))
    assert status == 200
    np.testing.assert_array_equal(np.load(io.BytesIO(body))["y"], X[ROWS] + X)


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("run", b"no file", 400, "the body is no .npz file"),
        ("run", _npz(x=np.array([{}], object), rows=ROWS), 400, "the body is no .npz file"),
        ("run", _npz(x=X), 400, "input 'rows' is missing"),
        ("run", _npz(x=X.T, rows=ROWS), 400, "input 'x' has shape [3, 2]"),
        ("run", _npz(x=X, rows=ROWS + 9), 400, "input 'rows' has the index 10"),
        ("walk", b"", 404, "there are /health and /run"),
    ],
)
def test_bad_requests_are_answered_and_the_next_one_is_served(service, path, body, status, says):
    found, text = _answer(urllib.request.Request(f"{service}/{path}", body))
    assert found == status and says in json.loads(text)["error"]
    assert _answer(urllib.request.Request(f"{service}/run", _npz(x=X, rows=ROWS)))[0] == 200


def test_too_large_requests_are_refused_before_they_are_read(service):
    request = urllib.request.Request(f"{service}/run", b"", {"Content-Length": str(1 << 40)})
    assert _answer(request)[0] == 413


def test_the_image_is_made_of_files_and_commands_that_there_are(tmp_path, monkeypatch):
    """Its lines that compile are run; docker and the installation of packages are not."""
    text = (EXAMPLES / "Dockerfile").read_text()
    for source in re.findall(r"^COPY (?!--from|\$)(\S+) ", text, re.M):
        assert (EXAMPLES.parent / source).exists(), source
    [options] = re.findall(r"^RUN rc-compile (.*)$", text, re.M)
    assert re.findall(r"^RUN python -m (\S+)", text, re.M) == ["rcompiler.tools.runtime_wheel"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.onnx").write_bytes(
        parser.parse_model(
            '<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y) { y = Exp(x) }'
        ).SerializeToString()
    )
    assert rc_compile.main(options.split()) == 0
    assert rcompiler.load("model.rcx")(np.zeros(4, np.float32))[0].tolist() == [1, 1, 1, 1]


def test_a_network_of_pytorch():
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, EXAMPLES / "torch_compile.py"], timeout=600, check=False)
    assert done.returncode == 0
