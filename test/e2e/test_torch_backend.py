"""torch.compile(model, backend="rcompiler"), where PyTorch and its exporter are installed."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra [torch] is not installed")
pytest.importorskip("onnxscript", reason="the extra [torch] is not installed")

from rcompiler import torch_backend  # noqa: E402
from rcompiler.errors import EagerGraphWarning, IgnoredOptionWarning  # noqa: E402

OPTIONS = {"eus": 1}


@pytest.fixture(autouse=True)
def _apart(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("RC_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", EagerGraphWarning)
        yield


@pytest.fixture
def compiled(monkeypatch):
    """What was compiled, in order."""
    found = []

    class Watched(torch_backend._Program):
        def __init__(self, *args):
            super().__init__(*args)
            found.append(self)

    monkeypatch.setattr(torch_backend, "_Program", Watched)
    return found


def network():
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ).eval()


def close(actual, expected):
    assert actual.dtype == expected.dtype and actual.stride() == expected.stride()
    np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)


def test_it_is_found_by_its_name_and_computes_the_same(compiled):
    model, x = network(), torch.randn(5, 4)
    ours = torch.compile(model, backend="rcompiler", options=OPTIONS)
    for _ in range(2):
        close(ours(x), model(x))
    [program] = compiled
    assert len(program._model.inputs) == 1 and program._model.eus == 1  # parameters are constants


def test_shapes_may_change(compiled):
    model = network()
    ours = torch.compile(model, backend="rcompiler", options=OPTIONS)
    for rows in (2, 3, 4, 3):
        x = torch.randn(rows, 4)
        close(ours(x), model(x))
    assert len(compiled) == 3


def test_parameters_that_change_are_compiled_again(compiled):
    model, x = network(), torch.randn(5, 4)
    ours = torch.compile(model, backend="rcompiler", options=OPTIONS)
    close(ours(x), model(x))
    model[0].weight.mul_(2)
    close(ours(x), model(x))
    model[3].bias.data = torch.ones(3)
    close(ours(x), model(x))
    assert len(compiled) == 3


def test_results_that_are_views_inputs_and_written_to(compiled):
    def function(x, y):
        z = (x @ y).t()
        x.add_(1)
        return z, z[0], y, x.sum(), 7

    ours = torch.compile(function, backend="rcompiler", options=OPTIONS)
    given, expected = ([torch.ones(3, 3), torch.eye(3) * 2] for _ in range(2))
    found, wanted = ours(*given), function(*expected)
    for actual, right in zip(found[:4], wanted[:4], strict=True):
        close(actual, right)
    assert found[4] == 7 and found[2] is given[1] and compiled
    close(given[0], expected[0])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int32])
def test_types(compiled, dtype):
    x = torch.arange(-3, 3).to(dtype).reshape(2, 3)
    ours = torch.compile(lambda x: (x + x).t().relu(), backend="rcompiler", options=OPTIONS)
    made = ours(x)
    assert made.dtype == dtype and compiled
    assert made.tolist() == (x + x).t().relu().tolist()


def test_memory_is_not_copied(compiled):
    x = torch.ones(4)
    assert torch_backend._to_numpy(x).ctypes.data == x.data_ptr()
    array = np.ones(4, np.float32)
    assert torch_backend._to_torch(array).data_ptr() == array.ctypes.data


def test_a_graph_that_is_refused_runs_as_before_and_says_why():
    def function(x):
        return torch.fft.fft(x).real + torch.polygamma(2, x)

    ours, x = torch.compile(function, backend="rcompiler"), torch.rand(4) + 1
    with pytest.warns(EagerGraphWarning, match="is not compiled and runs operator by operator: "):
        close(ours(x), function(x))
    close(ours(x), function(x))  # and says it once


def test_complex_numbers_are_refused_with_the_reason():
    ours = torch.compile(lambda x: x * 2, backend="rcompiler")
    with pytest.warns(EagerGraphWarning, match="there is no code for torch.complex64"):
        assert ours(torch.ones(2, dtype=torch.complex64)).tolist() == [2, 2]


def test_training_is_refused():
    ours = torch.compile(network(), backend="rcompiler")
    with torch.enable_grad(), pytest.raises(Exception, match="only inference is compiled"):
        ours(torch.randn(5, 4))


def test_without_gradients_grad_mode_does_no_harm(compiled):
    model = network().requires_grad_(False)
    ours, x = torch.compile(model, backend="rcompiler", options=OPTIONS), torch.randn(5, 4)
    with torch.enable_grad():
        close(ours(x), model(x))
    with torch.inference_mode():
        close(ours(x), model(x))
    assert compiled


def test_a_mode_is_noted():
    ours = torch.compile(lambda x: x + 1, backend="rcompiler", mode="max-autotune")
    with pytest.warns(IgnoredOptionWarning, match="max-autotune"):
        assert ours(torch.ones(2)).tolist() == [2, 2]


@pytest.mark.parametrize("options", [{}, {"norm_first": True, "activation": "gelu"}])
def test_layers_of_a_transformer(compiled, options):
    """By default one operator each, which no exporter knows."""
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, **options).eval()
    model = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    ours, x = torch.compile(model, backend="rcompiler", options=OPTIONS), torch.randn(2, 5, 16)
    close(ours(x), model(x))
    assert compiled
