"""Operators that have no translation: why, and what to do about them."""

from __future__ import annotations

from onnx import NodeProto

_NCHWC = "com.microsoft.nchwc"  # blocks of channels, as many as a machine's vectors have

_TEXT = "Do what is done with text outside of the model, and feed it numbers such as ids"
_STANDARD = {
    "ImageDecoder": "Decode the image before the model, and feed it the pixels",
    "Gradient": "Export the model with its gradients written out, as training tools do",
    **dict.fromkeys(("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"), _TEXT),
    "CategoryMapper": _TEXT,
    **dict.fromkeys(("CastMap", "DictVectorizer"), "Feed the model a tensor of numbers, not a map"),
}

_SEARCH = "it runs other graphs of the model until a search ends: run that loop in the program"
_COUNTED = "how long its result is depends on numbers alone: compute it outside of the model"
_TOKENS = "it packs sequences by offsets that only a call knows: use the operator of one batch"
_BLOB = "its weights are bytes in a layout of onnxruntime's own: use MatMulNBits"

# Why an operator of onnxruntime's CPU provider has no translation, and what to do.
ONNXRUNTIME: dict[str, str] = {
    "AttnLSTM": "a recurrence with an attention in each step: write it as a Scan",
    **dict.fromkeys(("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"), _SEARCH),
    **dict.fromkeys(("BifurcationDetector", "DynamicTimeWarping"), _COUNTED),
    "GatherPacked": f"{_BLOB} and GatherBlockQuantized",
    "MatMulFpQ4": _BLOB,
    "MaxpoolWithMask": "onnxruntime says that it is for its own use: use MaxPool",
    "SparseToDenseMatMul": "sparse tensors: give the matrix as a dense one",
    "Tokenizer": "it makes tokens of text: do that outside of the model, and feed it their numbers",
    "VarlenNGramHashMapping": _TOKENS,
    "WordConvEmbedding": "embeddings of the letters of words: write it with Gather and Conv",
}


def remedy(node: NodeProto) -> str:
    """What to do about an operator that is not translated."""
    if node.domain == _NCHWC:
        return (
            "onnxruntime saved this model for one machine. Save it again from the model that it "
            "was made of, with graph_optimization_level ORT_ENABLE_EXTENDED or less"
        )
    if node.domain == "com.microsoft" and node.op_type in ONNXRUNTIME:
        reason = ONNXRUNTIME[node.op_type]
        return reason[:1].upper() + reason[1:]
    return _STANDARD.get(
        node.op_type,
        "Express it with other operators or as a function of the model, or give a function of "
        "numpy for it in fallback=",
    )
