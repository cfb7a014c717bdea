"""The control block that the threads of one executable share: where each word lies.

The schedule interpreter (`codegen.veu`) is generated from these numbers, and `runtime.threads`
fills the block in, so the layout stands here once. Offsets count 64-bit words. Every word that
several threads write has a cache line for itself and its number of sleepers, nothing else.
"""

LINE = 8  # words per cache line

# Counters: word 0 only grows, word 1 counts the threads that sleep on it.
EPOCH = 0  # launches so far: the workers wait for the next one here
DONE = 2 * LINE  # workers that finished, over all launches
BARRIER = 4 * LINE  # arrivals, over all launches
ABORT = 6 * LINE  # 0, or 1 + the EU whose wait expired

# Written by Python while no launch runs.
THREADS = 8 * LINE  # threads of the launch, the caller included
SPIN = THREADS + 1  # pauses before the first yield
YIELDS = THREADS + 2  # yields before sleeping
SLICE = THREADS + 3  # ns that a sleeper sleeps at most before it looks around
LIMIT = THREADS + 4  # ns without any progress after which a wait has failed
BUSY_LIMIT = THREADS + 5  # the same while some EU is inside a kernel
STOP = THREADS + 6  # not 0: workers return instead of running
STREAMS = THREADS + 7  # address of the addresses of the instruction streams
KERNELS = THREADS + 8  # address of the addresses of the kernels
EVENTS = THREADS + 9  # address of the event counters, one cache line each
TOTALS = THREADS + 10  # address of the number of signals per launch of each event
UNITS = THREADS + 11  # address of the EU blocks
OPERANDS = THREADS + 12  # most operands of any RUN
WORKSPACES = THREADS + 14  # address of the workspace of EU 0; those of the others follow
WORKSPACE = THREADS + 15  # bytes of one workspace
BASES = THREADS + 13  # address of the base addresses of this launch, set by the launch
# Bits of MXCSR during a launch besides those of FPU_PLAIN, on all EUs: what the caller's thread has
# there, and what a worker had from the thread that started it, changes no result.
FPU = THREADS + 2 * LINE
WORDS = THREADS + 3 * LINE

FPU_FLUSH = 0x8040  # of MXCSR: denormal operands and results are zeros
FPU_PLAIN = 0x1F80  # of MXCSR: round to nearest, keep denormal numbers, interrupt nothing

LOOK = 64  # pauses after which a waiter first looks whether it is in another EU's way
RESCUE = 1024  # pauses after which it first looks whether an EU that works has no CPU ...
WINDOW = 256  # ... while so many pauses more
PATIENCE = 1 << 20  # yields for whoever still moves the caller's thread at the end of a launch
APART = 250_000  # ns: so long an EU that was moved to a waiter's CPU may be woken there

MASK_WORDS = 16  # of a set of CPUs, as the kernel takes it; where it has more CPUs it refuses
MASK_BYTES = 8 * MASK_WORDS
MASK_CPUS = 8 * MASK_BYTES
TAKEN_WORDS = 1 + MASK_WORDS  # see `codegen.placing`, veu_spread

# EU block: one per thread. Others write the second line of it, which holds notes of where threads
# run: they may be late or wrong, and cost time then, never a result.
UNIT_WORDS = 2 * LINE
POSITION = 0  # word of the stream that is being executed
PROGRESS = 1  # grows by one at the start and at the end of each RUN: odd inside a kernel
FAILED = 2  # 1: a wait of this EU expired, 2: it left a wait because another one's expired
EVENT = 3  # what it waited for: an event, or one of the two below
EXPECTED = 4
ACTUAL = 5
STAMPS = 6  # address of two words for each RUN of the stream: ns at its start and end, if timed
PLACES = 7  # 0, or address of a word for each RUN: where in the stream it stands, if timed
CPU = LINE  # 1 + the CPU that it works on; 0: it waits, or it cannot be known; -1: it was woken
TID = LINE + 1  # the kernel's number of its thread; of EU 0 the one that launched last
BEGUN = LINE + 2  # the number of the last launch that it began
SLEEPS_ON = LINE + 3  # address of the counter that it sleeps on, or 0
SLEPT = LINE + 4  # 1 + the CPU on which it went to sleep; 0: it was woken on another one
FETCHED = LINE + 5  # ns of the clock when a waiter last moved it
MOVING = LINE + 6  # 1: somebody changes what CPUs its thread may use, and changes it back; of EU 0
# also while no launch runs
ON_BARRIER = -1
ON_WORKERS = -2

# Opcodes of the instruction streams; see runtime/tables.py for the operands.
END, RUN, WAIT, SIGNAL, BARRIER_OP, REPEAT = range(6)
TAKE = 64  # only `runtime.schedule` writes it: files have none

# Results of the launch function.
OK, ABORTED, LOST = range(3)
