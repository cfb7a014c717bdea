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

Every wait inside a launch is bounded: a sleeper looks around once per slice, and if no EU made
any progress for the limit it writes down what it waited for, and all others leave their waits too.
"""

from rcompiler.codegen.half import TEXT as CONVERSIONS
from rcompiler.codegen.placing import TEXT as PLACING
from rcompiler.codegen.waits import TEXT as WAITS
from rcompiler.runtime import control as at

_WALK = """
// Walk the stream of one EU once.
llvm.func @veu_main(%ctl: !llvm.ptr, %eu: i64, %epoch: i64) {
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64
  %c2 = llvm.mlir.constant(2 : i64) : i64
  %c3 = llvm.mlir.constant(3 : i64) : i64
  %c5 = llvm.mlir.constant(5 : i64) : i64
  %c6 = llvm.mlir.constant(6 : i64) : i64
  %line = llvm.mlir.constant(@@LINE : i64) : i64
  %words = llvm.mlir.constant(@@UNIT_WORDS : i64) : i64
  %on_barrier = llvm.mlir.constant(@@ON_BARRIER : i64) : i64
  %before = llvm.sub %epoch, %c1 : i64
  %pstreams = @@STREAMS
  %streams = llvm.load %pstreams : !llvm.ptr -> !llvm.ptr
  %pstream = llvm.getelementptr %streams[%eu] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %stream = llvm.load %pstream : !llvm.ptr -> !llvm.ptr
  %pkernels = @@KERNELS
  %kernels = llvm.load %pkernels : !llvm.ptr -> !llvm.ptr
  %pevents = @@EVENTS
  %events = llvm.load %pevents : !llvm.ptr -> !llvm.ptr
  %ptotals = @@TOTALS
  %totals = llvm.load %ptotals : !llvm.ptr -> !llvm.ptr
  %pbases = @@BASES
  %bases = llvm.load %pbases : !llvm.ptr -> !llvm.ptr
  %pbarrier = @@BARRIER
  %pthreads = @@THREADS
  %threads = llvm.load %pthreads : !llvm.ptr -> i64
  %punits = @@UNITS
  %units = llvm.load %punits : !llvm.ptr -> !llvm.ptr
  %unit_word = llvm.mul %eu, %words : i64
  %unit = llvm.getelementptr %units[%unit_word] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %pposition = llvm.getelementptr %unit[@@POSITION] : (!llvm.ptr) -> !llvm.ptr, i64
  %pprogress = llvm.getelementptr %unit[@@PROGRESS] : (!llvm.ptr) -> !llvm.ptr, i64
  %progress = llvm.load %pprogress : !llvm.ptr -> i64
  %pmost = @@OPERANDS
  %most = llvm.load %pmost : !llvm.ptr -> i64
  %pworkspaces = @@WORKSPACES
  %workspaces = llvm.load %pworkspaces : !llvm.ptr -> !llvm.ptr
  %pworkspace_bytes = @@WORKSPACE
  %workspace_bytes = llvm.load %pworkspace_bytes : !llvm.ptr -> i64
  %workspace_start = llvm.mul %eu, %workspace_bytes : i64
  %workspace = llvm.getelementptr %workspaces[%workspace_start]
    : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %operands = llvm.alloca %most x !llvm.ptr {alignment = 64 : i64} : (i64) -> !llvm.ptr
  %preturn = llvm.alloca %c1 x i64 : (i64) -> !llvm.ptr
  %nowhere = llvm.mlir.constant(-1 : i64) : i64
  llvm.store %nowhere, %preturn : i64, !llvm.ptr
  llvm.call @veu_begin(%unit, %epoch) : (!llvm.ptr, i64) -> ()
  llvm.call @veu_here(%unit) : (!llvm.ptr) -> ()
  llvm.br ^next(%c0, %progress : i64, i64)

^next(%pos: i64, %made: i64):
  llvm.store %pos, %pposition : i64, !llvm.ptr
  %w = llvm.getelementptr %stream[%pos] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %op = llvm.load %w : !llvm.ptr -> i64
  %w1 = llvm.getelementptr %w[1] : (!llvm.ptr) -> !llvm.ptr, i64
  %a1 = llvm.getelementptr %w[2] : (!llvm.ptr) -> !llvm.ptr, i64
  llvm.switch %op : i64, ^end [
    @@RUN: ^run, @@WAIT: ^wait, @@SIGNAL: ^signal, @@BARRIER_OP: ^barrier, @@REPEAT: ^repeat,
    @@TAKE: ^take, @@END: ^over
  ]

^run:
  %kernel = llvm.load %w1 : !llvm.ptr -> i64
  %first = llvm.load %a1 : !llvm.ptr -> i64
  %w3 = llvm.getelementptr %w[3] : (!llvm.ptr) -> !llvm.ptr, i64
  %count = llvm.load %w3 : !llvm.ptr -> i64
  %w4 = llvm.getelementptr %w[4] : (!llvm.ptr) -> !llvm.ptr, i64
  %stride = llvm.load %w4 : !llvm.ptr -> i64
  %w5 = llvm.getelementptr %w[5] : (!llvm.ptr) -> !llvm.ptr, i64
  %n = llvm.load %w5 : !llvm.ptr -> i64
  %pairs = llvm.getelementptr %w[6] : (!llvm.ptr) -> !llvm.ptr, i64
  llvm.br ^fill(%c0 : i64)
^fill(%i: i64):
  %more = llvm.icmp "slt" %i, %n : i64
  llvm.cond_br %more, ^operand, ^call
^operand:
  %i2 = llvm.shl %i, %c1 : i64
  %pair = llvm.getelementptr %pairs[%i2] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %base = llvm.load %pair : !llvm.ptr -> i64
  %poffset = llvm.getelementptr %pair[1] : (!llvm.ptr) -> !llvm.ptr, i64
  %offset = llvm.load %poffset : !llvm.ptr -> i64
  %pbase = llvm.getelementptr %bases[%base] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %start = llvm.load %pbase : !llvm.ptr -> !llvm.ptr
  %address = llvm.getelementptr %start[%offset] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %slot = llvm.getelementptr %operands[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  llvm.store %address, %slot : !llvm.ptr, !llvm.ptr
  %i1 = llvm.add %i, %c1 : i64
  llvm.br ^fill(%i1 : i64)
^call:
  %pfunction = llvm.getelementptr %kernels[%kernel] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %function = llvm.load %pfunction : !llvm.ptr -> !llvm.ptr
  %made1 = llvm.add %made, %c1 : i64
  llvm.store %made1, %pprogress atomic monotonic {alignment = 8 : i64} : i64, !llvm.ptr
@@BEFORE
  llvm.call %function(%operands, %first, %count, %stride, %workspace)
    : !llvm.ptr, (!llvm.ptr, i64, i64, i64, !llvm.ptr) -> ()
@@AFTER
  %made2 = llvm.add %made, %c2 : i64
  llvm.store %made2, %pprogress atomic monotonic {alignment = 8 : i64} : i64, !llvm.ptr
  %n2 = llvm.shl %n, %c1 : i64
  %size = llvm.add %n2, %c6 : i64
  %after_run = llvm.add %pos, %size : i64
  llvm.br ^next(%after_run, %made2 : i64, i64)

^wait:
  %event = llvm.load %w1 : !llvm.ptr -> i64
  %wanted = llvm.load %a1 : !llvm.ptr -> i64
  %ptotal = llvm.getelementptr %totals[%event] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %total = llvm.load %ptotal : !llvm.ptr -> i64
  %earlier = llvm.mul %total, %before : i64
  %target = llvm.add %earlier, %wanted : i64
  %event_word = llvm.mul %event, %line : i64
  %pevent = llvm.getelementptr %events[%event_word] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %came = llvm.call @veu_wait(%ctl, %unit, %eu, %pevent, %target, %event)
    : (!llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64, i64) -> i1
  %after_wait = llvm.add %pos, %c3 : i64
  llvm.cond_br %came, ^next(%after_wait, %made : i64, i64), ^failed

^signal:
  %event2 = llvm.load %w1 : !llvm.ptr -> i64
  %event2_word = llvm.mul %event2, %line : i64
  %pevent2 = llvm.getelementptr %events[%event2_word] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %signalled = llvm.call @veu_add(%ctl, %pevent2) : (!llvm.ptr, !llvm.ptr) -> i64
  %after_signal = llvm.add %pos, %c2 : i64
  llvm.br ^next(%after_signal, %made : i64, i64)

^barrier:
  %arrival = llvm.call @veu_add(%ctl, %pbarrier) : (!llvm.ptr, !llvm.ptr) -> i64
  %arrival0 = llvm.sub %arrival, %c1 : i64
  %round = llvm.udiv %arrival0, %threads : i64
  %round1 = llvm.add %round, %c1 : i64
  %all = llvm.mul %round1, %threads : i64
  %met = llvm.call @veu_wait(%ctl, %unit, %eu, %pbarrier, %all, %on_barrier)
    : (!llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64, i64) -> i1
  %after_barrier = llvm.add %pos, %c1 : i64
  llvm.cond_br %met, ^next(%after_barrier, %made : i64, i64), ^failed

// Behind the body of a loop: move its numbers on and go back, or move them all the way back and
// go on. So a stream is the same before each launch.
^repeat:
  %times = llvm.load %w1 : !llvm.ptr -> i64
  %length = llvm.load %a1 : !llvm.ptr -> i64
  %piteration = llvm.getelementptr %w[3] : (!llvm.ptr) -> !llvm.ptr, i64
  %iteration = llvm.load %piteration : !llvm.ptr -> i64
  %pmoves = llvm.getelementptr %w[4] : (!llvm.ptr) -> !llvm.ptr, i64
  %moves = llvm.load %pmoves : !llvm.ptr -> i64
  %psteps = llvm.getelementptr %w[5] : (!llvm.ptr) -> !llvm.ptr, i64
  %begin = llvm.sub %pos, %length : i64
  %body = llvm.getelementptr %stream[%begin] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %coming = llvm.add %iteration, %c1 : i64
  %again = llvm.icmp "slt" %coming, %times : i64
  %back = llvm.sub %c0, %iteration : i64
  %factor = llvm.select %again, %c1, %back : i1, i64
  %turn = llvm.select %again, %coming, %c0 : i1, i64
  llvm.store %turn, %piteration : i64, !llvm.ptr
  llvm.br ^move(%c0 : i64)
^move(%m: i64):
  %left = llvm.icmp "slt" %m, %moves : i64
  llvm.cond_br %left, ^number, ^moved
^number:
  %m2 = llvm.shl %m, %c1 : i64
  %pword = llvm.getelementptr %psteps[%m2] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %word = llvm.load %pword : !llvm.ptr -> i64
  %pstep = llvm.getelementptr %pword[1] : (!llvm.ptr) -> !llvm.ptr, i64
  %step = llvm.load %pstep : !llvm.ptr -> i64
  %by = llvm.mul %step, %factor : i64
  %pnumber = llvm.getelementptr %body[%word] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %number = llvm.load %pnumber : !llvm.ptr -> i64
  %moved = llvm.add %number, %by : i64
  llvm.store %moved, %pnumber : i64, !llvm.ptr
  %m1 = llvm.add %m, %c1 : i64
  llvm.br ^move(%m1 : i64)
^moved:
  %moves2 = llvm.shl %moves, %c1 : i64
  %behind = llvm.add %pos, %moves2 : i64
  %after_repeat = llvm.add %behind, %c5 : i64
  %go = llvm.select %again, %begin, %after_repeat : i1, i64
  llvm.br ^next(%go, %made : i64, i64)

^take:
  %counter = llvm.load %w1 : !llvm.ptr -> i64
  %queues = llvm.load %a1 : !llvm.ptr -> i64
  %ptable = llvm.getelementptr %w[3] : (!llvm.ptr) -> !llvm.ptr, i64
  %table = llvm.load %ptable : !llvm.ptr -> i64
  %counter_word = llvm.mul %counter, %line : i64
  %pcounter = llvm.getelementptr %events[%counter_word] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %taken = llvm.call @veu_add(%ctl, %pcounter) : (!llvm.ptr, !llvm.ptr) -> i64
  %pround = llvm.getelementptr %totals[%counter] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %per_launch = llvm.load %pround : !llvm.ptr -> i64
  %rounds = llvm.mul %per_launch, %before : i64
  %taken0 = llvm.sub %taken, %c1 : i64
  %which = llvm.sub %taken0, %rounds : i64
  %some = llvm.icmp "slt" %which, %queues : i64
  llvm.cond_br %some, ^enter, ^none
^enter:
  llvm.store %pos, %preturn : i64, !llvm.ptr
  %entry = llvm.add %table, %which : i64
  %pentry = llvm.getelementptr %stream[%entry] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %distance = llvm.load %pentry : !llvm.ptr -> i64
  %queue = llvm.add %table, %distance : i64
  llvm.br ^next(%queue, %made : i64, i64)
^none:
  llvm.store %nowhere, %preturn : i64, !llvm.ptr
  %four = llvm.mlir.constant(4 : i64) : i64
  %after_take = llvm.add %pos, %four : i64
  llvm.br ^next(%after_take, %made : i64, i64)

^over:
  %return = llvm.load %preturn : !llvm.ptr -> i64
  %done = llvm.icmp "slt" %return, %c0 : i64
  llvm.cond_br %done, ^end, ^next(%return, %made : i64, i64)

^failed:
  llvm.br ^end
^end:
  %last = llvm.add %made, %c2 : i64
  llvm.store %last, %pprogress atomic monotonic {alignment = 8 : i64} : i64, !llvm.ptr
  llvm.call @veu_away(%unit) : (!llvm.ptr) -> ()
  llvm.return
}

llvm.func @veu_worker(%ctl: !llvm.ptr, %eu: i64, %start: i64) {
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64
  %pepoch = @@EPOCH
  %pdone = @@DONE
  %pstop = @@STOP
  %unit = llvm.call @veu_unit(%ctl, %eu) : (!llvm.ptr, i64) -> !llvm.ptr
  llvm.call @veu_name(%unit) : (!llvm.ptr) -> ()
  llvm.br ^next(%start : i64)
^next(%epoch: i64):
  llvm.call @veu_park(%ctl, %unit, %pepoch, %epoch)
    : (!llvm.ptr, !llvm.ptr, !llvm.ptr, i64) -> ()
  %stop = llvm.load %pstop atomic acquire {alignment = 8 : i64} : !llvm.ptr -> i64
  %go = llvm.icmp "eq" %stop, %c0 : i64
  llvm.cond_br %go, ^run, ^end
^run:
  llvm.call @veu_main(%ctl, %eu, %epoch) : (!llvm.ptr, i64, i64) -> ()
  %d = llvm.call @veu_add(%ctl, %pdone) : (!llvm.ptr, !llvm.ptr) -> i64
  %epoch1 = llvm.add %epoch, %c1 : i64
  llvm.br ^next(%epoch1 : i64)
^end:
  llvm.return
}

llvm.func @veu_launch(%ctl: !llvm.ptr, %bases: !llvm.ptr) -> i64 {
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64
  %ok = llvm.mlir.constant(@@OK : i64) : i64
  %aborted = llvm.mlir.constant(@@ABORTED : i64) : i64
  %lost = llvm.mlir.constant(@@LOST : i64) : i64
  %workers = llvm.mlir.constant(@@ON_WORKERS : i64) : i64
  %pbases = @@BASES
  llvm.store %bases, %pbases : !llvm.ptr, !llvm.ptr
  %punits = @@UNITS
  %unit0 = llvm.load %punits : !llvm.ptr -> !llvm.ptr
  llvm.call @veu_enter(%unit0) : (!llvm.ptr) -> ()
  %pepoch = @@EPOCH
  %epoch = llvm.call @veu_add(%ctl, %pepoch) : (!llvm.ptr, !llvm.ptr) -> i64
  llvm.call @veu_main(%ctl, %c0, %epoch) : (!llvm.ptr, i64, i64) -> ()
  %pthreads = @@THREADS
  %threads = llvm.load %pthreads : !llvm.ptr -> i64
  %others = llvm.sub %threads, %c1 : i64
  %target = llvm.mul %epoch, %others : i64
  %pdone = @@DONE
  // EU 0's own record must keep what it failed on: the wait for the workers writes to the one
  // behind the last thread.
  %words = llvm.mlir.constant(@@UNIT_WORDS : i64) : i64
  %extra = llvm.mul %threads, %words : i64
  %unit = llvm.getelementptr %unit0[%extra] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %back = llvm.call @veu_wait(%ctl, %unit, %c0, %pdone, %target, %workers)
    : (!llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64, i64) -> i1
  // What the caller does next it does on this CPU, as the workers that wait for it shall know.
  llvm.call @veu_here(%unit0) : (!llvm.ptr) -> ()
  llvm.call @veu_leave(%unit0) : (!llvm.ptr) -> ()
  %pabort = @@ABORT
  %a = llvm.load %pabort atomic acquire {alignment = 8 : i64} : !llvm.ptr -> i64
  %calm = llvm.icmp "eq" %a, %c0 : i64
  %state = llvm.select %calm, %ok, %aborted : i1, i64
  %result = llvm.select %back, %state, %lost : i1, i64
  llvm.return %result : i64
}
"""
_STOP = """
// Make the workers return; they must be joined before any memory goes.
llvm.func @veu_stop(%ctl: !llvm.ptr) {
  %c1 = llvm.mlir.constant(1 : i64) : i64
  %pstop = @@STOP
  llvm.store %c1, %pstop atomic release {alignment = 8 : i64} : i64, !llvm.ptr
  %pepoch = @@EPOCH
  %epoch = llvm.call @veu_add(%ctl, %pepoch) : (!llvm.ptr, !llvm.ptr) -> i64
  llvm.return
}
"""
# PROGRESS counts two for each RUN: its distance from the start of the launch is the place of the
# first of the two words that the RUN has among the stamps.
_BEFORE = """
  %pstamps = llvm.getelementptr %unit[@@STAMPS] : (!llvm.ptr) -> !llvm.ptr, i64
  %stamps = llvm.load %pstamps : !llvm.ptr -> !llvm.ptr
  %place = llvm.sub %made, %progress : i64
  %pbegun = llvm.getelementptr %stamps[%place] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %begun = llvm.call @veu_now() : () -> i64
  llvm.store %begun, %pbegun : i64, !llvm.ptr
  %pplaces = llvm.getelementptr %unit[@@PLACES] : (!llvm.ptr) -> !llvm.ptr, i64
  %places = llvm.load %pplaces : !llvm.ptr -> !llvm.ptr
  %null = llvm.mlir.zero : !llvm.ptr
  %noted = llvm.icmp "ne" %places, %null : !llvm.ptr
  llvm.cond_br %noted, ^note, ^noted
^note:
  %row = llvm.lshr %place, %c1 : i64
  %pplace = llvm.getelementptr %places[%row] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  llvm.store %pos, %pplace : i64, !llvm.ptr
  llvm.br ^noted
^noted:
"""
_AFTER = """
  %over = llvm.call @veu_now() : () -> i64
  %pover = llvm.getelementptr %pbegun[1] : (!llvm.ptr) -> !llvm.ptr, i64
  llvm.store %over, %pover : i64, !llvm.ptr
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
    for name in sorted(names, key=len, reverse=True):
        address = f"= llvm.getelementptr %ctl[{names[name]}] : (!llvm.ptr) -> !llvm.ptr, i64"
        text = text.replace(f"= @@{name}\n", f"{address}\n").replace(f"@@{name}", str(names[name]))
    return f"module {{{text}{CONVERSIONS}}}\n"
