"""A graph of one node with another value of one attribute: of what no generator draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fuzz.graphs import Case
from onnx import ModelProto, NodeProto, helper

from rcompiler.frontend import contrib

_ML = "ai.onnx.ml"
_WINDOWS = {"strides": [2, 2], "dilations": [2, 2], "auto_pad": "SAME_UPPER", "pads": [1, 0, 1, 0]}
# Of operators, by domain: what each attribute may be besides what generators and tests say.
_VALUES: dict[tuple[str, str], Mapping[str, Any]] = {
    ("SVMRegressor", _ML): {"post_transform": "LOGISTIC"},
    **{
        (op, contrib.DOMAIN): values
        for op, values in {
            "CausalConvWithState": {
                "input_channels": 3, "input_channel_offset": 1, "state_length": 5,
                "state_channels_last": 1, "state_update_capacity": 2, "state_window": 1,
            },
            "ConvTransposeWithDynamicPads": {
                "auto_pad": "SAME_UPPER", "dilations": [2, 2], "group": 1,
                "kernel_shape": [3, 3], "output_padding": [1, 1],
            },
            "DecoderMaskedMultiHeadAttention": {
                "mask_filter_value": -3.0, "output_qk": 1, "scale": 0.25,
            },
            "EngramGate": {"epsilon": 0.25},
            "FusedConv": {"kernel_shape": [3, 3]},
            "FusedGemm": {"activation_gamma": 0.5},
            "FusedMatMulActivation": {
                "activation_axis": 1, "activation_beta": 0.25, "activation_gamma": 0.5,
                "transBatchA": 1, "transBatchB": 1,
            },
            "GatherBlockQuantized": {"quantize_axis": 0},
            "GroupNorm": {"channels_last": 0},
            "GroupQueryAttention": {
                "kv_cache_bit_width": 8, "sliding_window_cache": 1, "v_quant_type": "PER_TENSOR",
            },
            "LinearAttention": {"chunk_size": 2, "scale": 0.25, "state_window": 1},
            "MRotaryEmbedding": {"is_packed_batching": 1, "scale": 2.0},
            "MoE": {"swiglu_limit_after_activation": 1},
            "NGramHashMapping": {"eos_token_id": 1, "reset_on_eos": 1},
            "NhwcConv": {**_WINDOWS, "kernel_shape": [3, 3]},
            "NhwcFusedConv": {**_WINDOWS, "kernel_shape": [3, 3]},
            "NhwcMaxPool": {**_WINDOWS, "ceil_mode": 1},
            "QEmbedLayerNormalization": {"epsilon": 0.25},
            "QGemm": {"transA": 1},
            "QLinearAveragePool": {
                "auto_pad": "SAME_UPPER", "ceil_mode": 1, "count_include_pad": 1,
            },
            "QLinearConv": {**_WINDOWS, "group": 2, "kernel_shape": [4, 3]},
            "QuantizeLinear": {"axis": 0},
            "Rfft": {"onesided": 0, "signal_ndim": 2},
            "Attention": {"rotary_embedding_dim": 4},
            "SkipGroupNorm": {"channels_last": 0},
            "BiasDropout": {"seed": 3},
            "SwiGLU": {"round_activation": 1},
        }.items()
    },
}  # fmt: skip


def varied(case: Case, attribute: str) -> Iterator[Case]:
    """The case with the attribute that the table has for its operator, if any."""
    [*nodes] = case.model.graph.node
    if len(nodes) != 1:
        return
    values = _VALUES.get((nodes[0].op_type, nodes[0].domain), {})
    if attribute not in values:
        return
    model = ModelProto()
    model.CopyFrom(case.model)
    [node] = model.graph.node
    _set(node, attribute, values[attribute])
    del model.graph.value_info[:]
    for info in model.graph.output:  # it may be of another shape
        info.type.tensor_type.ClearField("shape")
    yield Case(model, case.feeds, case.options, case.wished)


def _set(node: NodeProto, name: str, value: Any) -> None:
    gone = {name, "pads"} if name == "auto_pad" else {name}
    for attribute in [a for a in node.attribute if a.name in gone]:
        node.attribute.remove(attribute)
    node.attribute.append(helper.make_attribute(name, value))
