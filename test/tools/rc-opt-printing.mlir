// What rc-opt shows of a pipeline that mixes passes of both kinds.
// RUN: rc-opt %s -p 'builtin.module( rtask-dce , func.func(cse))' --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=DUMP
// RUN: rc-opt %s -p 'rtask-dce,func.func(cse)' --print-ir-before-all 2>&1 | filecheck %s --check-prefix=BEFORE
// RUN: rc-opt %s -p 'rtask-dce,func.func(cse)' --print-ir-after-all 2>&1 | filecheck %s --check-prefix=AFTER
// RUN: rc-opt %s -p 'rtask-dce,func.func(cse)' --timing 2>&1 | filecheck %s --check-prefix=TIMING
// RUN: rc-opt --list-passes | filecheck %s --check-prefix=LIST
// RUN: rc-opt %s -o %t.out > %t.stdout
// RUN: diff %t.stdout /dev/null
// RUN: filecheck %s < %t.out
// RUN: rc-opt %s -o - | filecheck %s

// DUMP:       builtin.module(rtask-dce,func.func(cse))
// DUMP:       func.func @empty
// BEFORE:     IR Dump Before RTaskDce: rtask-dce
// BEFORE-NOT: IR Dump After
// BEFORE:     IR Dump Before CSE
// AFTER:      IR Dump After RTaskDce: rtask-dce
// AFTER-NOT:  IR Dump Before
// AFTER:      IR Dump After CSE
// TIMING:     Execution time report
// TIMING:     RTaskDce
// LIST:       roller-tile {{ *}}Construct the rKernels
// LIST:         candidates=int (default: 3)
// LIST:         score=intensity|paper (default: intensity)
// LIST:         pad-banks=true|false (default: false)
// LIST:       rtask-dce {{.*}}Remove the kernels
// LIST:       vdevice-attach-device {{ *}}Write into
// LIST-NEXT:    device=device (needed)
// LIST-NEXT:    precision=f32|tf32|f16|bf16|w8|w4 (default: f32)
// CHECK:      func.func @empty
func.func @empty() { return }
