"""ShuffleNet (Zhang et al. 2018): grouped 1x1 convolutions whose channels a shuffle mixes."""

from collections.abc import Sequence

from onnx import ModelProto

from rcompiler.errors import InvalidModel

from .graph import ModelGraph

MODELS = ("shufflenet",)

# Channels of the first stage by number of groups, doubled in each one after: Table 1 of the paper
_CHANNELS = {1: 144, 2: 200, 3: 240, 4: 272, 8: 384}
_STEM = 24


def shufflenet(
    seed: int = 0,
    batch: int = 1,
    image: int = 224,
    groups: int = 3,
    units: Sequence[int] = (4, 8, 4),
    classes: int = 1000,
) -> ModelProto:
    """ShuffleNet 1x: input (batch, 3, image, image), logits (batch, classes).

    groups: those of Table 1; 3 is what the paper compares with other networks.
    """
    if groups not in _CHANNELS:
        known = ", ".join(map(str, _CHANNELS))
        raise InvalidModel(f"shufflenet: groups={groups} is none of the paper's: {known}")
    g = ModelGraph("shufflenet", seed)
    x = g.conv_bn(g.input("input", (batch, 3, image, image)), _STEM, 3, stride=2, name="conv1")
    x = g.max_pool(x, 3, 2, 1)
    side = _halved(_halved(image))
    for stage, count in enumerate(units):
        for unit in range(count):
            with g.scope(f"stage{stage + 2}.{unit}"):
                # No groups in the first one: it reads too few channels (section 3.3).
                first = 1 if stage == unit == 0 else groups
                x = _unit(g, x, side, _CHANNELS[groups] << stage, 1 if unit else 2, first, groups)
            side = side if unit else _halved(side)
    return g.model(output=(g.classifier(x, classes), (batch, classes)))


def _halved(side: int) -> int:
    """Of a window of 3 with stride 2, padded by 1."""
    return -(-side // 2)


def _unit(g: ModelGraph, x: str, side: int, out: int, stride: int, first: int, groups: int) -> str:
    """Grouped 1x1, shuffle, depthwise 3x3, grouped 1x1; added to the input, or with stride 2
    joined to its averages. side: of the input. first: groups of the first convolution.
    """
    y = g.conv_bn(x, out // 4, 1, groups=first, name="conv1")
    y = _shuffle(g, y, side, groups)
    y = g.conv_bn(y, out // 4, 3, stride=stride, groups=out // 4, act="", name="depthwise")
    if stride == 1:
        y = g.conv_bn(y, out, 1, groups=groups, act="", scale=0.3, name="conv2")
        return g.op("Relu", g.op("Add", x, y))
    y = g.conv_bn(y, out - g.width(x), 1, groups=groups, act="", name="conv2")
    x = g.op(
        "AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, count_include_pad=1
    )
    return g.op("Relu", g.concat([x, y]))


def _shuffle(g: ModelGraph, x: str, side: int, groups: int) -> str:
    """Channel i of group j becomes channel j of group i, of as many groups as there are i."""
    channels = g.width(x)
    x = g.op("Reshape", x, [0, groups, channels // groups, side, side])
    return g.op("Reshape", g.op("Transpose", x, perm=[0, 2, 1, 3, 4]), [0, channels, side, side])
