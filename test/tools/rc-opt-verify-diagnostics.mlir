// Expectations that are met, by offset, by word, of a note; and every way to miss one.
// RUN: rc-opt %s --split-input-file --verify-diagnostics > %t.out 2>&1
// RUN: diff %t.out /dev/null
// RUN: not rc-opt %S/Inputs/unmet-diagnostics.mlir --split-input-file --verify-diagnostics 2>&1 | filecheck %s

// CHECK:      unmet-diagnostics.mlir:3: expected error not produced: never said
// CHECK-NEXT: unmet-diagnostics.mlir:8: expected warning not produced: custom op
// CHECK-NEXT: unmet-diagnostics.mlir:8: unexpected error: custom op 'nope' is unknown
// CHECK-NEXT: unmet-diagnostics.mlir:12: unexpected error: custom op 'nope' is unknown

// expected-error@+1 {{custom op 'nope' is unknown}}
nope

// -----

nope // expected-error {{custom op 'nope' is unknown}}

// -----

nope
// expected-error@above {{custom op 'nope' is unknown}}

// -----

// expected-note@below {{see existing symbol definition here}}
func.func @f() { return }
// expected-error@below {{redefinition of symbol named 'f'}}
func.func @f() { return }
