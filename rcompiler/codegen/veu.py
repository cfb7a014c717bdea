"""The schedule interpreter and its synchronisation, as a module of the llvm dialect.

The virtual execution units (Rammer's vEUs, OSDI'20 §4) are threads that stay inside this code:
a worker waits for the next launch, walks its instruction stream, reports back and waits again.
An inference is one foreign call of `veu_launch`, whatever the number of operators.

    veu_launch(control, bases) -> i64      run one inference as EU 0; OK, ABORTED or LOST
    veu_worker(control, eu, epoch)         serve as EU `eu` from launch number `epoch` on
    veu_main(control, eu, epoch)           one stream, one launch
    veu_stop(control)                      make the workers return
    veu_launch_timed, veu_worker_timed     the same, and note when each RUN begins and ends

Events, barriers and launches are counters that only grow: a wait for the n-th signal of launch e
waits for (e - 1) * signals_per_launch + n, so nothing is cleared between inferences. A waiter
spins, then sleeps in a futex (see `codegen.waits`); a signal enters the kernel only if somebody
sleeps.

TAKE calls what stands in a queue that nobody has taken, which is a number from a counter; END comes
back to it, until the numbers are higher than the queues. Each launch counts up by as many as there
are queues and threads, so that the next one starts with a number that is known.

What a thread has in MXCSR (it may flush denormal numbers to zero, or round upwards) is put away for
the time of a launch: all EUs round alike, whoever calls.

Every wait inside a launch is bounded: a sleeper looks around once per slice, and if no EU made
any progress for the limit it writes down what it waited for, and all others leave their waits too.

In the texts of this module, of `waits` and of `placing`, which are one: accesses of memory are
written as in `support.memory_notation`; $5 is the i64 5, $NAME a number of `runtime.control`, which
stands for @@NAME outside of values; $true and $false are an i1.
"""

import re
from collections.abc import Mapping
from functools import cache

from rcompiler.codegen.half import TEXT as CONVERSIONS
from rcompiler.codegen.llvm_ir import llvm_ir
from rcompiler.codegen.placing import TEXT as PLACING
from rcompiler.codegen.waits import TEXT as WAITS
from rcompiler.runtime import control as at
from rcompiler.support.memory_notation import Memory

_WALK = """
// Walk the stream of one EU once.
llvm.func @veu_main(%ctl: !llvm.ptr, %eu: i64, %epoch: i64) {
  %before = llvm.sub %epoch, $1 : i64
  %streams := %ctl[@@STREAMS] : !llvm.ptr
  %stream := %streams[%eu] : !llvm.ptr
  %kernels := %ctl[@@KERNELS] : !llvm.ptr
  %events := %ctl[@@EVENTS] : !llvm.ptr
  %totals := %ctl[@@TOTALS] : !llvm.ptr
  %bases := %ctl[@@BASES] : !llvm.ptr
  %pbarrier = & %ctl[@@BARRIER]
  %threads := %ctl[@@THREADS]
  %units := %ctl[@@UNITS] : !llvm.ptr
  %unit_word = llvm.mul %eu, $UNIT_WORDS : i64
  %unit = & %units[%unit_word]
  %pposition = & %unit[@@POSITION]
  %pprogress = & %unit[@@PROGRESS]
  %progress := *%pprogress
  %most := %ctl[@@OPERANDS]
  %workspaces := %ctl[@@WORKSPACES] : !llvm.ptr
  %workspace_bytes := %ctl[@@WORKSPACE]
  %workspace_start = llvm.mul %eu, %workspace_bytes : i64
  %workspace = llvm.getelementptr %workspaces[%workspace_start]
    : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %operands = llvm.alloca %most x !llvm.ptr {alignment = 64 : i64} : (i64) -> !llvm.ptr
  %preturn = llvm.alloca $1 x i64 : (i64) -> !llvm.ptr
  %nowhere = llvm.mlir.constant(-1 : i64) : i64
  *%preturn := %nowhere
  %pcallers = llvm.alloca $1 x i64 : (i64) -> !llvm.ptr
  %pown = llvm.alloca $1 x i64 : (i64) -> !llvm.ptr
  %fpu := %ctl[@@FPU]
  %own = llvm.or %fpu, $FPU_PLAIN : i64
  *%pown := %own
  llvm.call_intrinsic "llvm.x86.sse.stmxcsr"(%pcallers) : (!llvm.ptr) -> ()
  llvm.call_intrinsic "llvm.x86.sse.ldmxcsr"(%pown) : (!llvm.ptr) -> ()
  llvm.call @veu_begin(%unit, %epoch) : (!llvm.ptr, i64) -> ()
  llvm.call @veu_here(%unit) : (!llvm.ptr) -> ()
  llvm.br ^next($0, %progress : i64, i64)

^next(%pos: i64, %made: i64):
  *%pposition := %pos
  %w = & %stream[%pos]
  %op := *%w
  %w1 = & %w[1]
  %a1 = & %w[2]
  llvm.switch %op : i64, ^end [
    @@RUN: ^run, @@WAIT: ^wait, @@SIGNAL: ^signal, @@BARRIER_OP: ^barrier, @@REPEAT: ^repeat,
    @@TAKE: ^take, @@END: ^over
  ]

^run:
  %kernel := *%w1
  %first := *%a1
  %count := %w[3]
  %stride := %w[4]
  %n := %w[5]
  %pairs = & %w[6]
  llvm.br ^fill($0 : i64)
^fill(%i: i64):
  %more = llvm.icmp "slt" %i, %n : i64
  llvm.cond_br %more, ^operand, ^call
^operand:
  %i2 = llvm.shl %i, $1 : i64
  %pair = & %pairs[%i2]
  %base := *%pair
  %offset := %pair[1]
  %start := %bases[%base] : !llvm.ptr
  %address = llvm.getelementptr %start[%offset] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %operands[%i] := %address : !llvm.ptr
  %i1 = llvm.add %i, $1 : i64
  llvm.br ^fill(%i1 : i64)
^call:
  %function := %kernels[%kernel] : !llvm.ptr
  %made1 = llvm.add %made, $1 : i64
  *%pprogress := relaxed %made1
@@BEFORE
  llvm.call %function(%operands, %first, %count, %stride, %workspace)
    : !llvm.ptr, (!llvm.ptr, i64, i64, i64, !llvm.ptr) -> ()
@@AFTER
  %made2 = llvm.add %made, $2 : i64
  *%pprogress := relaxed %made2
  %n2 = llvm.shl %n, $1 : i64
  %size = llvm.add %n2, $6 : i64
  %after_run = llvm.add %pos, %size : i64
  llvm.br ^next(%after_run, %made2 : i64, i64)

^wait:
  %event := *%w1
  %wanted := *%a1
  %total := %totals[%event]
  %earlier = llvm.mul %total, %before : i64
  %target = llvm.add %earlier, %wanted : i64
  %event_word = llvm.mul %event, $LINE : i64
  %pevent = & %events[%event_word]
  %came = llvm.call @veu_wait(%ctl, %unit, %eu, %pevent, %target, %event)
    : (!llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64, i64) -> i1
  %after_wait = llvm.add %pos, $3 : i64
  llvm.cond_br %came, ^next(%after_wait, %made : i64, i64), ^failed

^signal:
  %event2 := *%w1
  %event2_word = llvm.mul %event2, $LINE : i64
  %pevent2 = & %events[%event2_word]
  %signalled = llvm.call @veu_add(%ctl, %pevent2) : (!llvm.ptr, !llvm.ptr) -> i64
  %after_signal = llvm.add %pos, $2 : i64
  llvm.br ^next(%after_signal, %made : i64, i64)

^barrier:
  %arrival = llvm.call @veu_add(%ctl, %pbarrier) : (!llvm.ptr, !llvm.ptr) -> i64
  %arrival0 = llvm.sub %arrival, $1 : i64
  %round = llvm.udiv %arrival0, %threads : i64
  %round1 = llvm.add %round, $1 : i64
  %all = llvm.mul %round1, %threads : i64
  %met = llvm.call @veu_wait(%ctl, %unit, %eu, %pbarrier, %all, $ON_BARRIER)
    : (!llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64, i64) -> i1
  %after_barrier = llvm.add %pos, $1 : i64
  llvm.cond_br %met, ^next(%after_barrier, %made : i64, i64), ^failed

// Behind the body of a loop: move its numbers on and go back, or move them all the way back and
// go on. So a stream is the same before each launch.
^repeat:
  %times := *%w1
  %length := *%a1
  %piteration = & %w[3]
  %iteration := *%piteration
  %moves := %w[4]
  %psteps = & %w[5]
  %begin = llvm.sub %pos, %length : i64
  %body = & %stream[%begin]
  %coming = llvm.add %iteration, $1 : i64
  %again = llvm.icmp "slt" %coming, %times : i64
  %back = llvm.sub $0, %iteration : i64
  %factor = llvm.select %again, $1, %back : i1, i64
  %turn = llvm.select %again, %coming, $0 : i1, i64
  *%piteration := %turn
  llvm.br ^move($0 : i64)
^move(%m: i64):
  %left = llvm.icmp "slt" %m, %moves : i64
  llvm.cond_br %left, ^number, ^moved
^number:
  %m2 = llvm.shl %m, $1 : i64
  %pword = & %psteps[%m2]
  %word := *%pword
  %step := %pword[1]
  %by = llvm.mul %step, %factor : i64
  %pnumber = & %body[%word]
  %number := *%pnumber
  %moved = llvm.add %number, %by : i64
  *%pnumber := %moved
  %m1 = llvm.add %m, $1 : i64
  llvm.br ^move(%m1 : i64)
^moved:
  %moves2 = llvm.shl %moves, $1 : i64
  %behind = llvm.add %pos, %moves2 : i64
  %after_repeat = llvm.add %behind, $5 : i64
  %go = llvm.select %again, %begin, %after_repeat : i1, i64
  llvm.br ^next(%go, %made : i64, i64)

^take:
  %counter := *%w1
  %queues := *%a1
  %table := %w[3]
  %counter_word = llvm.mul %counter, $LINE : i64
  %pcounter = & %events[%counter_word]
  %taken = llvm.call @veu_add(%ctl, %pcounter) : (!llvm.ptr, !llvm.ptr) -> i64
  %per_launch := %totals[%counter]
  %rounds = llvm.mul %per_launch, %before : i64
  %taken0 = llvm.sub %taken, $1 : i64
  %which = llvm.sub %taken0, %rounds : i64
  %some = llvm.icmp "slt" %which, %queues : i64
  llvm.cond_br %some, ^enter, ^none
^enter:
  *%preturn := %pos
  %entry = llvm.add %table, %which : i64
  %distance := %stream[%entry]
  %queue = llvm.add %table, %distance : i64
  llvm.br ^next(%queue, %made : i64, i64)
^none:
  *%preturn := %nowhere
  %after_take = llvm.add %pos, $4 : i64
  llvm.br ^next(%after_take, %made : i64, i64)

^over:
  %return := *%preturn
  %done = llvm.icmp "slt" %return, $0 : i64
  llvm.cond_br %done, ^end, ^next(%return, %made : i64, i64)

^failed:
  llvm.br ^end
^end:
  %last = llvm.add %made, $2 : i64
  *%pprogress := relaxed %last
  llvm.call @veu_away(%unit) : (!llvm.ptr) -> ()
  llvm.call_intrinsic "llvm.x86.sse.ldmxcsr"(%pcallers) : (!llvm.ptr) -> ()
  llvm.return
}

llvm.func @veu_worker(%ctl: !llvm.ptr, %eu: i64, %start: i64) {
  %pepoch = & %ctl[@@EPOCH]
  %pdone = & %ctl[@@DONE]
  %pstop = & %ctl[@@STOP]
  %unit = llvm.call @veu_unit(%ctl, %eu) : (!llvm.ptr, i64) -> !llvm.ptr
  llvm.call @veu_name(%unit) : (!llvm.ptr) -> ()
  llvm.br ^next(%start : i64)
^next(%epoch: i64):
  llvm.call @veu_park(%ctl, %unit, %pepoch, %epoch)
    : (!llvm.ptr, !llvm.ptr, !llvm.ptr, i64) -> ()
  %stop := acquire *%pstop
  %go = llvm.icmp "eq" %stop, $0 : i64
  llvm.cond_br %go, ^run, ^end
^run:
  llvm.call @veu_main(%ctl, %eu, %epoch) : (!llvm.ptr, i64, i64) -> ()
  %d = llvm.call @veu_add(%ctl, %pdone) : (!llvm.ptr, !llvm.ptr) -> i64
  %epoch1 = llvm.add %epoch, $1 : i64
  llvm.br ^next(%epoch1 : i64)
^end:
  llvm.return
}

llvm.func @veu_launch(%ctl: !llvm.ptr, %bases: !llvm.ptr) -> i64 {
  %ok = llvm.mlir.constant(@@OK : i64) : i64
  %ctl[@@BASES] := %bases : !llvm.ptr
  %unit0 := %ctl[@@UNITS] : !llvm.ptr
  llvm.call @veu_enter(%unit0) : (!llvm.ptr) -> ()
  %pepoch = & %ctl[@@EPOCH]
  %epoch = llvm.call @veu_add(%ctl, %pepoch) : (!llvm.ptr, !llvm.ptr) -> i64
  llvm.call @veu_main(%ctl, $0, %epoch) : (!llvm.ptr, i64, i64) -> ()
  %threads := %ctl[@@THREADS]
  %others = llvm.sub %threads, $1 : i64
  %target = llvm.mul %epoch, %others : i64
  %pdone = & %ctl[@@DONE]
  // EU 0's own record must keep what it failed on: the wait for the workers writes to the one
  // behind the last thread.
  %extra = llvm.mul %threads, $UNIT_WORDS : i64
  %unit = & %unit0[%extra]
  %back = llvm.call @veu_wait(%ctl, %unit, $0, %pdone, %target, $ON_WORKERS)
    : (!llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64, i64) -> i1
  // What the caller does next it does on this CPU, as the workers that wait for it shall know.
  llvm.call @veu_here(%unit0) : (!llvm.ptr) -> ()
  llvm.call @veu_leave(%unit0) : (!llvm.ptr) -> ()
  %a := acquire %ctl[@@ABORT]
  %calm = llvm.icmp "eq" %a, $0 : i64
  %state = llvm.select %calm, %ok, $ABORTED : i1, i64
  %result = llvm.select %back, %state, $LOST : i1, i64
  llvm.return %result : i64
}
"""
_STOP = """
// Make the workers return; they must be joined before any memory goes.
llvm.func @veu_stop(%ctl: !llvm.ptr) {
  %ctl[@@STOP] := release $1
  %pepoch = & %ctl[@@EPOCH]
  %epoch = llvm.call @veu_add(%ctl, %pepoch) : (!llvm.ptr, !llvm.ptr) -> i64
  llvm.return
}
"""
# PROGRESS counts two for each RUN: its distance from the start of the launch is the place of the
# first of the two words that the RUN has among the stamps.
_BEFORE = """
  %stamps := %unit[@@STAMPS] : !llvm.ptr
  %place = llvm.sub %made, %progress : i64
  %pbegun = & %stamps[%place]
  %begun = llvm.call @veu_now() : () -> i64
  *%pbegun := %begun
  %places := %unit[@@PLACES] : !llvm.ptr
  %null = llvm.mlir.zero : !llvm.ptr
  %noted = llvm.icmp "ne" %places, %null : !llvm.ptr
  llvm.cond_br %noted, ^note, ^noted
^note:
  %row = llvm.lshr %place, $1 : i64
  %places[%row] := %pos
  llvm.br ^noted
^noted:
"""
_AFTER = """
  %over = llvm.call @veu_now() : () -> i64
  %pbegun[1] := %over
"""
_WALKERS = ("@veu_main", "@veu_worker", "@veu_launch")


def _walk(timed: bool) -> str:
    """The functions that walk streams; timed: under other names, with a clock at every RUN."""
    before, after = (_BEFORE, _AFTER) if timed else ("", "")
    text = _WALK.replace("@@BEFORE\n", before).replace("@@AFTER\n", after)
    for name in _WALKERS if timed else ():
        text = text.replace(f"{name}(", f"{name}_timed(")
    return text


def module_text() -> str:
    """The module: interpreter, waits, and the f16/bf16 conversions that kernels may call.

    Link its object into every image. It has no state; all of it is in the control block.
    """
    text = PLACING + WAITS + _walk(timed=False) + _walk(timed=True) + _STOP
    names = {name: value for name, value in vars(at).items() if isinstance(value, int)}
    text = re.sub(r"@@(\w+)", lambda m: str(names[m[1]]), text)
    heads = re.split(r"(llvm\.func [^{]*\{\n)", text)
    bodies = (_with_constants(body, names) for body in heads[2::2])
    functions = [
        heads[0],
        *(part for pair in zip(heads[1::2], bodies, strict=True) for part in pair),
    ]
    return f"module {{{Memory('!llvm.ptr').expanded(''.join(functions))}{CONVERSIONS}}}\n"


@cache
def module_ir() -> str:
    """The same module as LLVM IR: every image has it, so it is translated once a process."""
    return llvm_ir(module_text())


def _with_constants(body: str, names: Mapping[str, int]) -> str:
    """The body of a function with its constants in front: $5, $NAME of `control`, $true, $false."""
    found: dict[str, str] = {}

    def named(match: re.Match[str]) -> str:
        value = str(names.get(match[1], match[1]))
        name = f"%is_{value.replace('-', 'm')}"
        type_ = "i1" if value in ("true", "false") else "i64"
        typed = value if type_ == "i1" else f"{value} : i64"
        found[name] = f"  {name} = llvm.mlir.constant({typed}) : {type_}\n"
        return name

    body = re.sub(r"\$(-?\w+)", named, body)
    return "".join(found.values()) + body
