"""The text of the persistent kernel, in the notation of `support.memory_notation`. @@NAME stands
for a number or text that `program` fills in, or one of `vendor`.
"""

# Until the counter at %address is at least %target; by the first thread. EVENT: what it waits for.
AWAIT_TEXT = """
scf.if %leader {
  %since = @@CLOCK
  scf.while : () -> () {
    %seen := acquire %address[0]
    %short = arith.cmpi slt, %seen, %target : i64
    scf.condition(%short)
  } do {
    %limit := %control[@@AT_LIMIT] : i64
    @@PAUSE
    %now = @@CLOCK
    @@ELAPSED
    %late = arith.cmpi sgt, %gone, %limit : i64
    scf.if %late {
      func.call @give_up(%control, %eu, @@EVENT, %target, %before)
        : (!llvm.ptr<1>, i64, i64, i64, i64) -> ()
    }
    scf.yield
  }
}
"""

# What the block has written is there before what is counted behind the release.
_RELEASE_TEXT = """
@@SETTLE
gpu.barrier
scf.if %leader {
  llvm.fence syncscope("@@SCOPE") release
  @@RELEASED
@@COUNTED
}
"""

_COUNT_TEXT = """
%counted = llvm.atomicrmw add %address, %c1 syncscope("@@SCOPE") monotonic
  : !llvm.ptr<1>, i64
"""

# All signals in a row: the release waits until all stores of the block have arrived.
_COUNT_ALL_TEXT = """
%last = scf.while (%s = %w) : (!llvm.ptr<1>) -> (!llvm.ptr<1>) {
  %event := %s[1] : i64
  %event_word = arith.muli %event, %line : i64
  %address = & %events[%event_word]
@@COUNT_TEXT
  %after = & %s[2]
  %following := %after[0] : i64
  %again = arith.cmpi eq, %following, %signal : i64
  scf.condition(%again) %after : !llvm.ptr<1>
} do {
^signals(%s: !llvm.ptr<1>):
  scf.yield %s : !llvm.ptr<1>
}
"""

SIGNAL_TEXT = _RELEASE_TEXT.replace("@@COUNTED", _COUNT_TEXT)
SIGNALS_TEXT = _RELEASE_TEXT.replace(
    "@@COUNTED", _COUNT_ALL_TEXT.replace("@@COUNT_TEXT", _COUNT_TEXT)
)

# The host has written tensor maps: each block drops what it may remember of them, before it uses
# one (CUDA C++ programming guide, "Using TMA to transfer multi-dimensional arrays").
MAPS_TEXT = """
%map_count := %boxes[0] : i64
%maps := %boxes[1] : !llvm.ptr<1>
%map_bytes = arith.constant @@MAP_BYTES : i64
%map_size = arith.constant @@MAP_BYTES : i32
scf.for %k = %thread to %map_count step %threads : i64 {
  %byte = arith.muli %k, %map_bytes : i64
  %map = llvm.getelementptr %maps[%byte] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8
  %generic = llvm.addrspacecast %map : !llvm.ptr<1> to !llvm.ptr
  nvvm.fence.proxy.acquire #nvvm.mem_scope<sys> %generic, %map_size
}
"""

KERNEL_TEXT = """
// Write down who waits for what, and where every block is; only the first block that comes here.
// An atomic reads no older value than that of the device.
func.func private @give_up(
    %control: !llvm.ptr<1>, %eu: i64, %event: i64, %target: i64, %before: i64)
    attributes {no_inline} {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %report := %control[@@AT_REPORT] : !llvm.ptr<1>
  %found = llvm.cmpxchg %report, %c0, %c1 syncscope("@@SCOPE") monotonic monotonic
    : !llvm.ptr<1>, i64
  %mine = llvm.extractvalue %found[1] : !llvm.struct<(i64, i1)>
  scf.if %mine {
    %report[@@IN_EU] := %eu
    %report[@@IN_EVENT] := %event
    %report[@@IN_TARGET] := %target
    %report[@@IN_BEFORE] := %before
    %counters := %control[@@AT_COUNTERS] : i64
    %events := %control[@@AT_EVENTS] : !llvm.ptr<1>
    %steps := %control[@@AT_STEPS] : !llvm.ptr<1>
    %eus := %control[@@AT_EUS] : i64
    %line = arith.constant @@LINE : i64
    %head = arith.constant @@IN_STEPS : i64
    scf.for %k = %c0 to %eus step %c1 : i64 {
      %at = & %steps[%k]
      %where = llvm.atomicrmw add %at, %c0 syncscope("@@SCOPE") monotonic : !llvm.ptr<1>, i64
      %place = arith.addi %k, %head : i64
      %report[%place] := %where
    }
    %behind = arith.addi %eus, %head : i64
    scf.for %k = %c0 to %counters step %c1 : i64 {
      %word = arith.muli %k, %line : i64
      %at = & %events[%word]
      %count = llvm.atomicrmw add %at, %c0 syncscope("@@SCOPE") monotonic : !llvm.ptr<1>, i64
      %place = arith.addi %k, %behind : i64
      %report[%place] := %count
    }
    llvm.fence release
    @@RELEASED
    "llvm.intr.trap"() : () -> ()
  }
  return
}

gpu.func @veu(%control: !llvm.ptr<1>, %bases: !llvm.ptr<1>, %boxes: !llvm.ptr<1>, %epoch: i64)
    kernel attributes {known_block_size = array<i32: @@THREADS, 1, 1>, @@KERNEL} {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %c2 = arith.constant 2 : i64
  %c5 = arith.constant 5 : i64
  %nowhere = arith.constant -1 : i64
  %line = arith.constant @@LINE : i64
  %end = arith.constant @@OP_END : i64
  @@CONSTANTS
  %threads = arith.constant @@THREADS : i64
  %thread_index = gpu.thread_id x
  %block_index = gpu.block_id x
  %thread = arith.index_cast %thread_index : index to i64
  %eu = arith.index_cast %block_index : index to i64
  %leader = arith.cmpi eq, %thread, %c0 : i64
  %before = arith.subi %epoch, %c1 : i64
  %shared = llvm.mlir.addressof @veu_shared : !llvm.ptr<3>
  %workspace = llvm.getelementptr %shared[@@PINNED] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  %steps := %control[@@AT_STEPS] : !llvm.ptr<1>
  %own_steps = & %steps[%eu]
  %words := %control[@@AT_WORDS] : !llvm.ptr<1>
  %starts := %control[@@AT_STARTS] : !llvm.ptr<1>
  %start := %starts[%eu] : i64
  %stream = & %words[%start]
@@MAPS_TEXT
  // Registers are for the rKernels: what is needed again now and then is read where it is needed.
  %over:4 = scf.while (%w = %stream, %met = %c0, %made = %c0)
      : (!llvm.ptr<1>, i64, i64) -> (!llvm.ptr<1>, i64, i64, i64) {
    %op := %w[0] : i64
    %more = arith.cmpi ne, %op, %end : i64
    scf.condition(%more) %w, %met, %made, %op : !llvm.ptr<1>, i64, i64, i64
  } do {
  ^instruction(%w: !llvm.ptr<1>, %met: i64, %made: i64, %op: i64):
    scf.if %leader {
      %own_steps[0] := relaxed %made
    }
    %made_now = arith.addi %made, %c1 : i64
    %number = arith.index_cast %op : i64 to index
    %next:3 = scf.index_switch %number -> !llvm.ptr<1>, i64, i64
    case @@OP_RUN {
      gpu.barrier
      %kernel := %w[1] : i64
      %first := %w[2] : i64
      %count := %w[3] : i64
      %stride := %w[4] : i64
      %n := %w[5] : i64
      %pairs = & %w[6]
      %pair_words = arith.muli %n, %c2 : i64
      %behind = & %pairs[%pair_words]
      %record = arith.muli %kernel, %c2 : i64
      %record_word = arith.addi %record, %c2 : i64
      %own_boxes = & %boxes[%record_word]
      %which = arith.index_cast %kernel : i64 to index
      scf.index_switch %which
@@CASES
      default {
      }
      scf.yield %behind, %met, %made_now : !llvm.ptr<1>, i64, i64
    }
    case @@OP_WAIT {
      %event := %w[1] : i64
      %wanted := %w[2] : i64
      %totals := %control[@@AT_TOTALS] : !llvm.ptr<1>
      %events := %control[@@AT_EVENTS] : !llvm.ptr<1>
      %total := %totals[%event] : i64
      %earlier = arith.muli %total, %before : i64
      %target = arith.addi %earlier, %wanted : i64
      %event_word = arith.muli %event, %line : i64
      %address = & %events[%event_word]
@@AWAIT_EVENT
      %behind = & %w[3]
      scf.yield %behind, %met, %made_now : !llvm.ptr<1>, i64, i64
    }
    case @@OP_SIGNAL {
      %signal = arith.constant @@OP_SIGNAL : i64
      %events := %control[@@AT_EVENTS] : !llvm.ptr<1>
@@SIGNALS_TEXT
      %behind:2 = scf.while (%s = %w, %counts = %made)
          : (!llvm.ptr<1>, i64) -> (!llvm.ptr<1>, i64) {
        %after = & %s[2]
        %counts_now = arith.addi %counts, %c1 : i64
        %following := %after[0] : i64
        %again = arith.cmpi eq, %following, %signal : i64
        scf.condition(%again) %after, %counts_now : !llvm.ptr<1>, i64
      } do {
      ^signals(%s: !llvm.ptr<1>, %counts: i64):
        scf.yield %s, %counts : !llvm.ptr<1>, i64
      }
      scf.yield %behind#0, %met, %behind#1 : !llvm.ptr<1>, i64, i64
    }
    case @@OP_BARRIER {
      %events := %control[@@AT_EVENTS] : !llvm.ptr<1>
      %counters := %control[@@AT_COUNTERS] : i64
      %meetings := %control[@@AT_MEETINGS] : i64
      %eus := %control[@@AT_EUS] : i64
      %last_counter = arith.subi %counters, %c1 : i64
      %meeting_word = arith.muli %last_counter, %line : i64
      %address = & %events[%meeting_word]
      %met_before = arith.muli %before, %meetings : i64
      %now_met = arith.addi %met, %c1 : i64
      %met_in_all = arith.addi %met_before, %now_met : i64
      %target = arith.muli %met_in_all, %eus : i64
@@SIGNAL_TEXT
@@AWAIT_ALL
      %behind = & %w[1]
      scf.yield %behind, %now_met, %made_now : !llvm.ptr<1>, i64, i64
    }
    case @@OP_REPEAT {
      // the words of the body move on, or back to where they began
      gpu.barrier
      %times := %w[1] : i64
      %length := %w[2] : i64
      %iteration := %w[3] : i64
      %n := %w[4] : i64
      %done = arith.addi %iteration, %c1 : i64
      %again = arith.cmpi slt, %done, %times : i64
      %back = arith.subi %c0, %iteration : i64
      %factor = arith.select %again, %c1, %back : i64
      %distance = arith.subi %c0, %length : i64
      %body = & %w[%distance]
      scf.for %k = %thread to %n step %threads : i64 {
        %k2 = arith.muli %k, %c2 : i64
        %pair = arith.addi %k2, %c5 : i64
        %pair_end = arith.addi %pair, %c1 : i64
        %word := %w[%pair] : i64
        %step := %w[%pair_end] : i64
        %moved = arith.muli %step, %factor : i64
        %old := %body[%word] : i64
        %new = arith.addi %old, %moved : i64
        %body[%word] := %new
      }
      %kept = arith.select %again, %done, %c0 : i64
      gpu.barrier
      scf.if %leader {
        %w[3] := %kept
      }
      gpu.barrier
      %pairs = arith.muli %n, %c2 : i64
      %size = arith.addi %pairs, %c5 : i64
      %behind = & %w[%size]
      %to = arith.select %again, %body, %behind : !llvm.ptr<1>
      // this jump is no step
      scf.yield %to, %met, %made : !llvm.ptr<1>, i64, i64
    }
    default {
      "llvm.intr.trap"() : () -> ()
      scf.yield %w, %met, %made_now : !llvm.ptr<1>, i64, i64
    }
    scf.yield %next#0, %next#1, %next#2 : !llvm.ptr<1>, i64, i64
  }
  scf.if %leader {
    %own_steps[0] := relaxed %over#2
  }
  gpu.return
}
"""
