"""SVMRegressor and SVMClassifier (ai.onnx.ml), in f32."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from rcompiler.errors import Gap
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.ops.class_scores import (
    both_classes,
    class_labels,
    label_at,
    numbers,
    rows_of,
    transform_of,
    transformed,
)
from rcompiler.frontend.ops.extreme_places import place_of
from rcompiler.frontend.ops.reduction import extreme_over
from rcompiler.frontend.ops.unary import sigmoid
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar

DOMAIN = "ai.onnx.ml"
_ITERATIONS = 100  # of the probabilities of more classes than one pair, at most
_CLOSE = 0.005  # the error at which they stop, of all classes together
_SURE = 1e-7  # how near to 0 and to 1 the probability of a pair may be


# -- kernels ---------------------------------------------------------------------------------------


def _products(ctx: Context, x: Value, vectors: np.ndarray) -> Value:
    """[rows, vectors]."""
    if vectors.size % max(x.shape[1], 1) or not vectors.size:
        raise ctx.shape_error(f"{vectors.size} numbers are no vectors of {x.shape[1]} features")
    weights = np.ascontiguousarray(vectors.reshape(-1, x.shape[1]).T)
    return ctx.b.matmul(x, ctx.b.constant(weights))


def _kernels(ctx: Context, x: Value, vectors: np.ndarray) -> Value:
    """[rows, vectors]: the kernel of each row and each support vector."""
    b, name = ctx.b, ctx.attr("kernel_type", "LINEAR")
    parameters = ctx.attr("kernel_params", [])
    if len(parameters) not in (0, 3):
        raise ctx.shape_error("kernel_params are gamma, coef0 and degree")
    if name not in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        raise ctx.shape_error(f"kernel_type is {name}, not LINEAR, POLY, RBF or SIGMOID")
    gamma, coef0, degree = parameters or (0.0, 0.0, 0.0)
    products = _products(ctx, x, vectors)
    if name == "LINEAR":
        return products
    if name == "RBF":
        return _radial(b, x, vectors.reshape(-1, x.shape[1]), gamma)

    def kernel(s: Body, a: Scalar) -> Scalar:
        a = a * gamma + coef0
        return s.tanh(a) if name == "SIGMOID" else _power(s, a, degree)

    return b.elementwise(kernel, products)


def _power(s: Body, a: Scalar, degree: float) -> Scalar:
    if degree == 2.0:
        return a * a
    return a * a * a if degree == 3.0 else s.pow(a, degree)


def _radial(b: Builder, x: Value, vectors: np.ndarray, gamma: float) -> Value:
    """exp(-gamma |x - v|²), from the differences: where the two are close, |x|² + |v|² - 2xv would
    have no digits left.
    """
    table = b.constant(np.ascontiguousarray(vectors.T))

    def add(s: Body, a: Scalar, v: Scalar, acc: Scalar) -> Scalar:
        return acc + (a - v) * (a - v)

    shape = [x.shape[0], vectors.shape[0]]
    squares = b.fold([(x, "d0, d2"), (table, "d2, d1")], shape, "float32", 0.0, "ppr", add)
    return b.elementwise(lambda s, a: s.exp(a * -gamma), squares)


def _plus(b: Builder, x: Value, numbers_: np.ndarray) -> Value:
    """Plus a number for each column."""
    return b.elementwise(lambda s, a, c: a + c, x, b.constant(numbers_))


# -- regression ------------------------------------------------------------------------------------


@lowering("SVMRegressor", domain=DOMAIN)
def _svm_regressor(ctx: Context) -> Value:
    """[rows, 1]; of one class 1 inside of it and -1 outside."""
    b, x = ctx.b, ctx.b.cast(rows_of(ctx), "float32")
    vectors, coefficients = numbers(ctx, "support_vectors"), numbers(ctx, "coefficients")
    rho = numbers(ctx, "rho")
    if transform_of(ctx) != "NONE":
        raise ctx.refuse("post_transform is not translated", "Compute it by operators behind")
    if not rho.size:
        raise ctx.shape_error("rho is missing")
    if ctx.attr("n_supports", 0):
        kernels = _kernels(ctx, x, vectors)
        if coefficients.size != kernels.shape[1] or coefficients.size != ctx.attr("n_supports"):
            raise ctx.shape_error(
                f"{coefficients.size} coefficients for {kernels.shape[1]} support vectors"
            )
        out = _plus(b, b.matmul(kernels, b.constant(coefficients[:, None])), rho[:1])
    else:
        out = _plus(b, _products(ctx, x, coefficients), rho[:1])
    if out.shape[1] != 1:
        raise ctx.shape_error("the coefficients are of several sums")
    if not ctx.attr("one_class", 0):
        return out
    return b.elementwise(lambda s, a: s.select(a > 0.0, s.const(1.0, "float32"), -1.0), out)


# -- classes ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Machine:
    """Support vectors [vectors, features] by class, and their coefficients [classes - 1, vectors]:
    of class i beside class j in row j, or in row j - 1 where j is behind i.

    each: of each class how many.
    """

    vectors: np.ndarray
    coefficients: np.ndarray
    each: np.ndarray
    rho: np.ndarray
    pairs: list[tuple[int, int]]

    def weights(self) -> np.ndarray:
        """[vectors, pairs]: what each vector counts in the decision between two classes."""
        owner = np.repeat(np.arange(self.each.size), self.each)
        found = np.zeros((owner.size, len(self.pairs)), np.float32)
        for k, (i, j) in enumerate(self.pairs):
            found[owner == i, k] = self.coefficients[j - 1, owner == i]
            found[owner == j, k] = self.coefficients[i, owner == j]
        return found


def _machine(ctx: Context, classes: int, features: int) -> _Machine:
    each, rho = numbers(ctx, "vectors_per_class", "int64"), numbers(ctx, "rho")
    vectors, coefficients = numbers(ctx, "support_vectors"), numbers(ctx, "coefficients")
    pairs = list(combinations(range(classes), 2))
    total = int(each.sum())
    if each.size != classes or (each < 0).any() or vectors.size != total * features:
        raise ctx.shape_error(
            f"{vectors.size} numbers are no {total} vectors of {features} features, of {classes} "
            "classes"
        )
    needed = (classes - 1) * total
    if coefficients.size < needed or rho.size < len(pairs):
        raise ctx.shape_error(
            f"{coefficients.size} coefficients and {rho.size} rho for {total} support vectors of "
            f"{classes} classes"
        )
    table = coefficients.reshape(-1)[:needed].reshape(classes - 1, total)  # trainers leave more
    return _Machine(vectors.reshape(total, -1), table, each, rho[: len(pairs)], pairs)


@lowering("SVMClassifier", domain=DOMAIN)
def _svm_classifier(ctx: Context) -> list[Value | Gap | None]:
    """Labels [rows] int64, and scores: the probabilities of the classes, or the decisions of all
    pairs of them; without support vectors a sum for each class.
    """
    b, x, transform = ctx.b, ctx.b.cast(rows_of(ctx), "float32"), transform_of(ctx)
    count, labels = class_labels(ctx, "classlabels_ints")
    if count < 2:
        raise ctx.shape_error("there is one class only")
    if not numbers(ctx, "vectors_per_class").any():
        return _linear(ctx, x, count, labels, transform)
    machine = _machine(ctx, count, x.shape[1])
    kernels = _kernels(ctx, x, machine.vectors.reshape(-1))
    decisions = _plus(b, b.matmul(kernels, b.constant(machine.weights())), machine.rho)
    label = label_at(ctx, _most_votes(b, decisions, machine.pairs, count), labels)
    first, second = numbers(ctx, "prob_a"), numbers(ctx, "prob_b")
    if first.size:
        if not first.size == second.size == len(machine.pairs):
            raise ctx.shape_error(f"{len(machine.pairs)} prob_a and prob_b are expected")
        scores = transformed(b, _probabilities(b, decisions, first, second, count), transform)
    elif count == 2:
        scores = both_classes(ctx, decisions, transform, positive=transform != "NONE")
    else:
        scores = transformed(b, decisions, transform)
    return [label, scores]


def _linear(
    ctx: Context, x: Value, count: int, labels: np.ndarray | None, transform: str
) -> list[Value | Gap | None]:
    """A sum for each class. The second of two is the label wherever the larger sum is positive, as
    in onnxruntime (from 0.5 on if no coefficient is negative).
    """
    b, coefficients, rho = ctx.b, numbers(ctx, "coefficients"), numbers(ctx, "rho")
    if not rho.size:
        raise ctx.shape_error("rho is missing")
    totals = _plus(b, _products(ctx, x, coefficients), rho[:1])
    if totals.shape[1] != count:
        raise ctx.shape_error(f"coefficients of {totals.shape[1]} sums for {count} classes")
    best = extreme_over(b, totals, [1], True)
    where = b.cast(place_of(b, totals, best, 1, False), "int32")
    if count == 2 and not numbers(ctx, "prob_a").size:
        positive = bool((coefficients >= 0).all())

        def second(s: Body, at: Scalar, top: Scalar) -> Scalar:
            sure = top >= 0.5 if positive else top > 0.0
            return s.select(sure, s.const(1, "int32"), at)

        where = b.elementwise(second, where, best)
    return [label_at(ctx, where, labels), transformed(b, totals, transform)]


def _most_votes(b: Builder, decisions: Value, pairs: list[tuple[int, int]], classes: int) -> Value:
    """The class [rows] for which most pairs decide, the first of equal ones."""
    members = np.array(pairs, np.int32)
    reads = [(decisions, "d0, d2"), *((b.constant(members[:, k]), "d2") for k in range(2))]

    def count(s: Body, a: Scalar, i: Scalar, j: Scalar, acc: Scalar) -> Scalar:
        chosen = s.select(a > 0.0, i, j)
        return acc + s.cast(s.cast(chosen, "index").eq(s.index(1)), "int32")

    votes = b.fold(reads, [decisions.shape[0], classes], "int32", 0, "ppr", count)
    return place_of(b, votes, extreme_over(b, votes, [1], True), 1, False)


def _probabilities(
    b: Builder, decisions: Value, first: np.ndarray, second: np.ndarray, classes: int
) -> Value:
    """[rows, classes] from those of pairs, by the second method of Wu, Lin and Weng (JMLR 2004), as
    libsvm computes it: improved one after the other until their error is small.
    """
    rows = decisions.shape[0]
    upper = np.triu_indices(classes, 1)
    pair = np.zeros((classes, classes), np.int32)
    pair[upper] = pair[upper[::-1]] = np.arange(len(upper[0]))

    def of_pair(s: Body, a: Scalar, slope: Scalar, offset: Scalar) -> Scalar:
        return s.clamp(1.0 - sigmoid(s, a * slope + offset), _SURE, 1.0 - _SURE)

    likely = b.elementwise(of_pair, decisions, b.constant(first), b.constant(second))
    table = b.constant(pair)

    def chance(s: Body, i: Scalar, j: Scalar) -> Scalar:
        """That it is i, of i and j."""
        found = s.extract(likely, [s.index(0), s.cast(s.extract(table, [i, j]), "index")])
        return s.select(i < j, found, 1.0 - found)

    def squares(s: Body, acc: Scalar) -> Scalar:
        i, j = s.index(1), s.index(2)
        a = chance(s, j, i)
        return acc + s.select(i.eq(j), 0.0, a * a)

    space = b.empty([classes], "float32")
    own = b.fold(
        [(space, "d2")], [rows, classes], "float32", 0.0, "ppr", lambda s, _, acc: squares(s, acc)
    )

    def product(s: Body, diagonal: Scalar) -> Scalar:
        i, j = s.index(1), s.index(2)
        return s.select(i.eq(j), diagonal, -(chance(s, j, i) * chance(s, i, j)))

    q = b.tabulate([rows, classes, classes], "float32", product, (own, "d0, d1"))
    return _improved(b, q, classes)


def _improved(b: Builder, q: Value, classes: int) -> Value:
    """The probabilities p [rows, classes] that make p' q p least."""
    rows = q.shape[0]

    def row(s: Body, i: Scalar, p: Value, slope: Value) -> list[Value]:
        def start(t: Scalar, p: Value) -> list[Value]:
            return [s.insert(s.const(1.0 / classes, "float32"), p, [i, t])]

        p = s.for_(0, classes, [p], start)[0]
        none, zero = s.const(0.0, "float32"), s.const(0, "index")

        def round_(_: Scalar, p: Value, slope: Value, left: Scalar) -> list[Value | Scalar]:
            """One more, if classes are left to be improved."""

            def line(t: Scalar, slope: Value, total: Scalar) -> list[Value | Scalar]:
                def add(j: Scalar, acc: Scalar) -> list[Scalar]:
                    return [acc + s.extract(q, [i, t, j]) * s.extract(p, [i, j])]

                acc = s.for_(0, classes, [none], add)[0]
                total = total + s.extract(p, [i, t]) * acc
                return [s.insert(acc, slope, [i, t]), total]

            slope, total = s.for_(zero, left, [slope, none], line)

            def error(t: Scalar, worst: Scalar) -> list[Scalar]:
                return [s.maximum(worst, s.abs(s.extract(slope, [i, t]) - total))]

            worst = s.for_(zero, left, [none], error)[0]
            left = s.select(worst < _CLOSE / classes, zero, left)

            def improve(t: Scalar, p: Value, slope: Value, total: Scalar) -> list[Value | Scalar]:
                own, q_own = s.extract(slope, [i, t]), s.extract(q, [i, t, t])
                change = (total - own) / q_own
                total = (total + change * (change * q_own + own * 2.0)) / (change + 1.0)
                total = total / (change + 1.0)
                p = s.insert(s.extract(p, [i, t]) + change, p, [i, t])

                def scale(j: Scalar, p: Value, slope: Value) -> list[Value]:
                    moved = s.extract(slope, [i, j]) + change * s.extract(q, [i, t, j])
                    slope = s.insert(moved / (change + 1.0), slope, [i, j])
                    return [s.insert(s.extract(p, [i, j]) / (change + 1.0), p, [i, j]), slope]

                return [*s.for_(0, classes, [p, slope], scale), total]

            p, slope, _ = s.for_(zero, left, [p, slope, total], improve)
            return [p, slope, left]

        size = s.const(classes, "index")
        return list(s.for_(0, _ITERATIONS, [p, slope, size], round_)[:2])

    shape = [rows, classes]
    return b.loop(rows, [b.empty(shape, "float32"), b.empty(shape, "float32")], row)[0]
