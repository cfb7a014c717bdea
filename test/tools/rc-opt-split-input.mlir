// One failing module of three: the others are printed, the file is not written.
// RUN: not rc-opt %s --split-input-file > %t.out 2> %t.err
// RUN: filecheck %s < %t.out
// RUN: filecheck %s --check-prefix=ERROR < %t.err
// RUN: rm -f %t.file
// RUN: not rc-opt %s --split-input-file -o %t.file 2> %t.err
// RUN: not test -e %t.file

// CHECK:     func.func @first
// CHECK:     // -----
// CHECK-NOT: @second
// CHECK:     func.func @third
// ERROR:     rc-opt-split-input.mlir:18:36: error: expected operation name in quotes
func.func @first() { return }

// -----

func.func @second() -> i32 { return 1 }

// -----

func.func @third() { return }
