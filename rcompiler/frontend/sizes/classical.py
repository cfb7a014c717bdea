"""Operators of classical machine learning, which look at each row of features by itself."""

from __future__ import annotations

from dataclasses import replace

from rcompiler.frontend.registry import Context, Lowering

from .agreement import fitted
from .rules import Results, as_usual, need_along, need_whole, of_whole, rule, with_extents

_DOMAIN = "ai.onnx.ml"


@rule("Binarizer", "LabelEncoder", domain=_DOMAIN)
def _elements(ctx: Context, lower: Lowering) -> Results:
    """Each element by itself."""
    return with_extents(ctx, of_whole(ctx, lower), ctx.input(0).extents)


rule("OneHotEncoder", domain=_DOMAIN)(as_usual)


def _rows(ctx: Context, lower: Lowering) -> Results:
    """Each row by itself. What is no matrix is one row, of which all features are there."""
    x = ctx.input(0)
    need_whole(ctx, *range(1, len(ctx.inputs)))
    need_along(ctx, x, range(min(1, x.rank - 1), x.rank))
    made = of_whole(ctx, lower)
    return with_extents(
        ctx, made, *((x.extents[0], *[None] * (v.rank - 1)) if v else () for v in made)
    )


rule("TfIdfVectorizer")(_rows)
rule(
    *("ArrayFeatureExtractor", "Imputer", "LinearClassifier", "LinearRegressor", "Normalizer"),
    *("Scaler", "SVMClassifier", "SVMRegressor", "TreeEnsemble", "TreeEnsembleClassifier"),
    *("TreeEnsembleRegressor", "ZipMap"),
    domain=_DOMAIN,
)(_rows)


@rule("FeatureVectorizer", domain=_DOMAIN)
def _feature_vectorizer(ctx: Context, lower: Lowering) -> Results:
    """The same rows of each input."""
    rows = ctx.input(0).sizes[0]
    inputs = [fitted(ctx, ctx.input(k), 0, rows) for k in range(len(ctx.inputs))]
    if any(value.rank != 2 for value in inputs):
        need_whole(ctx, *range(len(inputs)))
    for value in inputs:
        need_along(ctx, value, range(1, value.rank))
    made = of_whole(replace(ctx, inputs=[*inputs]), lower)
    return with_extents(ctx, made, (inputs[0].extents[0], None))
