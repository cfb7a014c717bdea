"""Feature levels of x86-64, and the instruction sets that each of them has, in LLVM's spelling.

Source: the x86-64 psABI §3.1.1.
"""

V3 = frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "movbe"})
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
EXTRA = frozenset({"avx512vnni", "avx512bf16", "avx512fp16", "avxvnni"})  # kept when present
LEVELS: dict[str, frozenset[str]] = {"v4": V4, "v3": V3, "x86-64": frozenset()}
