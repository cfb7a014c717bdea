// RUN: rc-opt %s -p 'roller-tile-tasks,rtask.kernel(cse)' | filecheck %s --check-prefix=TASK
// RUN: rc-opt %s -p rc-tile-kernels | filecheck %s

// A transposition. A task: 128 x 352 of 512 x 1056 results. A register tile: 8 x 8, which the lanes of
// 8 vectors hold. Look at the slices: the place of the result, with its axes exchanged, is that of the operand.

// TASK-DAG: #[[DIV:.*]] = affine_map<(d0) -> (d0 floordiv 3)>
// TASK-DAG: #[[MOD:.*]] = affine_map<(d0) -> (d0 mod 3)>
// TASK-DAG: #[[COLUMNS:.*]] = affine_map<(d0) -> (d0 * 352)>
// TASK-DAG: #[[ROWS:.*]] = affine_map<(d0) -> (d0 * 128)>
// TASK-DAG: #[[SWAPPED:.*]] = affine_map<(d0, d1) -> (d1, d0)>
// TASK: ^bb0(%[[X:.*]]: tensor<1056x512xf32>, %[[OUT:.*]]: tensor<512x1056xf32>, %[[NUMBER:.*]]: index)
// TASK: %[[G0:.*]] = affine.apply #[[DIV]](%[[NUMBER]])
// TASK: %[[G1:.*]] = affine.apply #[[MOD]](%[[NUMBER]])
// TASK: %[[J:.*]] = affine.apply #[[COLUMNS]](%[[G1]])
// TASK: %[[I:.*]] = affine.apply #[[ROWS]](%[[G0]])
// TASK: %[[A:.*]] = tensor.extract_slice %[[X]][%[[J]], %[[I]]] [352, 128]
// TASK: %[[Y:.*]] = linalg.generic {indexing_maps = [#[[SWAPPED]], #{{.*}}], {{.*}} ins(%[[A]] : tensor<352x128xf32>) outs(%{{.*}} : tensor<128x352xf32>)
// TASK: %[[R:.*]] = tensor.insert_slice %[[Y]] into %[[OUT]][%[[I]], %[[J]]] [128, 352]
// TASK: "rtask.yield"(%[[R]])

// CHECK-DAG: #[[DIV:.*]] = affine_map<(d0) -> (d0 floordiv 3)>
// CHECK-DAG: #[[MOD:.*]] = affine_map<(d0) -> (d0 mod 3)>
// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1) -> (d0 * 128 + d1)>
// CHECK-DAG: #[[COLUMNS:.*]] = affine_map<(d0, d1) -> (d0 * 352 + d1)>
// CHECK-DAG: #[[SWAPPED:.*]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK: ^bb0(%[[X:.*]]: tensor<1056x512xf32>, %[[OUT:.*]]: tensor<512x1056xf32>, %[[NUMBER:.*]]: index)
// CHECK: %[[G0:.*]] = affine.apply #[[DIV]](%[[NUMBER]])
// CHECK: %[[G1:.*]] = affine.apply #[[MOD]](%[[NUMBER]])
// Loops over 8 rows and 8 columns of the result.
// CHECK: %[[L0:.*]] = scf.for %[[D0:.*]] = %c0 to %c128 step %c8 iter_args(%[[O0:.*]] = %[[OUT]])
// CHECK:   %[[I:.*]] = affine.apply #[[ROWS]](%[[G0]], %[[D0]])
// CHECK:   %[[L1:.*]] = scf.for %[[D1:.*]] = %c0 to %c352 step %c8 iter_args(%[[O1:.*]] = %[[O0]])
// CHECK:     %[[J:.*]] = affine.apply #[[COLUMNS]](%[[G1]], %[[D1]])
// CHECK:     %[[A:.*]] = tensor.extract_slice %[[X]][%[[J]], %[[I]]] [8, 8]
// CHECK:     %[[Y:.*]] = linalg.generic {indexing_maps = [#[[SWAPPED]], #{{.*}}], {{.*}} ins(%[[A]] : tensor<8x8xf32>) outs(%{{.*}} : tensor<8x8xf32>)
// CHECK:     %[[S:.*]] = tensor.insert_slice %[[Y]] into %[[O1]][%[[I]], %[[J]]] [8, 8]
// CHECK:     scf.yield %[[S]]
// CHECK:   scf.yield %[[L1]]
// CHECK: "rtask.yield"(%[[L0]])

#map = affine_map<(d0, d1) -> (d1, d0)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
"rtask.kernel"() ({
^bb0(%arg0: tensor<1056x512xf32>):
  %0 = tensor.empty() : tensor<512x1056xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<1056x512xf32>) outs(%0 : tensor<512x1056xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<512x1056xf32>
  "rtask.yield"(%1) : (tensor<512x1056xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 4, 3>, kind = "movement", lanes = 8 : i64, on_chip_bytes = 360448 : i64, order = array<i64: 0, 1>, reads = [[array<i64: 1, 352, 0, 352>, array<i64: 0, 128, 0, 128>]], register_tile = array<i64: 8, 8>, registers = 9 : i64, source = "roller", sym_name = "transpose", tasks = 12 : i64, tile = array<i64: 128, 352>, vector_dim = 1 : i64, writes = [[array<i64: 0, 128, 0, 128>, array<i64: 1, 352, 0, 352>]]} : () -> ()
