"""What generated code has in another form on GPUs of each vendor: texts, in the notation of
`program.expanded` but for names in braces.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Vendor:
    """The texts of one vendor.

    scope: LLVM's name for all threads of the device. clock: an i64 that counts time; elapsed: %gone
    of %since and %now, in nanoseconds; constants: what it and `pause` use. pause: some ten
    nanoseconds of nothing, between two looks at an event. settle: by each thread of a block, before
    the barrier behind which one of them releases what all have written. released: behind each
    release fence. kernel: attribute of the persistent kernel, so that each thread gets all
    registers it may have. meeting: barrier number {0} of the first {1} threads of a block, which
    are whole warps; "" if all of them must come to each. shared: the pointer to the shared memory
    of the block, for functions that do not take it as a value; "" if they do. copy: an i32 that
    equals the one in the braces, and of which the compiler does not know that.
    """

    scope: str
    constants: str
    clock: str
    elapsed: str
    pause: str
    settle: str
    released: str
    kernel: str
    meeting: str
    shared: str
    copy: str

    def names(self) -> dict[str, str]:
        """What stands for @@SCOPE and the like."""
        own = vars(self)
        inner = ("meeting", "shared", "copy")  # of rKernels
        return {name.upper(): text for name, text in own.items() if name not in inner}


NVIDIA = Vendor(
    scope="device",
    constants="%sleep = arith.constant 20 : i32",  # ns
    clock="nvvm.read.ptx.sreg.globaltimer : i64",
    elapsed="%gone = arith.subi %now, %since : i64",
    pause="nvvm.nanosleep %sleep",
    settle="",  # a barrier is cumulative (PTX ISA, "Memory consistency model")
    released="",
    # ptxas gives threads half of the registers they may have, unless one block is enough for it
    kernel="nvvm.minctasm = 1 : i32",
    meeting="nvvm.barrier id = {0} number_of_threads = {1}",
    # An address that is a number when ptxas knows where shared memory begins. Of one that a caller
    # gives, it does not know that all threads of a warp have the same.
    shared="llvm.mlir.addressof @veu_shared : !llvm.ptr<3>",
    copy='llvm.inline_asm has_side_effects "mov.b32 $0, $1;", "=r,r" {0} : (i32) -> i32',
)

# s_memrealtime counts at 100 MHz (gfx9: LLVM's libc, gpu/time_utils.h); s_sleep 1 takes 64 cycles.
# The barrier does not wait for stores to memory (LLVM's SIMemoryLegalizer for gfx9: fences of a
# work-group wait for those to LDS only; pull requests 160501 and 177157 of LLVM), and the release
# of one thread waits for those of its own wave: so each wave must do that itself. LLVM 22 forgets
# to wait until a release has written back the L2 of gfx942, where nothing else was to be waited for
# (pull request 178316): s_waitcnt 0 waits for everything.
AMD = Vendor(
    scope="agent",
    constants="%tick = arith.constant 10 : i64",  # ns
    clock='llvm.call_intrinsic "llvm.amdgcn.s.memrealtime"() : () -> i64',
    elapsed="%ticks = arith.subi %now, %since : i64\n%gone = arith.muli %ticks, %tick : i64",
    pause="rocdl.s.sleep 1",
    settle='llvm.fence syncscope("agent") release\nrocdl.s.waitcnt 0',
    released="rocdl.s.waitcnt 0",
    kernel="rocdl.waves_per_eu = 1 : i32",
    meeting="",
    shared="",  # outside of a kernel LLVM reads the address from a table
    copy='llvm.inline_asm has_side_effects "", "=v,0" {0} : (i32) -> i32',
)
