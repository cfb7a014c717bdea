"""The built-in networks, small enough for a test to compile and run them."""

from rcompiler.support.random_inputs import random_inputs

# Options that keep the structure and make a run take milliseconds.
SMALL = {
    "alexnet": {
        "image": 67,
        "layers": ((8, 11), (), (16, 5), (), (16, 3)),
        "hidden": (32,),
        "classes": 10,
    },
    "bert_base": {"sequence": 8, "layers": 2, "hidden": 32, "heads": 4, "vocabulary": 64},
    "bert_block": {"sequence": 8, "hidden": 32, "heads": 4},
    "convnet_training": {"batch": 4, "image": 8, "channels": (4, 8)},
    "deepspeech2": {"frames": 12, "frequencies": 16, "channels": 4, "hidden": 8, "layers": 2},
    "deepspeech2_gru": {"frames": 9, "frequencies": 16, "channels": 4, "hidden": 8, "layers": 2},
    "densenet121": {"image": 32, "growth": 4, "blocks": (2, 2), "classes": 10},
    "efficientnet_b0": {
        "image": 32,
        "stages": ((3, 1, 8, 1, 1), (5, 6, 12, 2, 2)),
        "last": 32,
        "classes": 10,
    },
    "gpt2_decoder": {"room": 16, "layers": 2, "hidden": 32, "heads": 4, "vocabulary": 64},
    "gpt2_small": {"sequence": 8, "layers": 2, "hidden": 32, "heads": 4, "vocabulary": 64},
    "inception_v1": {"image": 32, "blocks": ((8, 4, 8, 4, 8, 8), (), (8, 4, 8, 4, 8, 8))},
    "inception_v3": {"image": 75, "grids": ((32,), (128,), (384,)), "classes": 10},
    "llama_decoder": {
        "room": 16,
        "layers": 2,
        "hidden": 64,
        "heads": 4,
        "kv_heads": 2,
        "inner": 48,
        "vocabulary": 64,
    },
    "lstm2": {"sequence": 4, "features": 8, "hidden": 16},
    "lstm_tc": {"steps": 3, "hidden": 16, "layers": 2},
    "milstm": {"steps": 3, "hidden": 16, "layers": 2},
    "mlp": {"batch": 2, "layers": (16, 32, 10)},
    "mobilenet_v2": {"image": 32, "stages": ((1, 8, 1, 1), (6, 12, 2, 2)), "last": 64},
    "mobilenet_v3": {
        "image": 32,
        "blocks": ((3, 16, 8, 0, 0, 2), (5, 32, 8, 1, 1, 1)),
        "last": 32,
        "hidden": 48,
        "classes": 10,
    },
    "nas_cells": {"image": 16, "channels": 12, "cells": 1, "stacks": 2},
    "nasnet_a": {"image": 8, "cells": 2, "filters": 4, "stem": 12},
    "nasnet_mobile": {"image": 31, "cells": 1, "filters": 8, "stem": 8, "classes": 10},
    "resnet50": {"image": 32, "width": 8, "blocks": (2, 1), "classes": 10},
    "resnext29": {"image": 16, "cardinality": 2, "width": 4, "blocks": (1, 1)},
    "resnext29_16x64d": {"image": 8, "cardinality": 3, "width": 4, "channels": 8},
    "resnext101_64x4d": {"image": 32, "cardinality": 4, "width": 2, "blocks": (1, 2)},
    "scrnn": {"steps": 3, "hidden": 16, "context": 8, "classes": 10},
    "seq2seq": {"steps": 3, "hidden": 16, "layers": 2, "decoder_steps": 3, "decoder_layers": 2},
    "shufflenet": {"image": 40, "units": (2, 1), "classes": 10},
    "squeezenet1_1": {"image": 64, "fires": (4, 0, 8), "classes": 10},
    "sublstm": {"steps": 3, "hidden": 16, "layers": 2},
    "tiny_chain": {},
    "tiny_matmul_chain": {},
    "tiny_llama": {"sequence": 8, "layers": 2, "hidden": 32, "inner": 48, "vocabulary": 64},
    "two_branch": {},
    "unet": {"image": 16, "width": 4, "depth": 2},
    "vit_b16": {"image": 32, "layers": 2, "hidden": 32, "heads": 4, "classes": 10},
}


def feeds_of(inputs):
    """Random arguments. Behind the first position caches have zeros, as onnxruntime leaves them
    where no key counts; the standard says nothing of these rows.
    """
    feeds = random_inputs(inputs)
    for name, array in feeds.items():
        if name.startswith("past_key_values"):
            array[:, :, 1:] = 0
    return feeds


# Networks that can be written in several forms, and the forms beside "written".
FORMS = {
    "deepspeech2": ("normalised", "operator"),
    "lstm_tc": ("normalised", "operator"),
    "resnext29_16x64d": ("normalised",),
    "resnext101_64x4d": ("normalised",),
    "seq2seq": ("normalised", "operator"),
}

# Networks of ONNX's recurrent operators, with so many steps that these are loops.
LOOPS = {
    "deepspeech2": {**SMALL["deepspeech2"], "frames": 80, "hidden": 16, "form": "operator"},
    "deepspeech2_gru": {**SMALL["deepspeech2_gru"], "frames": 40, "hidden": 16},
    "lstm2": {**SMALL["lstm2"], "sequence": 20},
}
