"""A small network from text to speech, built as VITS is exported: how long its answer is, the
durations say that it computes itself."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

HIDDEN, CHANNELS = 8, 6


class _Graph:
    """Nodes, and weights by the names that they are given."""

    def __init__(self, seed):
        self.nodes, self.weights = [], []
        self._random = np.random.default_rng(seed)
        self._count = 0

    def op(self, kind, *inputs, outputs=1, **attributes):
        """The name of what a node makes, or the names."""
        self._count += 1
        made = [f"v{self._count}_{number}" for number in range(outputs)]
        node = helper.make_node(kind, inputs, made, name=f"{kind}_{self._count}", **attributes)
        self.nodes.append(node)
        return made[0] if outputs == 1 else made

    def const(self, array):
        """The name of a constant."""
        self._count += 1
        name = f"c{self._count}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def ints(self, *numbers):
        return self.const(np.int64(numbers))

    def weight(self, *shape, scale=0.4):
        return self.const((self._random.standard_normal(shape) * scale).astype(np.float32))

    def conv(self, x, inputs, outputs, width, **attributes):
        pads = [width // 2 * attributes.get("dilations", [1])[0]] * 2
        kernel, bias = self.weight(outputs, inputs, width), self.weight(outputs)
        return self.op("Conv", x, kernel, bias, pads=pads, **attributes)

    def size(self, x, axis):
        """One size of a tensor, as a scalar."""
        return self.op("Gather", self.op("Shape", x), self.const(np.int64(axis)))

    def shape(self, *sizes):
        """Scalars as one shape."""
        own = [self.op("Unsqueeze", size, self.ints(0)) for size in sizes]
        return self.op("Concat", *own, axis=0)

    def shuffled(self, x, channels, times):
        """Of groups of `times` channels the samples one behind the other."""
        x = self.op("Reshape", x, self.ints(0, channels, times, -1))
        x = self.op("Transpose", x, perm=[0, 1, 3, 2])
        return self.op("Reshape", x, self.ints(0, channels, -1))

    def mask(self, lengths, most):
        """Which positions are below each length, of `most` positions."""
        zero, one = self.const(np.int64(0)), self.const(np.int64(1))
        places = self.op("Range", zero, most, one)
        return self.op("Less", self.op("Unsqueeze", places, self.ints(0)),
                       self.op("Unsqueeze", lengths, self.ints(1)))  # fmt: skip


def text_to_speech(seed=0, transposed=True):
    """ids, lengths, scales (of the noise, and of the length) -> speech, and how long each is.

    transposed: whether the decoder has transposed convolutions, or channels become samples.
    """
    g = _Graph(seed)
    f32 = TensorProto.FLOAT
    # the text encoder
    x = g.op("Transpose", g.op("Gather", g.weight(20, HIDDEN), "ids"), perm=[0, 2, 1])
    seen = g.op("Cast", g.mask("lengths", g.size("ids", 1)), to=f32)
    seen = g.op("Unsqueeze", seen, g.ints(1))
    x = g.op("Relu", g.conv(g.op("Mul", x, seen), HIDDEN, HIDDEN, 3))
    stats = g.op("Mul", g.conv(x, HIDDEN, 2 * CHANNELS, 1), seen)
    mean, log_scale = g.op("Split", stats, g.ints(CHANNELS, CHANNELS), outputs=2, axis=1)
    # durations, and the frames that they add up to
    scale = g.op("Gather", "scales", g.const(np.int64(1)))
    w = g.op("Mul", g.op("Exp", g.conv(g.op("Mul", x, seen), HIDDEN, 1, 3)), seen)
    w = g.op("Ceil", g.op("Mul", w, scale))
    frames = g.op("Clip", g.op("ReduceSum", w, g.ints(1, 2), keepdims=0), g.const(np.float32(1)))
    frames = g.op("Cast", frames, to=TensorProto.INT64)
    most = g.op("ReduceMax", frames, keepdims=0)
    there = g.op("Cast", g.mask(frames, most), to=f32)
    there = g.op("Unsqueeze", there, g.ints(1))
    # which frame is of which letter
    pairs = g.op("Mul", g.op("Unsqueeze", seen, g.ints(2)), g.op("Unsqueeze", there, g.ints(3)))
    b, t_y, t_x = (g.size(pairs, axis) for axis in (0, 2, 3))
    ends = g.op("CumSum", w, g.const(np.int64(-1)))
    flat = g.op("Reshape", ends, g.shape(g.op("Mul", b, t_x)))
    path = g.op("Cast", g.mask(g.op("Cast", flat, to=TensorProto.INT64), t_y), to=f32)
    path = g.op("Reshape", path, g.shape(b, t_x, t_y))
    before = g.op("Pad", path, g.ints(0, 1, 0, 0, 0, 0))
    before = g.op("Slice", before, g.ints(0), g.ints(-1), g.ints(1), g.ints(1))
    path = g.op("Unsqueeze", g.op("Sub", path, before), g.ints(1))
    path = g.op("Mul", g.op("Transpose", path, perm=[0, 1, 3, 2]), pairs)
    path = g.op("Squeeze", path, g.ints(1))
    spread = [
        g.op("Transpose", g.op("MatMul", path, g.op("Transpose", each, perm=[0, 2, 1])),
             perm=[0, 2, 1])
        for each in (mean, log_scale)
    ]  # fmt: skip
    # what is noise in VITS, so that two runtimes draw the same
    noise = g.op("Sin", g.op("Mul", spread[0], g.const(np.float32(37))))
    noise = g.op("Mul", noise, g.op("Exp", spread[1]))
    z = g.op("Add", spread[0], g.op("Mul", noise, g.op("Gather", "scales", g.const(np.int64(0)))))
    # a coupling layer of the flow
    flipped = g.op("Slice", z, g.ints(-1), g.ints(-(1 << 62)), g.ints(1), g.ints(-1))
    half = CHANNELS // 2
    first, second = g.op("Split", flipped, g.ints(half, half), outputs=2, axis=1)
    h = g.op("Mul", g.conv(first, half, HIDDEN, 1), there)
    gates = g.conv(h, HIDDEN, 2 * HIDDEN, 5, dilations=[2])
    a, s = g.op("Split", gates, g.ints(HIDDEN, HIDDEN), outputs=2, axis=1)
    h = g.op("Add", h, g.op("Mul", g.op("Tanh", a), g.op("Sigmoid", s)))
    second = g.op("Mul", g.op("Sub", second, g.conv(h, HIDDEN, half, 1)), there)
    z = g.op("Mul", g.op("Concat", first, second, axis=1), there)
    # the decoder: four times and twice as many samples
    y = g.conv(z, CHANNELS, HIDDEN, 7)
    for times, inputs, outputs in ((4, HIDDEN, 6), (2, 6, 4)):
        y = g.op("LeakyRelu", y, alpha=0.1)
        if transposed:
            y = g.op("ConvTranspose", y, g.weight(inputs, outputs, 2 * times), g.weight(outputs),
                     strides=[times], pads=[times // 2, times // 2])  # fmt: skip
        else:
            y = g.shuffled(g.conv(y, inputs, outputs * times, 3), outputs, times)
        y = g.op("Add", y, g.conv(g.op("LeakyRelu", y, alpha=0.1), outputs, outputs, 3))
    y = g.op("Tanh", g.conv(g.op("LeakyRelu", y), 4, 1, 7))
    info = helper.make_tensor_value_info
    int64 = TensorProto.INT64
    graph = helper.make_graph(
        g.nodes, "speech",
        [info("ids", int64, ["batch", "letters"]), info("lengths", int64, ["batch"]),
         info("scales", f32, [2])],
        [info(y, f32, ["batch", 1, "samples"]), info(frames, int64, ["batch"])],
        g.weights,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def letters(batch, length, scale, seed=0):
    """What a call takes; all but the first text are shorter."""
    ids = np.random.default_rng(seed).integers(0, 20, (batch, length))
    lengths = np.int64([length] + [max(1, length - 3)] * (batch - 1))
    return {"ids": ids, "lengths": lengths, "scales": np.float32([0.667, scale])}
