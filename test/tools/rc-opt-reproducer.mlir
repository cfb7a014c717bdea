// A failing pass: a hint, or a reproducer that fails in the same way and says so once.
// RUN: not rc-opt %s -p 'func.func(cse),func.func(affine-loop-unroll{unroll-factor=0})' 2>&1 | filecheck %s --check-prefix=HINT
// RUN: not rc-opt %s --split-input-file -p 'func.func(cse), func.func(affine-loop-unroll{unroll-factor=0})' --reproducer=%t.mlir 2>&1 | filecheck %s --check-prefix=WRITTEN
// RUN: filecheck %s < %t.mlir
// RUN: not rc-opt --run-reproducer %t.mlir 2>&1 | filecheck %s --check-prefix=AGAIN
// A reproducer that no longer fails prints its module.
// RUN: rc-opt --run-reproducer %S/Inputs/fixed-reproducer.mlir | filecheck %s --check-prefix=FIXED
// A file does not say which code runs.
// RUN: not rc-opt --run-reproducer %S/Inputs/importing-reproducer.mlir 2>&1 | filecheck %s --check-prefix=IMPORT
// RUN: not rc-opt --run-reproducer %s 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not rc-opt --run-reproducer %t.mlir -p cse 2>&1 | filecheck %s --check-prefix=BOTH
// RUN: not rc-opt %s -p 'func.func(affine-loop-unroll{unroll-factor=0})' --reproducer=%t.absent/x 2>&1 | filecheck %s --check-prefix=UNWRITTEN

// HINT:      error: Invalid option: 'unroll-factor'
// HINT-NEXT: rc-opt: note: --reproducer=FILE writes the module and the pipeline into one file
// WRITTEN:   rc-opt: note: to see it again: rc-opt --run-reproducer {{.*}}.mlir
// CHECK:      // rc-opt reproducer; run it with: rc-opt --run-reproducer FILE
// CHECK-NEXT: // pipeline: func.func(cse), func.func(affine-loop-unroll{unroll-factor=0})
// CHECK-NEXT: // allow-unregistered-dialect: false
// CHECK-NOT:  @fine
// CHECK:      func.func @loop
// AGAIN:      error: Invalid option: 'unroll-factor'
// AGAIN-NOT:  rc-opt: note
// FIXED:      "some.op"
// IMPORT:     its pipeline imports and calls a policy, os:getcwd; if you trust it, give the pipeline with -p
// NONE:       rc-opt: {{.*}}rc-opt-reproducer.mlir: not a reproducer: no '// pipeline:' in the leading comment
// BOTH:       rc-opt: --run-reproducer takes its pipeline from the file, and one module
// UNWRITTEN:  rc-opt: {{.*}}.absent/x: cannot write the reproducer: No such file or directory
module @fine {}

// -----

func.func @loop(%m: memref<8xf32>, %x: f32) {
  affine.for %i = 0 to 8 {
    affine.store %x, %m[%i] : memref<8xf32>
  }
  return
}
