"""Write the networks that people deploy as ONNX files, in f32 and quantised, to measure them.

    python tools/bench export_networks build/networks                  # all, f32
    python tools/bench export_networks build/networks --qdq            # and in 8 bits
    python tools/bench export_networks build/networks --only='swin|bert'

Networks of timm, torchvision and transformers at the sizes that people use, with random weights,
batch 1, exported by torch.onnx.export(dynamo=True); quantised as `rcompiler.tools.quantise` does it
(QDQ, by channel, activations of u8, weights of s8). Files that are there are left as they are. What
an exporter refuses is named, and is the exit code 1. Needs torch, torchvision, timm, transformers
and onnxscript.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import onnx

from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, pattern, report
from rcompiler.tools.quantise import calibrated

from ._exportable import SEED, ByName, First, Outputs
from ._torchvision import torchvision

_Made = tuple[Any, Mapping[str, Any]]  # a module, and tensors by the names of its inputs


def _pixels(size: int) -> dict[str, Any]:
    import torch

    return {"x": torch.rand((1, 3, size, size), generator=torch.Generator().manual_seed(SEED))}


def _words(length: int) -> Any:
    import torch

    return torch.randint(3, 1000, (1, length), generator=torch.Generator().manual_seed(SEED))


def _timm(name: str, size: int = 224) -> _Made:
    module = import_module("timm").create_model(name, pretrained=False)
    return Outputs.of(module), _pixels(size)


def _torchvision(name: str, size: int = 224) -> _Made:
    return Outputs.of(getattr(torchvision("models"), name)(weights=None)), _pixels(size)


def _segmentation(name: str, size: int = 224) -> _Made:
    models = torchvision("models.segmentation")
    return Outputs.of(getattr(models, name)(weights=None, weights_backbone=None)), _pixels(size)


def _transformer(
    config: str, model: str, inputs: Mapping[str, Any], sizes: Mapping[str, Any], **fixed: Any
) -> _Made:
    transformers = import_module("transformers")
    module = getattr(transformers, model)(getattr(transformers, config)(**sizes))
    return ByName.of(module, tuple(inputs), **fixed), inputs


def _encoder(config: str, model: str, **sizes: Any) -> _Made:
    """128 words at once."""
    import torch

    words = _words(128)
    inputs = {"input_ids": words, "attention_mask": torch.ones_like(words)}
    return _transformer(config, model, inputs, sizes)


def _decoder(config: str, model: str, **sizes: Any) -> _Made:
    return _transformer(config, model, {"input_ids": _words(64)}, sizes, use_cache=False)


def _vision(config: str, model: str, size: int, **sizes: Any) -> _Made:
    return _transformer(config, model, {"pixel_values": _pixels(size)["x"]}, sizes)


def _sound() -> _Made:
    """One second; wav2vec2-base with four of its twelve layers."""
    import torch

    sound = torch.rand((1, 16000), generator=torch.Generator().manual_seed(SEED))
    sizes = {"num_hidden_layers": 4}
    return _transformer("Wav2Vec2Config", "Wav2Vec2ForCTC", {"input_values": sound}, sizes)


def _recogniser() -> _Made:
    """A text recogniser's two layers of LSTM in both directions, over 64 columns of a line."""
    import torch

    module = torch.nn.LSTM(256, 256, num_layers=2, bidirectional=True, batch_first=True)
    x = torch.rand((1, 64, 256), generator=torch.Generator().manual_seed(SEED))
    return First.of(module), {"x": x}


_LLAMA = {
    "vocab_size": 8000, "hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 6,
    "num_attention_heads": 8, "num_key_value_heads": 4,
}  # fmt: skip

NETWORKS: Mapping[str, Callable[[], _Made]] = {
    **{
        name: partial(_torchvision, name)
        for name in (
            *("alexnet", "vgg16", "squeezenet1_1", "resnet18", "resnet50", "densenet121"),
            *("mobilenet_v2", "mobilenet_v3_large", "shufflenet_v2_x1_0", "mnasnet1_0"),
            *("googlenet", "regnet_y_400mf", "efficientnet_b0", "convnext_tiny", "swin_t"),
            "vit_b_16",
        )
    },
    "inception_v3": partial(_torchvision, "inception_v3", 299),
    "deeplabv3_mobilenet": partial(_segmentation, "deeplabv3_mobilenet_v3_large"),
    **{
        name: partial(_timm, name)
        for name in (
            *("res2net50_26w_4s", "regnety_016", "resnext50_32x4d", "levit_256", "tiny_vit_5m_224"),
            *("poolformer_s12", "ghostnet_100", "mixer_s32_224", "deit_tiny_patch16_224"),
            "xcit_nano_12_p16_224",
        )
    },
    "mobilevit_s": partial(_timm, "mobilevit_s", 256),
    "nasnetalarge": partial(_timm, "nasnetalarge", 331),
    "bert_base": partial(_encoder, "BertConfig", "BertModel"),
    "distilbert": partial(_encoder, "DistilBertConfig", "DistilBertModel"),
    "gpt2": partial(_decoder, "GPT2Config", "GPT2LMHeadModel"),
    "llama_6": partial(_decoder, "LlamaConfig", "LlamaForCausalLM", **_LLAMA),
    "segformer_b0": partial(
        _vision, "SegformerConfig", "SegformerForSemanticSegmentation", 256, num_labels=150
    ),
    "wav2vec2": _sound,
    "recogniser": _recogniser,
}


def _written(name: str, folder: Path, qdq: bool) -> None:
    """The files of one network; those that are there stay."""
    path, short = folder / f"{name}.onnx", folder / f"{name}.qdq.onnx"
    if not path.exists():
        doing(f"{name}: export")
        _write(path, _exported(name))
    if qdq and not short.exists():
        doing(f"{name}: quantise")
        _write(short, calibrated(onnx.load(path)))


def _exported(name: str) -> onnx.ModelProto:
    import torch

    torch.manual_seed(SEED)
    module, inputs = NETWORKS[name]()
    module.eval()
    with torch.no_grad():
        program = torch.onnx.export(
            module, tuple(inputs.values()), input_names=list(inputs), dynamo=True, verbose=False
        )
    assert program is not None
    made: onnx.ModelProto = program.model_proto
    return made


def _write(path: Path, model: onnx.ModelProto) -> None:
    """Whole, or not at all."""
    part = path.with_suffix(".part")
    part.write_bytes(model.SerializeToString())
    os.replace(part, path)


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a network could not be exported or quantised."""
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in filter(options.only.search, NETWORKS):
        try:
            _written(name, folder, options.qdq)
        except Exception as error:  # whatever exporters and quantisers raise
            line = next(filter(str.strip, str(error).splitlines()), "")
            failed.append(f"{name}: {type(error).__name__}: {line.strip()}")
    return report(f"networks in {folder}", failed)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="where files are written")
    parser.add_argument("--qdq", action="store_true", help="the same in 8 bits, too")
    parser.add_argument(
        "--only", type=pattern, default=pattern(""), metavar="REGEX", help="networks by name"
    )


main = Command(__name__, __doc__, _options, _run)
