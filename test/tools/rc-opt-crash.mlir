// A crash inside MLIR: one line that names the pass, and a reproducer that crashes alike.
// RUN: not rc-opt %s -p 'func.func(cse),func.func(affine-loop-unroll-jam{unroll-jam-factor=0})' --reproducer=%t.mlir 2>&1 | filecheck %s --check-prefix=PASS
// RUN: filecheck %s < %t.mlir
// RUN: not rc-opt --run-reproducer %t.mlir --reproducer=%t.again.mlir 2>&1 | filecheck %s --check-prefix=PASS
// RUN: %{python} -c "print('func.func @f(%%c: i1) {', 'scf.if %%c {' * 20000, '}' * 20000, 'return }')" | not rc-opt - --reproducer=%t.deep.mlir 2>&1 | filecheck %s --check-prefix=PARSER

// PASS:       rc-opt: {{.*}}.mlir:1: MLIR crashed (SIGFPE) in 'func.func(affine-loop-unroll-jam{unroll-jam-factor=0})'; to see it again: rc-opt --run-reproducer {{.*}}.mlir
// PASS-NOT:   {{.+}}
// PARSER:     rc-opt: -:1: MLIR crashed (SIGSEGV, a fault or a stack overflow) in the parser; to see it again: rc-opt --run-reproducer {{.*}}.deep.mlir
// PARSER-NOT: {{.+}}
// CHECK:      // pipeline: func.func(cse),func.func(affine-loop-unroll-jam{unroll-jam-factor=0})
// CHECK:      affine.for
func.func @loop(%m: memref<8xf32>, %x: f32) {
  affine.for %i = 0 to 8 {
    affine.store %x, %m[%i] : memref<8xf32>
  }
  return
}
