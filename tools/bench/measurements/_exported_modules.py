"""Networks of torchvision, timm and transformers with random weights, small, and what they are
exported with.

Needs these packages. Equal versions of them give equal weights: each is made after the same seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

from measurements._exportable import SEED, ByName, Detector, Exportable, First, Outputs
from measurements._torchvision import spread, torchvision

_BATCH = {0: "batch"}
_TEXT = {0: "batch", 1: "sequence"}
_TOKENS = 99  # words of a vocabulary


Make = Callable[[], Exportable]


def build(name: str) -> Exportable:
    """The network of that name, made after the seed.

    Raises KeyError for an unknown name, ImportError where its package is not installed.
    """
    import torch

    with suppress(ImportError):
        torchvision()  # before timm and transformers, which import it as it is
    torch.manual_seed(SEED)
    made = MODULES[name]()
    made.module.eval()
    for parameter in made.module.parameters():
        parameter.requires_grad_(False)
    return made


def _image(module: Any, size: int, *, batch: int = 2, channels: int = 3) -> Exportable:
    import torch

    generator = torch.Generator().manual_seed(SEED)
    x = torch.rand((batch, channels, size, size), generator=generator)
    return Exportable(Outputs.of(module), {"x": x}, {"x": _BATCH})


def _vision(name: str, size: int = 64, module: str = "", **options: Any) -> Exportable:
    """Of torchvision, by the name of its function."""
    models = torchvision("models" + (f".{module}" if module else ""))
    return _image(getattr(models, name)(weights=None, **options), size)


def _segmentation(name: str) -> Exportable:
    return _vision(name, 64, "segmentation", weights_backbone=None)


def _detection(name: str, size: int, **options: Any) -> Exportable:
    """One image; boxes, labels, scores."""
    models = torchvision("models.detection")
    made = getattr(models, name)(weights=None, weights_backbone=None, **options)
    inputs = _image(made, size, batch=1).inputs
    spread(made, _image(made, size, batch=4).inputs["x"])
    return Exportable(Detector.of(made), inputs, detections=True)


def _video() -> Exportable:
    import torch

    models = torchvision("models.video")
    x = torch.rand((1, 3, 8, 32, 32), generator=torch.Generator().manual_seed(SEED))
    return Exportable(Outputs.of(models.r3d_18(weights=None)), {"x": x}, {"x": _BATCH})


def _flow() -> Exportable:
    import torch

    models = torchvision("models.optical_flow")
    generator = torch.Generator().manual_seed(SEED)
    images = {name: torch.rand((1, 3, 128, 128), generator=generator) for name in ("a", "b")}
    return Exportable(Outputs.of(models.raft_small(weights=None), num_flow_updates=2), images)


def _timm(name: str, size: int = 64, **options: Any) -> Exportable:
    """Of timm, by its name there."""
    timm = import_module("timm")
    return _image(timm.create_model(name, pretrained=False, **options), size)


def _recurrent(kind: str) -> Exportable:
    """Two layers over a sequence."""
    import torch

    module = getattr(torch.nn, kind)(16, 32, num_layers=2, batch_first=True)
    x = torch.rand((2, 8, 16), generator=torch.Generator().manual_seed(SEED))
    return Exportable(First.of(module), {"x": x}, {"x": _TEXT})


def _transformer() -> Exportable:
    import torch

    torch.backends.mha.set_fastpath_enabled(False)  # its one operator has no form in ONNX
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    x = torch.rand((2, 8, 32), generator=torch.Generator().manual_seed(SEED))
    return Exportable(Outputs.of(torch.nn.TransformerEncoder(layer, 2)), {"x": x}, {"x": _TEXT})


_SMALL = {
    "vocab_size": _TOKENS,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}


def _words(length: int = 8) -> Any:
    import torch

    generator = torch.Generator().manual_seed(SEED)
    return torch.randint(3, _TOKENS, (2, length), generator=generator)


def _named(config: str, model: str, sizes: Mapping[str, Any]) -> Any:
    """A model of transformers from its configuration."""
    transformers = import_module("transformers")
    settings = getattr(transformers, config)(**sizes)
    return getattr(transformers, model).from_config(settings, attn_implementation="sdpa") if (
        model.startswith("Auto")
    ) else getattr(transformers, model)(settings)  # fmt: skip


def _encoder(config: str, model: str, mask: bool = True, **sizes: Any) -> Exportable:
    """A network that reads words, all at once."""
    import torch

    words = _words()
    inputs = {"input_ids": words}
    if mask:
        inputs["attention_mask"] = torch.ones_like(words)
    module = ByName.of(_named(config, model, {**_SMALL, **sizes}), tuple(inputs))
    return Exportable(module, inputs, dict.fromkeys(inputs, _TEXT))


def _decoder(config: str, model: str, mask: bool = True, **sizes: Any) -> Exportable:
    """The same of one that writes words: logits, without a cache."""
    found = _encoder(config, model, mask, **sizes)
    found.module.fixed["use_cache"] = False
    return found


def _pair(config: str, model: str, sizes: Mapping[str, Any]) -> Exportable:
    """Words in, and the first words out."""
    inputs = {"input_ids": _words(), "decoder_input_ids": _words(4)}
    module = ByName.of(_named(config, model, sizes), tuple(inputs), use_cache=False)
    dynamic = {"input_ids": _TEXT, "decoder_input_ids": {0: "batch", 1: "written"}}
    return Exportable(module, inputs, dynamic)


def _whisper() -> Exportable:
    import torch

    sizes = {
        "vocab_size": _TOKENS, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 128,
        "decoder_ffn_dim": 128, "num_mel_bins": 16, "max_source_positions": 32,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
    }  # fmt: skip
    sound = torch.rand((2, 16, 64), generator=torch.Generator().manual_seed(SEED))
    inputs = {"input_features": sound, "decoder_input_ids": _words(4)}
    model = _named("WhisperConfig", "WhisperForConditionalGeneration", sizes)
    module = ByName.of(model, tuple(inputs), use_cache=False)
    return Exportable(
        module, inputs, {"input_features": _BATCH, "decoder_input_ids": {**_BATCH, 1: "written"}}
    )


def _sound() -> Exportable:
    import torch

    sizes = {
        **_SMALL, "conv_dim": (32, 32), "conv_stride": (5, 2), "conv_kernel": (10, 3),
        "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 4,
    }  # fmt: skip
    sound = torch.rand((2, 400), generator=torch.Generator().manual_seed(SEED))
    module = ByName.of(_named("Wav2Vec2Config", "Wav2Vec2ForCTC", sizes), ("input_values",))
    dynamic = {"input_values": {**_BATCH, 1: "samples"}}
    return Exportable(module, {"input_values": sound}, dynamic, {"samples": 200})


def _pixels(config: str, model: str, size: int = 32, **sizes: Any) -> Exportable:
    """A network of transformers that reads images."""
    images = _image(None, size).inputs["x"]
    module = ByName.of(_named(config, model, sizes), ("pixel_values",))
    return Exportable(module, {"pixel_values": images}, {"pixel_values": _BATCH})


def _clip() -> Exportable:
    text = {**_SMALL, "max_position_embeddings": 16, "eos_token_id": 2}
    image = {**_SMALL, "image_size": 32, "patch_size": 8}
    image.pop("vocab_size")
    sizes = {"text_config": text, "vision_config": image, "projection_dim": 32}
    inputs = {"input_ids": _words(), "pixel_values": _image(None, 32).inputs["x"]}
    module = ByName.of(_named("CLIPConfig", "CLIPModel", sizes), tuple(inputs))
    return Exportable(
        module, inputs, {"input_ids": {0: "texts", 1: "sequence"}, "pixel_values": {0: "images"}}
    )


_BERT_LIKE: dict[str, Any] = {"max_position_embeddings": 32, "type_vocab_size": 2}
_ROPE: dict[str, Any] = {"num_key_value_heads": 2, "max_position_embeddings": 32, "pad_token_id": 0}

MODULES: Mapping[str, Make] = {
    # torchvision
    "alexnet": partial(_vision, "alexnet"),
    "squeezenet1_1": partial(_vision, "squeezenet1_1"),
    "resnet18": partial(_vision, "resnet18"),
    "densenet121": partial(_vision, "densenet121", 32),
    "mobilenet_v3_small": partial(_vision, "mobilenet_v3_small"),
    "shufflenet_v2_x0_5": partial(_vision, "shufflenet_v2_x0_5"),
    "mnasnet0_5": partial(_vision, "mnasnet0_5"),
    "googlenet": partial(_vision, "googlenet", aux_logits=False, init_weights=False),
    "inception_v3": partial(_vision, "inception_v3", 80, aux_logits=False, init_weights=False),
    "efficientnet_b0": partial(_vision, "efficientnet_b0"),
    "regnet_y_400mf": partial(_vision, "regnet_y_400mf"),
    "convnext_tiny": partial(_vision, "convnext_tiny", 32),
    "swin_t": partial(_vision, "swin_t", 64),
    "swin_v2_t": partial(_vision, "swin_v2_t", 64),
    "fcn_resnet50": partial(_segmentation, "fcn_resnet50"),
    "deeplabv3_mobilenet_v3_large": partial(_segmentation, "deeplabv3_mobilenet_v3_large"),
    "lraspp_mobilenet_v3_large": partial(_segmentation, "lraspp_mobilenet_v3_large"),
    "ssdlite320_mobilenet_v3_large": partial(_detection, "ssdlite320_mobilenet_v3_large", 320),
    "fasterrcnn_mobilenet_v3_large_320_fpn": partial(
        _detection, "fasterrcnn_mobilenet_v3_large_320_fpn", 320
    ),
    "retinanet_resnet50_fpn": partial(
        _detection, "retinanet_resnet50_fpn", 128, min_size=128, max_size=128
    ),
    "r3d_18": _video,
    "raft_small": _flow,
    # timm
    "timm_vit_tiny": partial(_timm, "vit_tiny_patch16_224", img_size=64, depth=2),
    "timm_resnet10t": partial(_timm, "resnet10t"),
    "timm_convnext_atto": partial(_timm, "convnext_atto"),
    "timm_mobilevit_xxs": partial(_timm, "mobilevit_xxs"),
    "timm_mixer": partial(_timm, "mixer_s32_224", img_size=64),
    "timm_poolformer_s12": partial(_timm, "poolformer_s12"),
    "timm_ghostnet_050": partial(_timm, "ghostnet_050"),
    "timm_edgenext_xx_small": partial(_timm, "edgenext_xx_small"),
    "timm_xcit_nano": partial(_timm, "xcit_nano_12_p16_224", img_size=64, depth=2),
    "timm_levit_128s": partial(_timm, "levit_128s", 224),
    "timm_fastvit_t8": partial(_timm, "fastvit_t8"),
    "timm_pvt_v2_b0": partial(_timm, "pvt_v2_b0"),
    "timm_maxvit_pico": partial(_timm, "maxvit_rmlp_pico_rw_256", 64, img_size=64),
    # torch.nn
    "lstm": partial(_recurrent, "LSTM"),
    "gru": partial(_recurrent, "GRU"),
    "transformer_encoder": _transformer,
    # transformers
    "bert": partial(_encoder, "BertConfig", "BertModel", **_BERT_LIKE),
    "roberta": partial(
        _encoder, "RobertaConfig", "RobertaModel", pad_token_id=1, **_BERT_LIKE
    ),
    "distilbert": partial(
        _encoder, "DistilBertConfig", "DistilBertModel",
        dim=64, n_layers=2, n_heads=4, hidden_dim=128, max_position_embeddings=32,
    ),
    "albert": partial(
        _encoder, "AlbertConfig", "AlbertModel", embedding_size=32, **_BERT_LIKE
    ),
    "deberta_v2": partial(
        _encoder, "DebertaV2Config", "DebertaV2Model", relative_attention=True,
        pos_att_type=["p2c", "c2p"], position_buckets=8, **_BERT_LIKE,
    ),
    "mpnet": partial(_encoder, "MPNetConfig", "MPNetModel", max_position_embeddings=32),
    "gpt2": partial(
        _decoder, "GPT2Config", "GPT2LMHeadModel", n_embd=64, n_layer=2, n_head=4, n_positions=32
    ),
    "gpt_neox": partial(
        _decoder, "GPTNeoXConfig", "GPTNeoXForCausalLM", max_position_embeddings=32
    ),
    "opt": partial(
        _decoder, "OPTConfig", "OPTForCausalLM", ffn_dim=128, word_embed_proj_dim=64,
        max_position_embeddings=32,
    ),
    "bloom": partial(_decoder, "BloomConfig", "BloomForCausalLM", n_layer=2, n_head=4),
    "llama": partial(_decoder, "LlamaConfig", "LlamaForCausalLM", **_ROPE),
    "mistral": partial(_decoder, "MistralConfig", "MistralForCausalLM", sliding_window=4, **_ROPE),
    "qwen2": partial(_decoder, "Qwen2Config", "Qwen2ForCausalLM", **_ROPE),
    "qwen3": partial(_decoder, "Qwen3Config", "Qwen3ForCausalLM", head_dim=16, **_ROPE),
    "gemma": partial(_decoder, "GemmaConfig", "GemmaForCausalLM", head_dim=16, **_ROPE),
    "phi": partial(_decoder, "PhiConfig", "PhiForCausalLM", **_ROPE),
    "mamba": partial(_decoder, "MambaConfig", "MambaForCausalLM", mask=False, state_size=8),
    "t5": partial(
        _pair, "T5Config", "T5ForConditionalGeneration",
        {"vocab_size": _TOKENS, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2,
         "num_heads": 4, "decoder_start_token_id": 0},
    ),
    "bart": partial(
        _pair, "BartConfig", "BartForConditionalGeneration",
        {"vocab_size": _TOKENS, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2,
         "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 128,
         "decoder_ffn_dim": 128, "max_position_embeddings": 32},
    ),
    "whisper": _whisper,
    "wav2vec2": _sound,
    "vit": partial(
        _pixels, "ViTConfig", "ViTForImageClassification", hidden_size=64, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=128, image_size=32, patch_size=8,
    ),
    "segformer": partial(
        _pixels, "SegformerConfig", "SegformerForSemanticSegmentation", size=64,
        hidden_sizes=[16, 32, 64, 64], decoder_hidden_size=32, depths=[1, 1, 1, 1],
    ),
    "dinov2": partial(
        _pixels, "Dinov2Config", "Dinov2Model", hidden_size=64, num_hidden_layers=2,
        num_attention_heads=4, image_size=32, patch_size=8,
    ),
    "clip": _clip,
}  # fmt: skip
