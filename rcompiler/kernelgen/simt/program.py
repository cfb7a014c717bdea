"""The persistent kernel of a GPU: each block is an execution unit and walks its instruction stream.

    gpu.func @veu(%control: !llvm.ptr<1>, %bases: !llvm.ptr<1>, %epoch: i64) kernel

One cooperative launch runs all programs of a model (Rammer, OSDI'20 §4, with the waits inside of
the kernel that its published code does not have). The streams are those of `rcompiler.rammer.encode`
and lie in global memory; `control` are words as in `rcompiler.runtime.gpu.control`.

What a block does is seen by the others as follows. A signal is a barrier of the block, a release
fence and a relaxed addition by its first thread; a wait an acquiring load by the first thread, with
a barrier of the block before the next run. Between two runs of one block there is a barrier, too,
as the threads of the second read what others wrote in the first. Events, and meetings of all
blocks, count up for ever: the n-th signal of launch number e is number (e - 1) * total + n, so
nothing is cleared between inferences.

A wait that takes longer than the limit ends the kernel: the first block that gives up writes down
who waited for what and where every block was, and traps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rcompiler.kernelgen.simt.emitter import GLOBAL, SHARED
from rcompiler.runtime.gpu import control as at
from rcompiler.runtime.tables import BARRIER, END, REPEAT, RUN, SIGNAL, WAIT

ENTRY = "veu"
_SHARED = "veu_shared"
_SLEEP = 20  # ns between two looks at an event


def program_text(kernels: Sequence[str], functions: Sequence[str], threads: int) -> str:
    """A gpu.module with the persistent kernel.

    kernels: names of the device functions, by number in the streams; functions: their texts;
    threads: of a block.
    """
    cases = "\n".join(
        f"      case {number} {{\n"
        f"        func.call @{name}(%pairs, %bases, %first, %count, %stride, %shared)\n"
        f"          : ({GLOBAL}, {GLOBAL}, i64, i64, i64, {SHARED}) -> ()\n"
        "        scf.yield\n"
        "      }"
        for number, name in enumerate(kernels)
    )
    parts = {**_PARTS, "CASES": cases, "THREADS": str(threads)}
    entry = _filled(_filled(_ENTRY, parts), _NUMBERS)
    shared = (
        f"llvm.mlir.global external @{_SHARED}() "
        "{addr_space = 3 : i32, alignment = 128 : i64, dso_local} : !llvm.array<0 x i8>"
    )
    return "\n".join(["gpu.module @rcompiler {", shared, *functions, entry, "}"])


def _filled(text: str, names: Mapping[str, object]) -> str:
    """`text` with the names behind @@ replaced; others stay."""
    return re.sub(r"@@(\w+)", lambda m: str(names.get(m[1], m[0])), text)


_NUMBERS = {
    **{f"AT_{name}": getattr(at, name) for name in at.FIELDS},
    **{f"IN_{name}": getattr(at, "REPORT_" + name) for name in at.REPORT_FIELDS},
    "OP_RUN": RUN,
    "OP_WAIT": WAIT,
    "OP_SIGNAL": SIGNAL,
    "OP_BARRIER": BARRIER,
    "OP_REPEAT": REPEAT,
    "OP_END": END,
    "LINE": at.LINE,
    "SLEEP": _SLEEP,
}

# Until the counter at %address is at least %target; by the first thread. EVENT: what it waits for.
_AWAIT = """
scf.if %leader {
  %since = nvvm.read.ptx.sreg.globaltimer : i64
  scf.while : () -> () {
    %seen = llvm.load %address atomic syncscope("device") acquire {alignment = 8 : i64} : !llvm.ptr<1> -> i64
    %short = arith.cmpi slt, %seen, %target : i64
    scf.condition(%short)
  } do {
    nvvm.nanosleep %sleep
    %now = nvvm.read.ptx.sreg.globaltimer : i64
    %gone = arith.subi %now, %since : i64
    %late = arith.cmpi sgt, %gone, %limit : i64
    scf.if %late {
      func.call @give_up(%control, %eu, @@EVENT, %target, %before) : (!llvm.ptr<1>, i64, i64, i64, i64) -> ()
    }
    scf.yield
  }
}
"""

_SIGNAL = """
gpu.barrier
scf.if %leader {
  llvm.fence syncscope("device") release
  %counted = llvm.atomicrmw add %address, %c1 syncscope("device") monotonic : !llvm.ptr<1>, i64
}
"""

_PARTS = {
    "AWAIT_EVENT": _filled(_AWAIT, {"EVENT": "%event"}),
    "AWAIT_ALL": _filled(_AWAIT, {"EVENT": "%nowhere"}),
    "SIGNAL_TEXT": _SIGNAL,
}

_ENTRY = """
// Write down who waits for what, and where every block is; only the first block that comes here.
func.func private @give_up(%control: !llvm.ptr<1>, %eu: i64, %event: i64, %target: i64, %before: i64) attributes {no_inline} {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %preport = llvm.getelementptr %control[@@AT_REPORT] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
  %report = llvm.load %preport : !llvm.ptr<1> -> !llvm.ptr<1>
  %found = llvm.cmpxchg %report, %c0, %c1 syncscope("device") monotonic monotonic : !llvm.ptr<1>, i64
  %mine = llvm.extractvalue %found[1] : !llvm.struct<(i64, i1)>
  scf.if %mine {
    %peu = llvm.getelementptr %report[@@IN_EU] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
    llvm.store %eu, %peu : i64, !llvm.ptr<1>
    %pevent = llvm.getelementptr %report[@@IN_EVENT] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
    llvm.store %event, %pevent : i64, !llvm.ptr<1>
    %ptarget = llvm.getelementptr %report[@@IN_TARGET] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
    llvm.store %target, %ptarget : i64, !llvm.ptr<1>
    %pepoch = llvm.getelementptr %report[@@IN_BEFORE] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
    llvm.store %before, %pepoch : i64, !llvm.ptr<1>
    %pcounters = llvm.getelementptr %control[@@AT_COUNTERS] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
    %counters = llvm.load %pcounters : !llvm.ptr<1> -> i64
    %pevents = llvm.getelementptr %control[@@AT_EVENTS] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
    %events = llvm.load %pevents : !llvm.ptr<1> -> !llvm.ptr<1>
    %psteps = llvm.getelementptr %control[@@AT_STEPS] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
    %steps = llvm.load %psteps : !llvm.ptr<1> -> !llvm.ptr<1>
    %peus = llvm.getelementptr %control[@@AT_EUS] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
    %eus = llvm.load %peus : !llvm.ptr<1> -> i64
    %line = arith.constant @@LINE : i64
    %head = arith.constant @@IN_STEPS : i64
    scf.for %k = %c0 to %eus step %c1 : i64 {
      %from = llvm.getelementptr %steps[%k] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
      %where = llvm.load %from atomic syncscope("device") monotonic {alignment = 8 : i64} : !llvm.ptr<1> -> i64
      %place = arith.addi %k, %head : i64
      %to = llvm.getelementptr %report[%place] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
      llvm.store %where, %to : i64, !llvm.ptr<1>
    }
    %behind = arith.addi %eus, %head : i64
    scf.for %k = %c0 to %counters step %c1 : i64 {
      %word = arith.muli %k, %line : i64
      %from = llvm.getelementptr %events[%word] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
      %count = llvm.load %from atomic syncscope("device") monotonic {alignment = 8 : i64} : !llvm.ptr<1> -> i64
      %place = arith.addi %k, %behind : i64
      %to = llvm.getelementptr %report[%place] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
      llvm.store %count, %to : i64, !llvm.ptr<1>
    }
    llvm.fence release
    "llvm.intr.trap"() : () -> ()
  }
  return
}

gpu.func @veu(%control: !llvm.ptr<1>, %bases: !llvm.ptr<1>, %epoch: i64) kernel attributes {known_block_size = array<i32: @@THREADS, 1, 1>} {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %c2 = arith.constant 2 : i64
  %c3 = arith.constant 3 : i64
  %c5 = arith.constant 5 : i64
  %c6 = arith.constant 6 : i64
  %nowhere = arith.constant -1 : i64
  %line = arith.constant @@LINE : i64
  %end = arith.constant @@OP_END : i64
  %sleep = arith.constant @@SLEEP : i32
  %threads = arith.constant @@THREADS : i64
  %thread_index = gpu.thread_id x
  %block_index = gpu.block_id x
  %thread = arith.index_cast %thread_index : index to i64
  %eu = arith.index_cast %block_index : index to i64
  %leader = arith.cmpi eq, %thread, %c0 : i64
  %before = arith.subi %epoch, %c1 : i64
  %shared = llvm.mlir.addressof @veu_shared : !llvm.ptr<3>
  %pwords = llvm.getelementptr %control[@@AT_WORDS] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
  %words = llvm.load %pwords : !llvm.ptr<1> -> !llvm.ptr<1>
  %pstarts = llvm.getelementptr %control[@@AT_STARTS] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
  %starts = llvm.load %pstarts : !llvm.ptr<1> -> !llvm.ptr<1>
  %pevents = llvm.getelementptr %control[@@AT_EVENTS] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
  %events = llvm.load %pevents : !llvm.ptr<1> -> !llvm.ptr<1>
  %ptotals = llvm.getelementptr %control[@@AT_TOTALS] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
  %totals = llvm.load %ptotals : !llvm.ptr<1> -> !llvm.ptr<1>
  %psteps = llvm.getelementptr %control[@@AT_STEPS] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
  %steps = llvm.load %psteps : !llvm.ptr<1> -> !llvm.ptr<1>
  %peus = llvm.getelementptr %control[@@AT_EUS] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
  %eus = llvm.load %peus : !llvm.ptr<1> -> i64
  %pmeetings = llvm.getelementptr %control[@@AT_MEETINGS] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
  %meetings = llvm.load %pmeetings : !llvm.ptr<1> -> i64
  %plimit = llvm.getelementptr %control[@@AT_LIMIT] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
  %limit = llvm.load %plimit : !llvm.ptr<1> -> i64
  %pcounters = llvm.getelementptr %control[@@AT_COUNTERS] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
  %counters = llvm.load %pcounters : !llvm.ptr<1> -> i64
  %last_counter = arith.subi %counters, %c1 : i64
  %meeting_word = arith.muli %last_counter, %line : i64
  %meeting = llvm.getelementptr %events[%meeting_word] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
  %met_before = arith.muli %before, %meetings : i64
  %pstart = llvm.getelementptr %starts[%eu] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
  %start = llvm.load %pstart : !llvm.ptr<1> -> i64
  %pmade = llvm.getelementptr %steps[%eu] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
  %over:3 = scf.while (%at = %start, %met = %met_before, %made = %c0) : (i64, i64, i64) -> (i64, i64, i64) {
    %pop = llvm.getelementptr %words[%at] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
    %op = llvm.load %pop : !llvm.ptr<1> -> i64
    %more = arith.cmpi ne, %op, %end : i64
    scf.condition(%more) %at, %met, %made : i64, i64, i64
  } do {
  ^instruction(%at: i64, %met: i64, %made: i64):
    scf.if %leader {
      llvm.store %made, %pmade atomic syncscope("device") monotonic {alignment = 8 : i64} : i64, !llvm.ptr<1>
    }
    %w = llvm.getelementptr %words[%at] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
    %op = llvm.load %w : !llvm.ptr<1> -> i64
    %w1 = llvm.getelementptr %w[1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
    %w2 = llvm.getelementptr %w[2] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
    %w3 = llvm.getelementptr %w[3] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
    %w4 = llvm.getelementptr %w[4] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
    %w5 = llvm.getelementptr %w[5] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
    %number = arith.index_cast %op : i64 to index
    %next:2 = scf.index_switch %number -> i64, i64
    case @@OP_RUN {
      gpu.barrier
      %kernel = llvm.load %w1 : !llvm.ptr<1> -> i64
      %first = llvm.load %w2 : !llvm.ptr<1> -> i64
      %count = llvm.load %w3 : !llvm.ptr<1> -> i64
      %stride = llvm.load %w4 : !llvm.ptr<1> -> i64
      %n = llvm.load %w5 : !llvm.ptr<1> -> i64
      %pairs = llvm.getelementptr %w[6] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
      %which = arith.index_cast %kernel : i64 to index
      scf.index_switch %which
@@CASES
      default {
      }
      %pair_words = arith.muli %n, %c2 : i64
      %size = arith.addi %pair_words, %c6 : i64
      %behind = arith.addi %at, %size : i64
      scf.yield %behind, %met : i64, i64
    }
    case @@OP_WAIT {
      %event = llvm.load %w1 : !llvm.ptr<1> -> i64
      %wanted = llvm.load %w2 : !llvm.ptr<1> -> i64
      %ptotal = llvm.getelementptr %totals[%event] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
      %total = llvm.load %ptotal : !llvm.ptr<1> -> i64
      %earlier = arith.muli %total, %before : i64
      %target = arith.addi %earlier, %wanted : i64
      %event_word = arith.muli %event, %line : i64
      %address = llvm.getelementptr %events[%event_word] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
@@AWAIT_EVENT
      %behind = arith.addi %at, %c3 : i64
      scf.yield %behind, %met : i64, i64
    }
    case @@OP_SIGNAL {
      %event = llvm.load %w1 : !llvm.ptr<1> -> i64
      %event_word = arith.muli %event, %line : i64
      %address = llvm.getelementptr %events[%event_word] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
@@SIGNAL_TEXT
      %behind = arith.addi %at, %c2 : i64
      scf.yield %behind, %met : i64, i64
    }
    case @@OP_BARRIER {
      %now_met = arith.addi %met, %c1 : i64
      %target = arith.muli %now_met, %eus : i64
      %address = llvm.getelementptr %meeting[0] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
@@SIGNAL_TEXT
@@AWAIT_ALL
      %behind = arith.addi %at, %c1 : i64
      scf.yield %behind, %now_met : i64, i64
    }
    case @@OP_REPEAT {
      // the words of the body move on, or back to where they began
      gpu.barrier
      %times = llvm.load %w1 : !llvm.ptr<1> -> i64
      %length = llvm.load %w2 : !llvm.ptr<1> -> i64
      %iteration = llvm.load %w3 : !llvm.ptr<1> -> i64
      %n = llvm.load %w4 : !llvm.ptr<1> -> i64
      %done = arith.addi %iteration, %c1 : i64
      %again = arith.cmpi slt, %done, %times : i64
      %back = arith.subi %c0, %iteration : i64
      %factor = arith.select %again, %c1, %back : i64
      %body = arith.subi %at, %length : i64
      scf.for %k = %thread to %n step %threads : i64 {
        %k2 = arith.muli %k, %c2 : i64
        %pair = arith.addi %k2, %c5 : i64
        %pword = llvm.getelementptr %w[%pair] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
        %word = llvm.load %pword : !llvm.ptr<1> -> i64
        %pstep = llvm.getelementptr %pword[1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
        %step = llvm.load %pstep : !llvm.ptr<1> -> i64
        %moved = arith.muli %step, %factor : i64
        %place = arith.addi %body, %word : i64
        %ptarget = llvm.getelementptr %words[%place] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
        %old = llvm.load %ptarget : !llvm.ptr<1> -> i64
        %new = arith.addi %old, %moved : i64
        llvm.store %new, %ptarget : i64, !llvm.ptr<1>
      }
      %kept = arith.select %again, %done, %c0 : i64
      gpu.barrier
      scf.if %leader {
        llvm.store %kept, %w3 : i64, !llvm.ptr<1>
      }
      gpu.barrier
      %pairs = arith.muli %n, %c2 : i64
      %size = arith.addi %pairs, %c5 : i64
      %behind = arith.addi %at, %size : i64
      %to = arith.select %again, %body, %behind : i64
      scf.yield %to, %met : i64, i64
    }
    default {
      "llvm.intr.trap"() : () -> ()
      scf.yield %at, %met : i64, i64
    }
    // the jump of a loop is no step
    %jump = arith.constant @@OP_REPEAT : i64
    %counts = arith.cmpi ne, %op, %jump : i64
    %step_made = arith.extui %counts : i1 to i64
    %made_now = arith.addi %made, %step_made : i64
    scf.yield %next#0, %next#1, %made_now : i64, i64, i64
  }
  gpu.return
}
"""
