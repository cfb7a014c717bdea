// RUN: rc-opt %S/../passes/roller-tile-threads.mlir -p 'vdevice-attach-device{device=h200},rc-tile-threads' --split-input-file | filecheck %s
// RUN: rc-opt %S/../passes/roller-tile-threads.mlir -p 'vdevice-attach-device{device=h200},rc-tile-threads' --dump-pass-pipeline --split-input-file 2>&1 >/dev/null | filecheck %s --check-prefix=LIST

// From whole operators to threads, what is the same in all of them in front: each position once.
// CHECK:       "rtask.kernel"()
// CHECK:       %[[E:.*]] = tensor.empty() : tensor<2x1xf32>
// CHECK:       scf.forall
// CHECK:         linalg.generic {{.*}} outs(%[[E]] : tensor<2x1xf32>)
// CHECK:         tensor.parallel_insert_slice
// LIST:        vdevice-attach-device{{.*}},roller-tile-tasks{by-threads=true},roller-tile-threads{threads=0},roller-tidy-tasks
