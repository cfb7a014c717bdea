"""rTask bodies to code: the region of one rKernel becomes one vectorised loop nest as MLIR text.

`KernelWriter` (`kernel`) writes the tasks, tiles and stages of an rKernel once for all execution
units; what differs from one to another it asks a `Target` for, of which there are a core (`cpu`)
and a multiprocessor (`simt`).

Everything is pulled: the loop nest walks the result tile, and the value of each element is
evaluated through the region back to the operands (`evaluate`), so prologues, epilogues, slices and
broadcasts never touch memory. Reductions become register tiles of accumulators (`reduction`),
transcendental functions become own polynomials (`vector_math`). The text uses scf, arith, vector,
math and llvm loads and stores only.
"""
