"""Where the threads of EUs run, and the moving of those that cannot, in the llvm dialect.

EUs that wait for each other every few microseconds need a CPU each. The kernel does not see to it:
it wakes a thread on the CPU of whoever wakes it where the machine looks busy, although another CPU
is idle (SIS_UTIL, since Linux 6.0), leaves it there until the next balancing, milliseconds later,
and lets a thread that some daemon interrupted wait for the daemon's end, as it is warm. So each EU
notes what it does and where, and the others act by that:

- A waiter in the way of an EU that works, or was woken (`veu_shared`), sleeps.
- A waiter that waited for long looks whether an EU that should work gets a CPU at all, by the
  kernel's clock of its thread. If it does not, the waiter moves it to its own CPU and sleeps
  (`veu_rescue`).
- Whoever wakes an EU that fell asleep on a CPU where now another one works has it woken elsewhere
  (`veu_spread`), unless it was moved from there a moment ago.

A thread is moved by taking CPUs from the set that it may use and giving them back at once, which
moves it no more. It is never moved where it may not run (`pin`), and only one mover at a time
touches a thread. The caller's thread belongs to the launch from `veu_enter` to `veu_leave`: nobody
touches it before, and it may use afterwards what it might before. Where the kernel refuses any of
this, nothing is moved. Notes may be late or wrong: that costs time, never a result.

Part of the module of `codegen.veu`, like `codegen.waits`, which replaces each `@@NAME` by the
number of `runtime.control`. System calls are those of x86-64.
"""

# A loop over the blocks of the EUs, number %i at %u: what follows the text is done for each, goes
# on with `llvm.br ^each(%next : i64)`, and has a block ^over for the end.
EACH_EU = """\
  %n := %ctl[@@THREADS]
  llvm.br ^each($0 : i64)
^each(%i: i64):
  %more = llvm.icmp "slt" %i, %n : i64
  llvm.cond_br %more, ^eu, ^over
^eu:
  %next = llvm.add %i, $1 : i64
  %u = llvm.call @veu_unit(%ctl, %i) : (!llvm.ptr, i64) -> !llvm.ptr
"""

TEXT = """
llvm.func @sched_getcpu() -> i32
llvm.func @sched_yield() -> i32
llvm.func @syscall(i64, ...) -> i64
llvm.func @clock_gettime(i32, !llvm.ptr) -> i32

// ns by a clock; -1 where there is no such clock.
llvm.func internal @veu_clock(%clock: i32) -> i64 {
  %ok = llvm.mlir.constant(0 : i32) : i32
  %giga = llvm.mlir.constant(1000000000 : i64) : i64
  %t = llvm.alloca $2 x i64 : (i64) -> !llvm.ptr
  %r = llvm.call @clock_gettime(%clock, %t) : (i32, !llvm.ptr) -> i32
  %known = llvm.icmp "eq" %r, %ok : i32
  llvm.cond_br %known, ^read, ^done($-1 : i64)
^read:
  %s := *%t
  %n := %t[1]
  %sn = llvm.mul %s, %giga : i64
  %ns = llvm.add %sn, %n : i64
  llvm.br ^done(%ns : i64)
^done(%result: i64):
  llvm.return %result : i64
}

// Monotonic time in ns.
llvm.func internal @veu_now() -> i64 {
  %clock = llvm.mlir.constant(1 : i32) : i32
  %now = llvm.call @veu_clock(%clock) : (i32) -> i64
  llvm.return %now : i64
}

// ns that the thread of an EU has had a CPU; -1 where that cannot be known. The clock of a thread
// that is not of this process cannot be read.
llvm.func internal @veu_ran(%unit: !llvm.ptr) -> i64 {
  %kind = llvm.mlir.constant(6 : i64) : i64   // CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED
  %tid := relaxed %unit[@@TID]
  %not = llvm.xor %tid, $-1 : i64
  %high = llvm.shl %not, $3 : i64
  %id = llvm.or %high, %kind : i64
  %clock = llvm.trunc %id : i64 to i32
  %ran = llvm.call @veu_clock(%clock) : (i32) -> i64
  llvm.return %ran : i64
}

// 1 + the CPU of the caller; 0 where it cannot be known.
llvm.func internal @veu_cpu() -> i64 {
  %r = llvm.call @sched_getcpu() : () -> i32
  %cpu = llvm.sext %r : i32 to i64
  %one = llvm.add %cpu, $1 : i64
  llvm.return %one : i64
}

// -- notes ----------------------------------------------------------------------------------

// Note which thread an EU is.
llvm.func internal @veu_name(%unit: !llvm.ptr) {
  %gettid = llvm.mlir.constant(186 : i64) : i64
  %tid = llvm.call @syscall(%gettid) vararg(!llvm.func<i64 (i64, ...)>) : (i64) -> i64
  %unit[@@TID] := relaxed %tid
  llvm.return
}

// Note which launch an EU has begun.
llvm.func internal @veu_begin(%unit: !llvm.ptr, %epoch: i64) {
  %unit[@@BEGUN] := relaxed %epoch
  llvm.return
}

// Note that an EU works, and on which CPU.
llvm.func internal @veu_here(%unit: !llvm.ptr) {
  %now = llvm.call @veu_cpu() : () -> i64
  %pcpu = & %unit[@@CPU]
  %noted := relaxed *%pcpu
  %same = llvm.icmp "eq" %noted, %now : i64
  llvm.cond_br %same, ^done, ^note
^note:
  *%pcpu := relaxed %now
  llvm.br ^done
^done:
  llvm.return
}

// Note that an EU has nothing to do for now.
llvm.func internal @veu_away(%unit: !llvm.ptr) {
  %unit[@@CPU] := relaxed $0
  llvm.return
}

// Note that an EU goes to sleep on a counter, and where.
llvm.func internal @veu_asleep(%unit: !llvm.ptr, %p: !llvm.ptr) {
  %cpu = llvm.call @veu_cpu() : () -> i64
  %unit[@@SLEPT] := relaxed %cpu
  llvm.call @veu_away(%unit) : (!llvm.ptr) -> ()
  %counter = llvm.ptrtoint %p : !llvm.ptr to i64
  %unit[@@SLEEPS_ON] := ordered %counter
  llvm.return
}

// Note that an EU sleeps no more.
llvm.func internal @veu_awake(%unit: !llvm.ptr) {
  %unit[@@SLEEPS_ON] := relaxed $0
  llvm.return
}

// The block of an EU.
llvm.func internal @veu_unit(%ctl: !llvm.ptr, %eu: i64) -> !llvm.ptr {
  %units := %ctl[@@UNITS] : !llvm.ptr
  %w = llvm.mul %eu, $UNIT_WORDS : i64
  %unit = & %units[%w]
  llvm.return %unit : !llvm.ptr
}

// Whether an EU works on the CPU that the caller, who waits, is running on, or fell asleep there
// and was woken.
llvm.func internal @veu_shared(%ctl: !llvm.ptr) -> i1 {
  %mine = llvm.call @veu_cpu() : () -> i64
@@EACH_EU
  %known = llvm.icmp "sgt" %mine, $0 : i64
  %noted := relaxed %u[@@CPU]
  %works = llvm.icmp "eq" %noted, %mine : i64
  %slept := relaxed %u[@@SLEPT]
  %stays = llvm.icmp "eq" %slept, %mine : i64
  %woken = llvm.icmp "slt" %noted, $0 : i64
  %coming = llvm.and %stays, %woken : i1
  %same = llvm.or %works, %coming : i1
  %found = llvm.and %same, %known : i1
  llvm.cond_br %found, ^found, ^each(%next : i64)
^found:
  llvm.return $true : i1
^over:
  llvm.return $false : i1
}

// Whether an EU works, was woken, or has not yet begun what it was called for: one that waits
// wants no CPU.
llvm.func internal @veu_wants_cpu(%ctl: !llvm.ptr, %unit: !llvm.ptr) -> i1 {
  %noted := relaxed %unit[@@CPU]
  %works = llvm.icmp "ne" %noted, $0 : i64
  %begun := relaxed %unit[@@BEGUN]
  %epoch := relaxed %ctl[@@EPOCH]
  %late = llvm.icmp "slt" %begun, %epoch : i64
  %wants = llvm.or %works, %late : i1
  llvm.return %wants : i1
}

// -- sets of CPUs ---------------------------------------------------------------------------

// No CPU.
llvm.func internal @veu_none(%mask: !llvm.ptr) {
  %zero = llvm.mlir.constant(0 : i8) : i8
  "llvm.intr.memset"(%mask, %zero, $MASK_BYTES) <{isVolatile = false}> : (!llvm.ptr, i8, i64) -> ()
  llvm.return
}

// The word of a set that tells of a CPU, noted as 1 + its number, and the bit in it; the bit is 0
// where it is no CPU that a set has room for.
llvm.func internal @veu_bit(%mask: !llvm.ptr, %noted: i64, %pword: !llvm.ptr) -> i64 {
  %cpu = llvm.sub %noted, $1 : i64
  %fits = llvm.icmp "ult" %cpu, $MASK_CPUS : i64
  %safe = llvm.select %fits, %cpu, $0 : i1, i64
  %word = llvm.lshr %safe, $6 : i64
  %low = llvm.and %safe, $63 : i64
  %bit = llvm.shl $1, %low : i64
  %p = & %mask[%word]
  *%pword := %p : !llvm.ptr
  %result = llvm.select %fits, %bit, $0 : i1, i64
  llvm.return %result : i64
}

// Add a CPU to a set.
llvm.func internal @veu_mark(%mask: !llvm.ptr, %noted: i64) {
  %pword = llvm.alloca $1 x !llvm.ptr : (i64) -> !llvm.ptr
  %bit = llvm.call @veu_bit(%mask, %noted, %pword) : (!llvm.ptr, i64, !llvm.ptr) -> i64
  %p := *%pword : !llvm.ptr
  %old := *%p
  %new = llvm.or %old, %bit : i64
  *%p := %new
  llvm.return
}

// Whether a CPU is in a set.
llvm.func internal @veu_holds(%mask: !llvm.ptr, %noted: i64) -> i1 {
  %pword = llvm.alloca $1 x !llvm.ptr : (i64) -> !llvm.ptr
  %bit = llvm.call @veu_bit(%mask, %noted, %pword) : (!llvm.ptr, i64, !llvm.ptr) -> i64
  %p := *%pword : !llvm.ptr
  %word := *%p
  %common = llvm.and %word, %bit : i64
  %there = llvm.icmp "ne" %common, $0 : i64
  llvm.return %there : i1
}

// Take the CPUs of %taken from %mask. Whether any is left.
llvm.func internal @veu_without(%mask: !llvm.ptr, %taken: !llvm.ptr) -> i1 {
  llvm.br ^loop($0, $0 : i64, i64)
^loop(%i: i64, %any: i64):
  %more = llvm.icmp "slt" %i, $MASK_WORDS : i64
  llvm.cond_br %more, ^body, ^done
^body:
  %p = & %mask[%i]
  %pt = & %taken[%i]
  %old := *%p
  %t := *%pt
  %keep = llvm.xor %t, $-1 : i64
  %new = llvm.and %old, %keep : i64
  *%p := %new
  %any1 = llvm.or %any, %new : i64
  %i1 = llvm.add %i, $1 : i64
  llvm.br ^loop(%i1, %any1 : i64, i64)
^done:
  %left = llvm.icmp "ne" %any, $0 : i64
  llvm.return %left : i1
}

// The CPUs on which EUs work, and the caller's.
llvm.func internal @veu_occupied(%ctl: !llvm.ptr, %mask: !llvm.ptr) {
  %mine = llvm.call @veu_cpu() : () -> i64
  llvm.call @veu_none(%mask) : (!llvm.ptr) -> ()
  llvm.call @veu_mark(%mask, %mine) : (!llvm.ptr, i64) -> ()
@@EACH_EU
  %noted := relaxed %u[@@CPU]
  llvm.call @veu_mark(%mask, %noted) : (!llvm.ptr, i64) -> ()
  llvm.br ^each(%next : i64)
^over:
  llvm.return
}

// -- what threads may use -------------------------------------------------------------------

// Become the only one who moves the thread of an EU, and ask the kernel where it may run. False
// where somebody else moves it, or the kernel does not say; then there is nothing to undo.
llvm.func internal @veu_claim(%unit: !llvm.ptr, %mask: !llvm.ptr) -> i1 {
  %get = llvm.mlir.constant(204 : i64) : i64    // sched_getaffinity
  %pmoving = & %unit[@@MOVING]
  %x = llvm.cmpxchg %pmoving, $0, $1 acq_rel monotonic : !llvm.ptr, i64
  %won = llvm.extractvalue %x[1] : !llvm.struct<(i64, i1)>
  llvm.cond_br %won, ^ask, ^done($false : i1)
^ask:
  llvm.call @veu_none(%mask) : (!llvm.ptr) -> ()
  %tid := relaxed %unit[@@TID]
  %got = llvm.call @syscall(%get, %tid, $MASK_BYTES, %mask) vararg(!llvm.func<i64 (i64, ...)>)
    : (i64, i64, i64, !llvm.ptr) -> i64
  %known = llvm.icmp "sgt" %got, $0 : i64
  llvm.cond_br %known, ^done($true : i1), ^leave
^leave:
  llvm.call @veu_unclaim(%unit) : (!llvm.ptr) -> ()
  llvm.br ^done($false : i1)
^done(%result: i1):
  llvm.return %result : i1
}
llvm.func internal @veu_unclaim(%unit: !llvm.ptr) {
  %unit[@@MOVING] := release $0
  llvm.return
}

// The caller's thread becomes that of EU 0, which others may move from now on.
llvm.func internal @veu_enter(%unit: !llvm.ptr) {
  llvm.call @veu_name(%unit) : (!llvm.ptr) -> ()
  llvm.call @veu_unclaim(%unit) : (!llvm.ptr) -> ()
  llvm.return
}

// Nobody moves the caller's thread from now on: who does is waited for, as what the thread might
// use is given back last. A mover that gets no CPU for all the yields is left alone.
llvm.func internal @veu_leave(%unit: !llvm.ptr) {
  %pmoving = & %unit[@@MOVING]
  llvm.br ^try($0 : i64)
^try(%i: i64):
  %x = llvm.cmpxchg %pmoving, $0, $1 acq_rel monotonic : !llvm.ptr, i64
  %won = llvm.extractvalue %x[1] : !llvm.struct<(i64, i1)>
  llvm.cond_br %won, ^done, ^yield
^yield:
  %r = llvm.call @sched_yield() : () -> i32
  %i1 = llvm.add %i, $1 : i64
  %more = llvm.icmp "slt" %i1, $PATIENCE : i64
  llvm.cond_br %more, ^try(%i1 : i64), ^done
^done:
  llvm.return
}

// Set where the thread of an EU may run. Whether the kernel did.
llvm.func internal @veu_allow(%unit: !llvm.ptr, %mask: !llvm.ptr) -> i1 {
  %set = llvm.mlir.constant(203 : i64) : i64    // sched_setaffinity
  %tid := relaxed %unit[@@TID]
  %r = llvm.call @syscall(%set, %tid, $MASK_BYTES, %mask) vararg(!llvm.func<i64 (i64, ...)>)
    : (i64, i64, i64, !llvm.ptr) -> i64
  %done = llvm.icmp "eq" %r, $0 : i64
  llvm.return %done : i1
}

// -- moving ---------------------------------------------------------------------------------

// Move the thread of an EU that does not run to the CPU of the caller. Whether it was moved.
llvm.func internal @veu_fetch(%unit: !llvm.ptr) -> i1 {
  %allowed = llvm.alloca $MASK_WORDS x i64 : (i64) -> !llvm.ptr
  %here = llvm.alloca $MASK_WORDS x i64 : (i64) -> !llvm.ptr
  %mine = llvm.call @veu_cpu() : () -> i64
  %claimed = llvm.call @veu_claim(%unit, %allowed) : (!llvm.ptr, !llvm.ptr) -> i1
  llvm.cond_br %claimed, ^look, ^done($false : i1)
^look:
  %may = llvm.call @veu_holds(%allowed, %mine) : (!llvm.ptr, i64) -> i1
  llvm.cond_br %may, ^move, ^leave($false : i1)
^move:
  llvm.call @veu_none(%here) : (!llvm.ptr) -> ()
  llvm.call @veu_mark(%here, %mine) : (!llvm.ptr, i64) -> ()
  %moved = llvm.call @veu_allow(%unit, %here) : (!llvm.ptr, !llvm.ptr) -> i1
  %back = llvm.call @veu_allow(%unit, %allowed) : (!llvm.ptr, !llvm.ptr) -> i1
  %now = llvm.call @veu_now() : () -> i64
  %unit[@@FETCHED] := relaxed %now
  llvm.br ^leave(%moved : i1)
^leave(%found: i1):
  llvm.call @veu_unclaim(%unit) : (!llvm.ptr) -> ()
  llvm.br ^done(%found : i1)
^done(%result: i1):
  llvm.return %result : i1
}

// Whether an EU that wants a CPU had none while the caller paused, and was moved to the caller's,
// who waits for the counter to reach %target.
llvm.func internal @veu_rescue(%ctl: !llvm.ptr, %p: !llvm.ptr, %target: i64) -> i1 {
@@EACH_EU
  %wants0 = llvm.call @veu_wants_cpu(%ctl, %u) : (!llvm.ptr, !llvm.ptr) -> i1
  llvm.cond_br %wants0, ^first, ^each(%next : i64)
^first:
  %ran0 = llvm.call @veu_ran(%u) : (!llvm.ptr) -> i64
  %unknown = llvm.icmp "slt" %ran0, $0 : i64
  llvm.cond_br %unknown, ^each(%next : i64), ^pause($0 : i64)
^pause(%j: i64):
  llvm.call_intrinsic "llvm.x86.sse2.pause"() : () -> ()
  %v := acquire *%p
  %came = llvm.icmp "sge" %v, %target : i64
  %j1 = llvm.add %j, $1 : i64
  llvm.cond_br %came, ^done($false : i1), ^longer
^longer:
  %short = llvm.icmp "slt" %j1, $WINDOW : i64
  llvm.cond_br %short, ^pause(%j1 : i64), ^second
^second:
  %ran1 = llvm.call @veu_ran(%u) : (!llvm.ptr) -> i64
  %still = llvm.icmp "eq" %ran0, %ran1 : i64
  %wants1 = llvm.call @veu_wants_cpu(%ctl, %u) : (!llvm.ptr, !llvm.ptr) -> i1
  %stuck = llvm.and %still, %wants1 : i1
  llvm.cond_br %stuck, ^fetch, ^each(%next : i64)
^fetch:
  %moved = llvm.call @veu_fetch(%u) : (!llvm.ptr) -> i1
  llvm.cond_br %moved, ^done(%moved : i1), ^each(%next : i64)
^over:
  llvm.br ^done($false : i1)
^done(%result: i1):
  llvm.return %result : i1
}

// Take the CPUs of %occupied from what the thread of a sleeping EU may use, if it fell asleep on
// one of them and has others. %allowed: all that it may use. Whether they were taken; then the
// thread stays claimed.
llvm.func internal @veu_narrow(%unit: !llvm.ptr, %occupied: !llvm.ptr, %allowed: !llvm.ptr) -> i1 {
  %rest = llvm.alloca $MASK_WORDS x i64 : (i64) -> !llvm.ptr
  %slept := relaxed %unit[@@SLEPT]
  %there = llvm.call @veu_holds(%occupied, %slept) : (!llvm.ptr, i64) -> i1
  llvm.cond_br %there, ^when, ^done($false : i1)
^when:
  %now = llvm.call @veu_now() : () -> i64
  %fetched := relaxed %unit[@@FETCHED]
  %ago = llvm.sub %now, %fetched : i64
  %long = llvm.icmp "sge" %ago, $APART : i64
  llvm.cond_br %long, ^claim, ^done($false : i1)
^claim:
  %claimed = llvm.call @veu_claim(%unit, %allowed) : (!llvm.ptr, !llvm.ptr) -> i1
  llvm.cond_br %claimed, ^take, ^done($false : i1)
^take:
  "llvm.intr.memcpy"(%rest, %allowed, $MASK_BYTES) <{isVolatile = false}>
    : (!llvm.ptr, !llvm.ptr, i64) -> ()
  %some = llvm.call @veu_without(%rest, %occupied) : (!llvm.ptr, !llvm.ptr) -> i1
  llvm.cond_br %some, ^set, ^leave
^set:
  %set = llvm.call @veu_allow(%unit, %rest) : (!llvm.ptr, !llvm.ptr) -> i1
  llvm.cond_br %set, ^done(%set : i1), ^leave
^leave:
  llvm.call @veu_unclaim(%unit) : (!llvm.ptr) -> ()
  llvm.br ^done($false : i1)
^done(%result: i1):
  llvm.return %result : i1
}

// Note that EUs which sleep on a counter are woken, and have those woken elsewhere that fell
// asleep where EUs work. %taken: for each EU a word, whether CPUs were taken from it, and all that
// it may use; for `veu_settle`.
llvm.func internal @veu_spread(%ctl: !llvm.ptr, %p: !llvm.ptr, %taken: !llvm.ptr) {
  %woken = llvm.mlir.constant(-1 : i64) : i64
  %occupied = llvm.alloca $MASK_WORDS x i64 : (i64) -> !llvm.ptr
  %counter = llvm.ptrtoint %p : !llvm.ptr to i64
  llvm.call @veu_occupied(%ctl, %occupied) : (!llvm.ptr, !llvm.ptr) -> ()
@@EACH_EU
  %at = llvm.mul %i, $TAKEN_WORDS : i64
  %mine = & %taken[%at]
  *%mine := $0
  %pon = & %u[@@SLEEPS_ON]
  %x = llvm.cmpxchg %pon, %counter, $0 seq_cst monotonic : !llvm.ptr, i64
  %sleeps = llvm.extractvalue %x[1] : !llvm.struct<(i64, i1)>
  llvm.cond_br %sleeps, ^wake, ^each(%next : i64)
^wake:
  %u[@@CPU] := relaxed %woken
  %allowed = & %mine[1]
  %narrowed = llvm.call @veu_narrow(%u, %occupied, %allowed)
    : (!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i1
  %flag = llvm.zext %narrowed : i1 to i64
  *%mine := %flag
  llvm.cond_br %narrowed, ^elsewhere, ^each(%next : i64)
^elsewhere:
  %u[@@SLEPT] := relaxed $0
  llvm.br ^each(%next : i64)
^over:
  llvm.return
}

// Give back what `veu_spread` took. A thread that was woken meanwhile stays where it is.
llvm.func internal @veu_settle(%ctl: !llvm.ptr, %taken: !llvm.ptr) {
@@EACH_EU
  %at = llvm.mul %i, $TAKEN_WORDS : i64
  %mine = & %taken[%at]
  %flag := *%mine
  %narrowed = llvm.icmp "ne" %flag, $0 : i64
  llvm.cond_br %narrowed, ^give, ^each(%next : i64)
^give:
  %allowed = & %mine[1]
  %r = llvm.call @veu_allow(%u, %allowed) : (!llvm.ptr, !llvm.ptr) -> i1
  llvm.call @veu_unclaim(%u) : (!llvm.ptr) -> ()
  llvm.br ^each(%next : i64)
^over:
  llvm.return
}
""".replace("@@EACH_EU\n", EACH_EU)
