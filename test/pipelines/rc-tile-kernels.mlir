// RUN: rc-opt %S/../passes/roller-tile-tasks.mlir -p rc-tile-kernels --split-input-file | filecheck %s
// RUN: rc-opt %S/../passes/roller-tile-tasks.mlir -p rc-tile-kernels --dump-pass-pipeline --split-input-file 2>&1 >/dev/null | filecheck %s --check-prefix=LIST

// What becomes of each kind of operator: the files in rc-tile-kernels/.
// From whole operators to register tiles: of the first kernel, 4 rows and two vectors of 8 columns in the middle of
// two loops.
// CHECK:       "rtask.kernel"()
// CHECK:       scf.for
// CHECK:         scf.for
// CHECK:           linalg.generic {{.*}}"reduction"{{.*}} outs(%{{.*}} : tensor<4x16xf32>)
// CHECK:           tensor.insert_slice
// LIST:        roller-tile-tasks{by-threads=false},roller-tile-reductions,roller-tile-registers,roller-tidy-tasks
