"""Pieces of kernels that hand data from thread to thread, and how they are run."""

import numpy as np
from ptx_bench import run

from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.emulator.settings import Limits

DECLARE = """
.reg .b64 %at, %mine, %rd<8>;
.reg .b32 %r<20>, %block;
.reg .pred %p, %q, %first, %zero;
mov.u32 %block, %ctaid.x;
setp.eq.u32 %first, %tid, 0;
setp.eq.u32 %zero, %block, 0;
mul.wide.u32 %at, %tid, 4;
add.u64 %at, %data, %at;
"""
SIGNAL = "fence.acq_rel.gpu;\natom.global.add.u32 %r1, [%flags], 1;\n"
WAIT = """
SPIN:
ld.acquire.gpu.global.u32 %r2, [%flags];
setp.lt.u32 %q, %r2, 1;
@%q bra SPIN;
"""
FIRST_ONLY = "@!%first bra {0};\n{1}\n{0}:\n"
MODES = [{}, {"interleave": True, "seed": 1}, {"interleave": True, "seed": 2}]


def execute(text, mode, blocks=2, threads=64, flags=8, patience=100, **more):
    driver = EmulatedDriver(multiprocessors=4, limits=Limits(patience=patience), **mode, **more)
    arrays = [np.zeros(n, np.uint32) for n in (64, flags, 64)]
    return run(text, *arrays, threads=threads, blocks=blocks, driver=driver, cooperative=True)
