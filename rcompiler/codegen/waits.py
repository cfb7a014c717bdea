"""Counters that threads wait for, in the llvm dialect: add, spin, yield, sleep, give up.

Spinning is right while the EU that is waited for runs on a CPU of its own. It is the worst that a
waiter can do where the other one has none: because the waiter is in its way, or a program beside.
`codegen.placing` finds that out: a waiter that spins asks, after LOOK pauses and then whenever
their number has doubled, whether it is in the way of another EU, and from RESCUE pauses on whether
one that should work does not run. Then it sleeps at once, and so leaves its CPU to it.

Part of the module of `codegen.veu`, which replaces the `@@NAME` by the numbers of
`runtime.control`.
"""

from rcompiler.codegen.placing import EACH_EU

TEXT = """
// Add 1 to a counter, wake its sleepers, return the new value. The addition is a full barrier, so
// either the sleeper sees the new value or we see the sleeper.
llvm.func internal @veu_add(%ctl: !llvm.ptr, %p: !llvm.ptr) -> i64 {
  %old = llvm.atomicrmw add %p, $1 seq_cst : !llvm.ptr, i64
  %s := ordered %p[1]
  %none = llvm.icmp "eq" %s, $0 : i64
  llvm.cond_br %none, ^done, ^wake
^wake:
  llvm.call @veu_wake(%ctl, %p) : (!llvm.ptr, !llvm.ptr) -> ()
  llvm.br ^done
^done:
  %new = llvm.add %old, $1 : i64
  llvm.return %new : i64
}

// Wake all that sleep on a counter.
llvm.func internal @veu_wake(%ctl: !llvm.ptr, %p: !llvm.ptr) {
  %futex = llvm.mlir.constant(202 : i64) : i64
  %op = llvm.mlir.constant(129 : i32) : i32     // FUTEX_WAKE | FUTEX_PRIVATE_FLAG
  %all = llvm.mlir.constant(0x7FFFFFFF : i32) : i32
  %null = llvm.mlir.zero : !llvm.ptr
  %n := %ctl[@@THREADS]
  %size = llvm.mul %n, $TAKEN_WORDS : i64
  %taken = llvm.alloca %size x i64 : (i64) -> !llvm.ptr
  llvm.call @veu_spread(%ctl, %p, %taken) : (!llvm.ptr, !llvm.ptr, !llvm.ptr) -> ()
  %r = llvm.call @syscall(%futex, %p, %op, %all, %null, %null, $0)
    vararg(!llvm.func<i64 (i64, ...)>)
    : (i64, !llvm.ptr, i32, i32, !llvm.ptr, !llvm.ptr, i64) -> i64
  llvm.call @veu_settle(%ctl, %taken) : (!llvm.ptr, !llvm.ptr) -> ()
  llvm.return
}

// Sleep until the counter is no longer %seen, for the time at %timeout (null: without end).
llvm.func internal @veu_sleep(%unit: !llvm.ptr, %p: !llvm.ptr, %seen: i64, %timeout: !llvm.ptr) {
  %futex = llvm.mlir.constant(202 : i64) : i64
  %op = llvm.mlir.constant(128 : i32) : i32     // FUTEX_WAIT | FUTEX_PRIVATE_FLAG
  %low = llvm.trunc %seen : i64 to i32
  %null = llvm.mlir.zero : !llvm.ptr
  llvm.call @veu_asleep(%unit, %p) : (!llvm.ptr, !llvm.ptr) -> ()
  %r = llvm.call @syscall(%futex, %p, %op, %low, %timeout, %null, $0)
    vararg(!llvm.func<i64 (i64, ...)>)
    : (i64, !llvm.ptr, i32, i32, !llvm.ptr, !llvm.ptr, i64) -> i64
  llvm.call @veu_awake(%unit) : (!llvm.ptr) -> ()
  llvm.return
}

// Spin, then yield. True when the counter reached %target meanwhile. %inside: of a launch, where
// EUs that work are waited for.
llvm.func internal @veu_spin(%ctl: !llvm.ptr, %p: !llvm.ptr, %target: i64, %inside: i1) -> i1 {
  %spin := %ctl[@@SPIN]
  %yields := %ctl[@@YIELDS]
  llvm.br ^spin($0, $LOOK : i64, i64)
^spin(%i: i64, %look: i64):
  %more = llvm.icmp "slt" %i, %spin : i64
  llvm.cond_br %more, ^pause, ^yield($0 : i64)
^pause:
  llvm.call_intrinsic "llvm.x86.sse2.pause"() : () -> ()
  %v := acquire *%p
  %ok = llvm.icmp "sge" %v, %target : i64
  llvm.cond_br %ok, ^reached, ^due
^due:
  %i1 = llvm.add %i, $1 : i64
  %time = llvm.icmp "eq" %i1, %look : i64
  llvm.cond_br %time, ^look, ^spin(%i1, %look : i64, i64)
^look:
  %twice = llvm.shl %look, $1 : i64
  %shared = llvm.call @veu_shared(%ctl) : (!llvm.ptr) -> i1
  llvm.cond_br %shared, ^late, ^alone
^alone:
  %patient = llvm.icmp "sge" %i1, $RESCUE : i64
  %help = llvm.and %patient, %inside : i1
  llvm.cond_br %help, ^help, ^spin(%i1, %twice : i64, i64)
^help:
  %moved = llvm.call @veu_rescue(%ctl, %p, %target) : (!llvm.ptr, !llvm.ptr, i64) -> i1
  llvm.cond_br %moved, ^late, ^spin(%i1, %twice : i64, i64)
^yield(%j: i64):
  %more2 = llvm.icmp "slt" %j, %yields : i64
  llvm.cond_br %more2, ^give, ^late
^give:
  %r = llvm.call @sched_yield() : () -> i32
  %v2 := acquire *%p
  %ok2 = llvm.icmp "sge" %v2, %target : i64
  %j1 = llvm.add %j, $1 : i64
  llvm.cond_br %ok2, ^reached, ^yield(%j1 : i64)
^reached:
  llvm.return $true : i1
^late:
  llvm.return $false : i1
}

// A worker between two inferences: no limit, it sleeps until it is called or stopped.
llvm.func internal @veu_park(%ctl: !llvm.ptr, %unit: !llvm.ptr, %p: !llvm.ptr, %target: i64) {
  %null = llvm.mlir.zero : !llvm.ptr
  %v0 := acquire *%p
  %ok0 = llvm.icmp "sge" %v0, %target : i64
  llvm.cond_br %ok0, ^done, ^spin
^spin:
  %ok = llvm.call @veu_spin(%ctl, %p, %target, $false)
    : (!llvm.ptr, !llvm.ptr, i64, i1) -> i1
  llvm.cond_br %ok, ^done, ^register
^register:
  %sleepers = & %p[1]
  %s = llvm.atomicrmw add %sleepers, $1 seq_cst : !llvm.ptr, i64
  llvm.br ^look
^look:
  %v := ordered *%p
  %ok2 = llvm.icmp "sge" %v, %target : i64
  llvm.cond_br %ok2, ^leave, ^sleep
^sleep:
  llvm.call @veu_sleep(%unit, %p, %v, %null) : (!llvm.ptr, !llvm.ptr, i64, !llvm.ptr) -> ()
  llvm.br ^look
^leave:
  %s2 = llvm.atomicrmw add %sleepers, $-1 seq_cst : !llvm.ptr, i64
  llvm.br ^done
^done:
  llvm.return
}

// Twice the sum of the progress of all EUs, plus one if any of them is inside a kernel.
llvm.func internal @veu_progress(%ctl: !llvm.ptr) -> i64 {
  %psum = llvm.alloca $1 x i64 : (i64) -> !llvm.ptr
  %pbusy = llvm.alloca $1 x i64 : (i64) -> !llvm.ptr
  *%psum := $0
  *%pbusy := $0
@@EACH_EU
  %v := relaxed %u[@@PROGRESS]
  %sum0 := *%psum
  %sum1 = llvm.add %sum0, %v : i64
  *%psum := %sum1
  %busy0 := *%pbusy
  %busy1 = llvm.or %busy0, %v : i64
  *%pbusy := %busy1
  llvm.br ^each(%next : i64)
^over:
  %sum := *%psum
  %busy := *%pbusy
  %odd = llvm.and %busy, $1 : i64
  %twice = llvm.shl %sum, $1 : i64
  %res = llvm.or %twice, %odd : i64
  llvm.return %res : i64
}

// Wait inside a launch. %what: an event, ON_BARRIER or ON_WORKERS. True = reached. While waiting
// for the workers an abort is no reason to leave (their memory must not go), and the limit is
// doubled, so that the EU with the real cause gives up first. %unit is where a failure is written
// down, which is not that of the EU then.
llvm.func internal @veu_wait(%ctl: !llvm.ptr, %unit: !llvm.ptr, %eu: i64, %p: !llvm.ptr,
                             %target: i64, %what: i64) -> i1 {
  %v := acquire *%p
  %ok = llvm.icmp "sge" %v, %target : i64
  llvm.cond_br %ok, ^here($true : i1), ^spin
^spin:
  %own = llvm.call @veu_unit(%ctl, %eu) : (!llvm.ptr, i64) -> !llvm.ptr
  llvm.call @veu_away(%own) : (!llvm.ptr) -> ()
  %soon = llvm.call @veu_spin(%ctl, %p, %target, $true) : (!llvm.ptr, !llvm.ptr, i64, i1) -> i1
  llvm.cond_br %soon, ^back($true : i1), ^slow
^slow:
  %r = llvm.call @veu_wait_asleep(%ctl, %unit, %own, %eu, %p, %target, %what)
    : (!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64, i64) -> i1
  llvm.br ^back(%r : i1)
^back(%came: i1):
  llvm.call @veu_here(%own) : (!llvm.ptr) -> ()
  llvm.br ^here(%came : i1)
^here(%reached: i1):
  llvm.return %reached : i1
}
llvm.func internal @veu_wait_asleep(%ctl: !llvm.ptr, %unit: !llvm.ptr, %own: !llvm.ptr,
                                    %eu: i64, %p: !llvm.ptr, %target: i64, %what: i64) -> i1 {
  %final = llvm.icmp "eq" %what, $ON_WORKERS : i64
  %slice := %ctl[@@SLICE]
  %limit0 := %ctl[@@LIMIT]
  %busy0 := %ctl[@@BUSY_LIMIT]
  %factor = llvm.select %final, $2, $1 : i1, i64
  %limit = llvm.mul %limit0, %factor : i64
  %busy = llvm.mul %busy0, %factor : i64
  %time = llvm.alloca $2 x i64 : (i64) -> !llvm.ptr
  *%time := $0
  %time[1] := %slice
  %pabort = & %ctl[@@ABORT]
  %sleepers = & %p[1]
  %s = llvm.atomicrmw add %sleepers, $1 seq_cst : !llvm.ptr, i64
  %seen0 = llvm.call @veu_progress(%ctl) : (!llvm.ptr) -> i64
  llvm.br ^look($0, %seen0 : i64, i64)
^look(%idle: i64, %seen: i64):
  %v := ordered *%p
  %ok = llvm.icmp "sge" %v, %target : i64
  llvm.cond_br %ok, ^leave($true : i1), ^aborted
^aborted:
  %a := acquire *%pabort
  %calm = llvm.icmp "eq" %a, $0 : i64
  %stay = llvm.or %calm, %final : i1
  llvm.cond_br %stay, ^expired, ^fail($2 : i64)
^expired:
  %odd = llvm.and %seen, $1 : i64
  %inside = llvm.icmp "ne" %odd, $0 : i64
  %bound = llvm.select %inside, %busy, %limit : i1, i64
  %over = llvm.icmp "sgt" %idle, %bound : i64
  llvm.cond_br %over, ^abort, ^sleep
^sleep:
  // A stopped or suspended process counts as one slice, not as the time it was away.
  %t0 = llvm.call @veu_now() : () -> i64
  llvm.call @veu_sleep(%own, %p, %v, %time) : (!llvm.ptr, !llvm.ptr, i64, !llvm.ptr) -> ()
  %t1 = llvm.call @veu_now() : () -> i64
  %dt = llvm.sub %t1, %t0 : i64
  %d = llvm.intr.smin(%dt, %slice) : (i64, i64) -> i64
  %now = llvm.call @veu_progress(%ctl) : (!llvm.ptr) -> i64
  %same = llvm.icmp "eq" %now, %seen : i64
  %longer = llvm.add %idle, %d : i64
  %idle1 = llvm.select %same, %longer, $0 : i1, i64
  llvm.br ^look(%idle1, %now : i64, i64)
^abort:
  %mine = llvm.add %eu, $1 : i64
  %x = llvm.cmpxchg %pabort, $0, %mine seq_cst seq_cst : !llvm.ptr, i64
  llvm.br ^fail($1 : i64)
^fail(%reason: i64):
  %unit[@@FAILED] := %reason
  %unit[@@EVENT] := %what
  %unit[@@EXPECTED] := %target
  %unit[@@ACTUAL] := %v
  llvm.br ^leave($false : i1)
^leave(%result: i1):
  %s2 = llvm.atomicrmw add %sleepers, $-1 seq_cst : !llvm.ptr, i64
  llvm.return %result : i1
}
""".replace("@@EACH_EU\n", EACH_EU)
