"""What the kernels of `gpu_bench_text` and those who launch them have to agree on."""

THREADS = 256  # of a block that synchronises, as in the persistent kernel
WORKERS = 512  # of a block that computes or reads
ACCUMULATORS, UNROLL = 8, 4
TILES = 4
LOADS = 4  # at once, of a thread
ROUND = WORKERS * 4 * LOADS  # words that a block loads at once
SHARED_WORDS = ROUND
STEPS = {"f16": 16, "bf16": 16, "tf32": 8, "i8": 32}  # of the reduction in one product
ONES = {"f16": 0x3C003C00, "bf16": 0x3F803F80, "tf32": 0x3F800000, "i8": 0x01010101}
ROWS, COLUMNS = 16, 8
START = 16  # words of zeros from here on in %data are what sums begin with
CLOCKS = 4  # `sums` writes cycles and ns of block 0 into words 4 and 5 of %data
