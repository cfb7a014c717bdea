"""artifact_sizes: files of networks are no larger than their models, but for code."""

import re
from dataclasses import replace

import pytest
from measurements import artifact_sizes


def test_files_keep_what_the_models_have(capsys):
    assert artifact_sizes.main(["two_branch", "unet", "squeezenet1_1"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    found = {fields[0]: fields[1:] for fields in (re.split(r"\s+", row) for row in rows)}
    assert header.startswith("network") and set(found) == {"two_branch", "unet", "squeezenet1_1"}
    for name in ("unet", "squeezenet1_1"):
        model, weights, kept, *_ = map(float, found[name][:4])
        assert kept <= artifact_sizes.MOST * model < weights, name
        assert int(found[name][5]) > 3


def test_an_unknown_network_is_an_error(capsys):
    assert artifact_sizes.main(["resnet51"]) == 1
    assert "no model 'resnet51'" in capsys.readouterr().err


def test_more_than_the_model_is_too_large():
    found = artifact_sizes.Sizes(10_000_000, 40_000_000, 11_250_001, 11_300_000, 0)
    assert found.too_large and not replace(found, kept=11_250_000, file=40_000_000).too_large


@pytest.mark.slow
@pytest.mark.parametrize("network", ["gpt2_small", "resnet50", "resnext29_16x64d"])
@pytest.mark.parametrize("target", ["cpu", "cuda:h200"])
def test_files_of_large_networks_are_no_larger_than_their_models(network, target):
    found = artifact_sizes.sizes(network, target)
    assert found.file <= artifact_sizes.MOST * found.model, found
