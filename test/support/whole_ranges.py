"""One program for all sizes of a range, in the place of several."""

from rcompiler.frontend.size_sets import sizes_of


def whole_ranges(model, shapes):
    """`buckets` of compile_onnx: a single one for each range in shapes."""
    found = sizes_of(model, shapes)
    if found is None:
        return None
    tops = zip(*found.buckets, strict=True)
    return {
        s: (max(high for _, high in each),) for s, each in zip(found.symbols, tops, strict=True)
    }
