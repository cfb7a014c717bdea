"""Waiting for a counter (mbarrier) of a buffer that boxes come into, in the notation of
`program.expanded`.

A box that never comes is no schedule's fault, and may not hang the device: after the limit of all
waits the first thread that gives up writes down whose block waited and which of its instructions
it was in, and traps. No function is called for that: ptxas would wait for each wgmma of a function
that calls (C7509).
"""

# COUNTER, PARITY: of the phase whose end is waited for. READY, YES, LATE: names of their own.
WAIT_TEXT = """
@@READY = nvvm.mbarrier.try_wait @@COUNTER, @@PARITY : !llvm.ptr<3>, i32 -> i1
@@YES = arith.constant true
@@LATE = arith.xori @@READY, @@YES : i1
scf.if @@LATE {
  %since = @@CLOCK
  scf.while : () -> () {
    %come = nvvm.mbarrier.try_wait @@COUNTER, @@PARITY : !llvm.ptr<3>, i32 -> i1
    %again = arith.xori %come, @@YES : i1
    scf.condition(%again)
  } do {
    %limit := %control[@@AT_LIMIT] : i64
    %now = @@CLOCK
    @@ELAPSED
    %over = arith.cmpi sgt, %gone, %limit : i64
    scf.if %over {
      %nobody = arith.constant 0 : i64
      %somebody = arith.constant 1 : i64
      %report := %control[@@AT_REPORT] : !llvm.ptr<1>
      %found = llvm.cmpxchg %report, %nobody, %somebody syncscope("@@SCOPE") monotonic monotonic
        : !llvm.ptr<1>, i64
      %mine = llvm.extractvalue %found[1] : !llvm.struct<(i64, i1)>
      scf.if %mine {
        %block = gpu.block_id x
        %eu = arith.index_cast %block : index to i64
        %event = arith.constant @@ON_BOXES : i64
        %report[@@IN_EU] := %eu
        %report[@@IN_EVENT] := %event
        %steps := %control[@@AT_STEPS] : !llvm.ptr<1>
        %own = & %steps[%eu]
        %made = llvm.atomicrmw add %own, %nobody syncscope("@@SCOPE") monotonic
          : !llvm.ptr<1>, i64
        %head = arith.constant @@IN_STEPS : i64
        %place = arith.addi %eu, %head : i64
        %report[%place] := %made
        llvm.fence release
        @@RELEASED
        "llvm.intr.trap"() : () -> ()
      }
    }
    scf.yield
  }
}
"""
