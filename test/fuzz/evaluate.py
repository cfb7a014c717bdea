"""What a graph means in f64: by onnx.reference, node by node, and rounding errors drawn at random.

Floats are f64 throughout, whatever their type; integers, booleans and 8-bit floats are what they
are. A run with `Noise` moves operands and results of everything that rounds by as much as rounding
in the value's own type may (Parker's Monte Carlo arithmetic): what differs between such runs cannot
be told from rounding, however ill conditioned, and a result that jumps is not decided at all.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from unittest import mock

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops.aionnxml import op_svm_classifier

from rcompiler.frontend import contrib, dtypes
from rcompiler.frontend.load import node_reads as reads
from rcompiler.frontend.randomness import DRAWS

from . import catalog, contrib_nodes, definitions, norms, quantised_products, recurrences  # noqa: F401  # they define operators

# 2^-p of the significand's p bits.
EPSILON = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
_TINY = {"float64": 2.0**-1000, "float32": 2.0**-120, "float16": 2.0**-22, "bfloat16": 2.0**-120}
# Results are operands, or exact: nothing rounds.
EXACT = frozenset(
    "Abs And ArgMax ArgMin ArrayFeatureExtractor Binarizer BitCast BitShift BitwiseAnd BitwiseNot "
    "BitwiseOr BitwiseXor Cast CastLike Ceil CenterCropPad Clip Compress Concat "
    "ConcatFromSequence Constant ConstantOfShape DepthToSpace Dropout Equal Expand EyeLike "
    "FeatureVectorizer Flatten Floor Gather GatherElements GatherND GlobalMaxPool Greater "
    "GreaterOrEqual Hardmax Identity If Imputer IsInf IsNaN LabelEncoder Less LessOrEqual Loop "
    "Max MaxPool MaxRoiPool MaxUnpool Min Neg NonZero Not OneHot OneHotEncoder Optional "
    "OptionalGetElement OptionalHasElement Or Pad ReduceMax ReduceMin Relu Reshape "
    "ReverseSequence Round Scan Scatter SequenceAt SequenceConstruct SequenceEmpty SequenceErase "
    "SequenceInsert SequenceLength Shape Sign Size Slice SpaceToDepth Split SplitToSequence "
    "Squeeze TensorScatter Tile TopK Transpose Trilu Unique Unsqueeze Where Xor".split()
)
_PRODUCTS = frozenset(
    "MatMul Gemm Conv ConvTranspose DeformConv Einsum LSTM GRU RNN Attention DFT STFT "
    "LinearClassifier LinearRegressor SVMClassifier SVMRegressor".split()
)
# Their errors are as large as those of their largest results: what they add up is larger, or they
# compute with tables of sines, positions and weights.
_ABSOLUTE = frozenset(
    "AffineGrid BlackmanWindow DFT DeformConv GridSample HammingWindow HannWindow LogSoftmax "
    "SoftmaxCrossEntropyLoss "
    "MelWeightMatrix Resize RoiAlign STFT SVMClassifier SVMRegressor".split()
)
# They take roots of sums of squares, which are nothing for numbers below the root of the least one.
_SQUARES = frozenset("GlobalLpPool LpNormalization LpPool ReduceL2".split())
# Attributes that hold an element type.
_TYPES = {"to", "dtype", "output_dtype", "output_datatype", "stash_type", "precision",
          "softmax_precision"}  # fmt: skip
_WITHIN = {"stash_type", "precision", "softmax_precision"}  # of those, what a node computes in
_FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16}
_ELEMENTS = {dtypes.from_onnx(n) for n in TensorProto.DataType.values()} - {"undefined"}
_CONTROL = {"If", "Loop", "Scan"}
_RUNNERS = 4096  # that are kept: more than a graph of the kind "large" has nodes
_REGRESSORS = {"LinearRegressor", "SVMRegressor", "TreeEnsemble"}
_BITS = {"BitCast"}  # their results are made of the bits of their operands


class Unjudged(Exception):
    """The reference cannot evaluate a node, or not every time alike. op: of that node, if known."""

    def __init__(self, text: str, op: str = "") -> None:
        super().__init__(text)
        self.op = op


@dataclass(frozen=True)
class Noise:
    """Rounding errors to draw. products: the relative error of factors of f32 in matrix units;
    convolutions: how many times more a convolution rounds, for its algorithm; times: how many times
    more everything does."""

    seed: int
    times: float = 1.0
    products: float = EPSILON["float32"]
    convolutions: float = 1.0


def evaluate(
    model: ModelProto,
    feeds: Mapping[str, np.ndarray],
    noise: Noise | None = None,
    exact: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """All values of the graph by name. Raises Unjudged.

    exact: those of the run without noise. They show how far a number with noise is off, and what it
    may meet within that: it is 0, or equal to another one, in some runs then. Errors drawn hit one
    number too rarely for that.
    """
    kinds = value_types(model)
    opsets = {o.domain: o.version for o in model.opset_import}
    rounding = _Rounding(noise, kinds, model, exact or {}) if noise is not None else None
    return _nodes(model.graph, feeds, opsets, kinds, rounding)


def _nodes(
    graph: GraphProto,
    known: Mapping[str, Any],
    opsets: Mapping[str, int],
    kinds: Mapping[str, str] | None = None,
    rounding: _Rounding | None = None,
) -> dict[str, Any]:
    """All values of a graph, of which some are known, and these."""
    arrays = {name: wide(array) for name, array in known.items()}
    arrays |= {t.name: wide(onnx.numpy_helper.to_array(t)) for t in graph.initializer}
    for node in graph.node:
        # of one of onnxruntime's round the nodes that it stands for
        own = rounding if node.domain != contrib.DOMAIN else None
        asked, moved = (node, arrays) if own is None else own.operands(node, arrays)
        results = apply(asked, moved, opsets, kinds, rounding)
        for name, array in zip(node.output, results, strict=False):
            if name:
                arrays[name] = array if own is None else own.result(node, name, array, arrays)
    return arrays


def value_types(model: ModelProto) -> dict[str, str]:
    """Element types by name, of all values that the model declares, in subgraphs, too."""
    return _declared(model.graph)


def _declared(graph: GraphProto) -> dict[str, str]:
    infos = (*graph.input, *graph.output, *graph.value_info)
    found = {v.name: dtypes.from_onnx(v.type.tensor_type.elem_type) for v in infos}
    found |= {t.name: dtypes.from_onnx(t.data_type) for t in graph.initializer}
    for item in (item for node in graph.node for item in node.attribute):
        if item.type == AttributeProto.GRAPH:
            found |= _declared(item.g)
    return found


def drawn(model: ModelProto) -> set[str]:
    """Names of values that random numbers reach."""
    found: set[str] = set()
    for node in model.graph.node:
        tainted = found.intersection(reads(node)) and node.op_type not in ("Shape", "Size")
        if node.op_type in DRAWS or tainted:
            found.update(node.output)
    return found


def wide(array: Any) -> Any:
    """Floats as f64; small ones and all else as they are."""
    if isinstance(array, list):
        return [wide(item) for item in array]
    if isinstance(array, np.ndarray | np.generic):
        array = np.asarray(array)
        return array.astype(np.float64) if dtypes.is_float(array.dtype.name) else array
    return array


def apply(
    node: NodeProto,
    arrays: Mapping[str, Any],
    opsets: Mapping[str, int],
    kinds: Mapping[str, str] | None = None,
    rounding: _Rounding | None = None,
) -> list[Any]:
    """The results of one node, floats in f64. kinds: the types of operands that are read by bits.
    rounding: of the nodes of its subgraphs.

    Raises Unjudged.
    """
    needed = {name: arrays[name] for name in reads(node) if name in arrays}
    if node.domain == contrib.DOMAIN:
        nodes, opset = contrib_nodes.body_nodes(node, needed)
        graph = helper.make_graph(nodes, "body", [], [])
        inside = None if rounding is None else rounding.of_opset(opset)
        found = _nodes(graph, needed, {"": opset}, kinds, inside)
        return [found[name] if name else None for name in node.output]
    if node.op_type in _CONTROL:
        pass  # its subgraphs' nodes are promoted one by one
    elif node.op_type in _BITS:
        types = kinds or {}
        needed = {
            n: a.astype(dtypes.numpy_dtype(types.get(n, a.dtype.name))) for n, a in needed.items()
        }
    else:
        node = promoted(node)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if node.op_type in _CONTROL:
                run = _control(
                    node, needed, lambda g, known: _nodes(g, known, opsets, kinds, rounding)
                )
            else:
                run = _run(node, needed, opsets)
            results = iter(run)
    except Exception as error:  # the reference's implementations raise whatever they trip over
        raise Unjudged(f"{node.op_type} cannot be evaluated: {error}", node.op_type) from error
    return [wide(next(results)) if name else None for name in node.output]


def _control(
    node: NodeProto,
    needed: Mapping[str, Any],
    values: Callable[[GraphProto, Mapping[str, Any]], Mapping[str, Any]],
) -> Sequence[Any]:
    """The results of control flow. values: all of a subgraph, by those that it reads."""
    operands = [needed[name] if name else None for name in node.input]
    attributes = definitions.attributes_of(node)

    def body(graph: GraphProto, bound: Mapping[str, Any]) -> list[Any]:
        found = values(graph, {**needed, **bound})
        return [found[value.name] for value in graph.output]

    if node.op_type == "Scan":
        every = definitions.scan(attributes, operands, body)
    elif node.op_type == "Loop":
        every = definitions.loop(attributes, operands, body)
    else:
        every = body(attributes["then_branch" if np.all(operands[0]) else "else_branch"], {})
    return [made for made, name in zip(every, node.output, strict=False) if name]


def _run(node: NodeProto, needed: Mapping[str, Any], opsets: Mapping[str, int]) -> Sequence[Any]:
    """The results that are wanted, in order."""
    operands = [needed[name] if name else None for name in node.input]
    attributes = definitions.attributes_of(node)
    own = definitions.find(node)
    if own is not None:
        every = own(attributes, *operands)
        return [made for made, name in zip(every, node.output, strict=False) if name]
    if node.op_type == "Multinomial":  # only its shape and type can be judged
        size = (operands[0].shape[0], attributes.get("sample_size", 1))
        return [np.zeros(size, dtypes.numpy_dtype(dtypes.from_onnx(attributes.get("dtype", 6))))]
    if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
        opsets = {**opsets, "": max(opsets[""], 19)}  # the reference knows no earlier ones
    if node.op_type == "QuantizeLinear":
        bounded = definitions.saturated(attributes, *operands[:2])
        needed = {**needed, node.input[0]: bounded}
    if node.op_type == "RoiAlign" and (operands[2] < 0).any():
        # the reference counts it from the end, as numpy does
        raise IndexError("the number of an image is below that of the first one")
    if node.op_type == "TopK" and (operands[1] < 0).any():
        raise IndexError("fewer elements than none")  # the reference takes none
    if node.op_type == "SVMClassifier":
        with mock.patch.object(op_svm_classifier, "multiclass_probability", definitions.coupled):
            return _runner(node, needed, opsets).run(None, dict(needed))
    if node.op_type in _REGRESSORS:
        return [_regression(node, operands[0], attributes, opsets)]
    if node.op_type == "Resize" and operands[0].dtype == bool:
        [made] = _runner(node, needed, opsets).run(
            None, {**needed, node.input[0]: operands[0].astype(np.uint8)}
        )
        return [made.astype(bool)]
    if node.op_type == "CastLike" and "round_mode" in attributes:
        node = _as_cast(node, operands[1])  # which the reference (1.23) forgets there
        needed = {node.input[0]: needed[node.input[0]]}
    results = _runner(_spelled(node), needed, opsets).run(None, dict(needed))
    raw = node.op_type == "Attention" and len(node.output) > 3 and node.output[3]
    if raw and "softcap" in attributes and not attributes.get("qk_matmul_output_mode"):
        # the product as it is: the reference (1.23) bounds it by softcap here, too
        bare = _without(node, "softcap")
        results[-1] = _runner(bare, needed, opsets).run(None, dict(needed))[-1]
    return results


def _runner(
    node: NodeProto, needed: Iterable[str], opsets: Mapping[str, int]
) -> ReferenceEvaluator:
    """The reference of one node, which each run with rounding errors asks for again."""
    return _known_runner(node.SerializeToString(), tuple(needed), tuple(opsets.items()))


@lru_cache(_RUNNERS)
def _known_runner(
    node: bytes, needed: tuple[str, ...], opsets: tuple[tuple[str, int], ...]
) -> ReferenceEvaluator:
    parsed = NodeProto.FromString(node)
    graph = helper.make_graph(
        [parsed],
        "node",
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in needed],
        [
            helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None)
            for name in parsed.output
            if name
        ],
    )
    return ReferenceEvaluator(_model(graph, dict(opsets)))


def _model(graph: GraphProto, opsets: Mapping[str, int]) -> ModelProto:
    imports = [helper.make_opsetid(d, v) for d, v in opsets.items()]
    return helper.make_model(graph, opset_imports=imports)


def promoted(node: NodeProto) -> NodeProto:
    """The same node on f64, with its subgraphs."""
    out = NodeProto()
    out.CopyFrom(node)
    for attribute in out.attribute:
        if attribute.name in _TYPES and attribute.i in _FLOATS:
            attribute.i = TensorProto.DOUBLE
        if attribute.type == AttributeProto.TENSOR and attribute.t.data_type in _FLOATS:
            array = wide(onnx.numpy_helper.to_array(attribute.t))
            attribute.t.CopyFrom(onnx.numpy_helper.from_array(array, attribute.t.name))
        if attribute.type == AttributeProto.GRAPH:
            _promote_graph(attribute.g)
    return out


def _spelled(node: NodeProto) -> NodeProto:
    """Where auto_pad is VALID nothing is padded: said so, as onnx.reference (1.23) forgets the
    dilations of pools there."""
    if node.op_type in ("LayerNormalization", "RMSNormalization"):
        return _without(node, "stash_type")  # the reference has one only; all is f64 here
    valid = any(a.name == "auto_pad" and a.s == b"VALID" for a in node.attribute)
    return _without(node, "auto_pad") if valid else node


def _regression(
    node: NodeProto, x: np.ndarray, attributes: Mapping[str, Any], opsets: Mapping[str, int]
) -> np.ndarray:
    """Of floats, and what is made of the sums: the reference (1.23) computes sums of integers in
    integers, and leaves out what is to be made of them. A target that no tree of a least or
    greatest has a leaf of is zero, as in onnxruntime; the reference has what it begins with."""
    bare, name = _without(node, "post_transform"), node.input[0]
    wide_x = x.astype(np.float64)
    [found] = _runner(bare, [name], opsets).run(None, {name: wide_x})
    sums = np.where(abs(np.asarray(found)) == np.finfo(np.float64).max, 0.0, found)
    return definitions.after_sums(sums, attributes.get("post_transform", 0) or 0)


def _as_cast(node: NodeProto, like: np.ndarray) -> NodeProto:
    """The conversion to the type of a tensor of a narrow one."""
    kind = dtypes.to_onnx(dtypes.name_of(like))
    out = helper.make_node("Cast", [node.input[0]], list(node.output), to=kind)
    out.attribute.extend(node.attribute)
    return out


def _without(node: NodeProto, attribute: str) -> NodeProto:
    out = NodeProto()
    out.CopyFrom(node)
    for found in [a for a in node.attribute if a.name == attribute]:
        out.attribute.remove(found)
    return out


def _promote_graph(graph: GraphProto) -> None:
    nodes = [promoted(node) for node in graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    for tensor in graph.initializer:
        if tensor.data_type in _FLOATS:
            array = wide(onnx.numpy_helper.to_array(tensor))
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))


def result_types(
    node: NodeProto, operands: Mapping[str, Any], opsets: Mapping[str, int]
) -> dict[str, str]:
    """Element types of a node's results, by ONNX's inference; of a float that it does not know,
    that of the first float operand. operands: `maker.Value`s by name.

    Raises Unjudged: the inference refuses the node, which is not valid then.
    """
    own = node.domain == contrib.DOMAIN  # who writes the node says what comes out
    inferred = dict(_inside(node)) or ({} if own else _inferred(node, operands, opsets))
    for value in operands.values():
        if dtypes.is_float(value.dtype):
            for name in node.output:
                inferred.setdefault(name, value.dtype)
            break
    return inferred


def _inside(node: NodeProto) -> Iterator[tuple[str, str]]:
    """Of control flow: what its subgraph declares."""
    first = {"If": ("then_branch", 0), "Loop": ("body", 1), "Scan": ("body", 0)}
    if node.op_type not in first:
        return
    which, skip = first[node.op_type]
    body = next(a.g for a in node.attribute if a.name == which)
    for name, info in zip(node.output, body.output[skip:], strict=True):
        yield name, dtypes.from_onnx(info.type.tensor_type.elem_type)


def _inferred(
    node: NodeProto, operands: Mapping[str, Any], opsets: Mapping[str, int]
) -> dict[str, str]:
    if not all(v.dtype in _ELEMENTS for v in operands.values()):
        return {}  # sequences and optionals: who writes the node says what comes out
    types = {
        name: helper.make_tensor_type_proto(dtypes.to_onnx(v.dtype), v.shape)
        for name, v in operands.items()
    }
    schema = catalog.schema_of(node.op_type, node.domain, opsets[""])
    imports = [helper.make_opsetid(d, v) for d, v in opsets.items()]
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema, node, types, opset_imports=imports, ir_version=10
        )
    except Exception as error:  # C++ inference raises several kinds
        raise Unjudged(f"{node.op_type} is not valid: {error}") from error
    return {
        name: dtypes.from_onnx(kind.tensor_type.elem_type)
        for name, kind in found.items()
        if kind.HasField("tensor_type") and kind.tensor_type.elem_type
    }


class _Rounding:
    """Draws the rounding errors of one run."""

    def __init__(
        self, noise: Noise, kinds: Mapping[str, str], model: ModelProto, exact: Mapping[str, Any]
    ) -> None:
        self._noise, self._kinds, self._exact = noise, dict(kinds), exact
        self._random = np.random.default_rng(noise.seed)
        self._opsets = {o.domain: o.version for o in model.opset_import}
        self._sizes = {}
        for info in (*model.graph.input, *model.graph.output, *model.graph.value_info):
            dims = [max(d.dim_value, 1) for d in info.type.tensor_type.shape.dim]
            self._sizes[info.name] = int(np.prod(dims, dtype=np.int64))
        self._sizes |= {t.name: int(np.prod(t.dims)) for t in model.graph.initializer}

    def of_opset(self, opset: int) -> _Rounding:
        """The same run, inside of a body whose nodes are of another opset."""
        inside = copy.copy(self)
        inside._opsets = {**self._opsets, "": opset}
        return inside

    def operands(
        self, node: NodeProto, arrays: Mapping[str, Any]
    ) -> tuple[NodeProto, Mapping[str, Any]]:
        if node.op_type == "Equal":
            return node, {**arrays, **self._equal(*node.input, arrays)}
        if node.op_type in EXACT:
            return node, arrays
        unit = self._unit(node)
        power = 0.5 if node.op_type in _SQUARES else 1.0
        read = [n for n in dict.fromkeys(reads(node)) if n in arrays]  # in the same order always
        moved = {n: self._moved(n, arrays[n], unit, power) for n in read}
        for i, name in enumerate(node.input):
            if name and name in node.input[:i]:  # the same operand again does not round alike
                copy = NodeProto()
                copy.CopyFrom(node)
                copy.input[i] = f"{name}@{i}"
                node, moved[copy.input[i]] = copy, self._moved(name, arrays[name], unit, power)
        return node, {**arrays, **moved}

    def result(self, node: NodeProto, name: str, array: Any, arrays: Mapping[str, Any]) -> Any:
        """A number of the result's own type: what is apart in f64 may be equal."""
        self._learn(node, name, array)
        if node.op_type in EXACT and node.op_type not in ("Cast", "CastLike"):
            return array
        unit = self._unit(node)
        moved = self._moved(name, array, unit)
        if (
            node.op_type in _ABSOLUTE
            and isinstance(array, np.ndarray)
            and array.dtype == np.float64
        ):
            largest = abs(array).max(initial=1.0)
            moved = moved + unit * largest * self._random.uniform(-1, 1, array.shape)
        if norms.takes_means(node) and name == node.output[0]:
            by = norms.moved_by_the_mean(node, [arrays[n] for n in node.input if n])
            moved = moved + unit * by * self._random.uniform(-1, 1, array.shape)
        moved = self._cancelled(name, moved)
        kind = self._kinds.get(name, "float64")
        if kind in EPSILON and isinstance(moved, np.ndarray) and moved.dtype == np.float64:
            with np.errstate(over="ignore"):
                return moved.astype(dtypes.numpy_dtype(kind)).astype(np.float64)
        return moved

    def _equal(self, left: str, right: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The second operand; it is as the first one where they are no further apart than they are
        off, in half of the runs."""
        a, b, exact_a, exact_b = (of.get(n) for of in (arrays, self._exact) for n in (left, right))
        errors = _error(a, exact_a), _error(b, exact_b)
        if errors[0] is None or errors[1] is None:
            return {}
        off = errors[0] + errors[1]
        with np.errstate(invalid="ignore"):
            meet = (off > 0) & (abs(exact_a - exact_b) <= off)
        return {right: np.where(meet & (self._random.random(meet.shape) < 0.5), a, b)}

    def _cancelled(self, name: str, array: Any) -> Any:
        """Zeros for numbers that are no larger than they are off, in a quarter of the runs; not for
        those that are zero without an error, as behind a Relu: it would be taken back there.
        """
        exact = self._exact.get(name)
        error = _error(array, exact)
        if error is None:
            return array
        none = (exact != 0) & (abs(exact) <= error)
        return np.where(none & (self._random.random(none.shape) < 0.25), 0.0, array)

    def _learn(self, node: NodeProto, name: str, array: Any) -> None:
        """Type and size of a value that a subgraph does not declare: a float is like operands."""
        if not isinstance(array, np.ndarray):
            return  # a sequence, whose tensors may differ in shape
        self._sizes.setdefault(name, array.size)
        if name in self._kinds:
            return
        to = next((a.i for a in node.attribute if a.name == "to"), 0)
        operands = [self._kinds[n] for n in node.input if n in self._kinds]
        floats = [dtypes.from_onnx(to)] if to else [k for k in operands if k in EPSILON]
        if floats and array.dtype == np.float64:
            self._kinds[name] = floats[0]

    def _unit(self, node: NodeProto) -> float:
        """The relative error of an operand: that of the coarsest type in it, as often as a sum over
        its largest operand may round."""
        names = [n for n in (*reads(node), *node.output) if n in self._kinds]
        units = [_unit_of(self._kinds[n]) for n in names]
        kinds = {self._kinds[n] for n in names}
        if _has_single(node, self._opsets) or kinds & {"int8", "uint8"}:
            units.append(_unit_of("float32"))
        within = (dtypes.from_onnx(a.i) for a in node.attribute if a.name in _WITHIN and a.i)
        units += [_unit_of(kind) for kind in within]
        unit = max(units, default=0.0) * self._noise.times
        if node.op_type in _PRODUCTS and "float32" in kinds:
            unit = max(unit, 3 * self._noise.products)
        if node.op_type in ("Conv", "ConvTranspose"):
            unit *= self._noise.convolutions
        longest = max((self._sizes.get(n, 1) for n in node.input), default=1)
        whole = any(self._sizes.get(n, 1) != longest for n in node.output if n)
        return unit * float(np.sqrt(longest)) if whole else unit

    def _moved(self, name: str, array: Any, unit: float, power: float = 1.0) -> Any:
        if not isinstance(array, np.ndarray) or array.dtype != np.float64:
            return array
        kind = self._kinds.get(name, "float32")
        error = self._random.uniform(-1, 1, array.shape)
        return array * (1 + unit * error) + (array != 0) * error * _TINY.get(kind, 0.0) ** power


def _error(array: Any, exact: Any) -> np.ndarray | None:
    """How far floats are off; None if there are none, or none to tell it from."""
    arrays = isinstance(array, np.ndarray) and isinstance(exact, np.ndarray)
    if not arrays or array.dtype != np.float64 or array.shape != exact.shape:
        return None
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(abs(array - exact), nan=0.0)


def _has_single(node: NodeProto, opsets: Mapping[str, int]) -> bool:
    """Whether numbers of f32 go into every result: an attribute, or a constant of its body."""
    if node.op_type in _ABSOLUTE:
        return True
    schema = catalog.schema_of(node.op_type, node.domain, opsets[""])
    numbers = any(a.type == onnx.defs.OpSchema.AttrType.FLOAT for a in schema.attributes.values())
    body = schema.has_function or schema.has_context_dependent_function
    return numbers or body or "stash_type" in schema.attributes


def _unit_of(kind: str) -> float:
    """Elementary functions of f32 and f64 are some units in the last place off, those of 16-bit
    floats are computed in f32."""
    factor = 1.0 if kind in ("float16", "bfloat16") else 3.0
    return EPSILON.get(kind, 0.0) * factor


__all__ = ["DRAWS", "EPSILON", "Noise", "Unjudged", "apply", "drawn", "evaluate", "reads",
           "result_types", "value_types", "wide"]  # fmt: skip
