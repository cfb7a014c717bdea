"""PTX text to data: `parser.parse` makes a `syntax.Module` of it, or raises UnsupportedPtx."""
