"""The words that the persistent kernel reads, and those it leaves when a wait fails.

`kernelgen.simt.program` is generated from these numbers, and `runtime.gpu.launch_controls` fills
the words in, for each launch, so the layout stands here once. Offsets count 64-bit words.
"""

LINE = 4  # words from one counter to the next: a sector of the second cache for each

FIELDS = (
    "WORDS",  # address of all instruction streams
    "STARTS",  # address of the first word of each EU's stream, in words
    "EVENTS",  # address of the counters: one for each event, the last one for meetings of all EUs
    "COUNTERS",  # how many these are
    "TOTALS",  # address of the number of signals per launch of each event
    "STEPS",  # address of a word for each EU: instructions that it has executed
    "EUS",  # blocks of the launch
    "MEETINGS",  # barriers of all EUs in a launch
    "LIMIT",  # ns that a wait may take
    "REPORT",  # address of the report, which the host can read when the kernel has trapped
)
(WORDS, STARTS, EVENTS, COUNTERS, TOTALS, STEPS, EUS, MEETINGS, LIMIT, REPORT) = range(len(FIELDS))
SIZE = len(FIELDS)

# The report: word 0 is not 0 when there is one. Behind the head the steps of each EU, then the
# count of each counter.
REPORT_FIELDS = ("EU", "EVENT", "TARGET", "BEFORE", "STEPS")
REPORT_EU = 1  # which one waited
REPORT_EVENT = 2  # what it waited for, or ON_ALL, or ON_BOXES
REPORT_TARGET = 3  # the count that it waited for, over all launches
REPORT_BEFORE = 4  # launches before this one
REPORT_STEPS = 5
ON_ALL = -1
ON_BOXES = -2  # inside of an rTask, for boxes of tensors; of STEPS only its own are written then
