// RUN: rc-opt %s -p 'roller-tile-tasks,rtask.kernel(cse)' | filecheck %s --check-prefix=TASK
// RUN: rc-opt %s -p rc-tile-kernels | filecheck %s

// The square root of the sums of rows of 1024 elements. A task: 171 of 1026 rows. A register tile: one row.

// TASK-DAG: #[[ROWS:.*]] = affine_map<(d0) -> (d0 * 171)>
// TASK: ^bb0(%[[X:.*]]: tensor<1026x1024xf32>, %[[OUT:.*]]: tensor<1026xf32>, %[[NUMBER:.*]]: index)
// TASK: %[[I:.*]] = affine.apply #[[ROWS]](%[[NUMBER]])
// TASK: %[[A:.*]] = tensor.extract_slice %[[X]][%[[I]], 0] [171, 1024]
// TASK: %[[SUM:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A]] : tensor<171x1024xf32>) outs(%{{.*}} : tensor<171xf32>)
// TASK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[SUM]] : tensor<171xf32>) outs(%{{.*}} : tensor<171xf32>)
// TASK:   math.sqrt %{{.*}}
// TASK: %[[R:.*]] = tensor.insert_slice %[[Y]] into %[[OUT]][%[[I]]] [171]
// TASK: "rtask.yield"(%[[R]])

// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1) -> (d0 * 171 + d1)>
// CHECK: ^bb0(%[[X:.*]]: tensor<1026x1024xf32>, %[[OUT:.*]]: tensor<1026xf32>, %[[NUMBER:.*]]: index)
// The loop over the rows of the task.
// CHECK: %[[R:.*]] = scf.for %[[D:.*]] = %c0 to %c171 step %c1 iter_args(%[[O:.*]] = %[[OUT]])
// CHECK:   %[[I:.*]] = affine.apply #[[ROWS]](%[[NUMBER]], %[[D]])
// CHECK:   %[[A:.*]] = tensor.extract_slice %[[X]][%[[I]], 0] [1, 1024]
// The sum of one row, in the lanes of vectors, and its epilogue.
// CHECK:   %[[SUM:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A]] : tensor<1x1024xf32>) outs(%{{.*}} : tensor<1xf32>)
// CHECK:   %[[Y:.*]] = linalg.generic {{.*}} ins(%[[SUM]] : tensor<1xf32>) outs(%{{.*}} : tensor<1xf32>)
// CHECK:     math.sqrt %{{.*}}
// CHECK:   %[[S:.*]] = tensor.insert_slice %[[Y]] into %[[O]][%[[I]]] [1]
// CHECK:   scf.yield %[[S]]
// CHECK: "rtask.yield"(%[[R]])

#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
"rtask.kernel"() ({
^bb0(%arg0: tensor<1026x1024xf32>):
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<1026xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<1026xf32>) -> tensor<1026xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<1026x1024xf32>) outs(%1 : tensor<1026xf32>) {
  ^bb0(%in: f32, %out: f32):
    %4 = arith.addf %out, %in : f32
    linalg.yield %4 : f32
  } -> tensor<1026xf32>
  %3 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%2 : tensor<1026xf32>) outs(%0 : tensor<1026xf32>) {
  ^bb0(%in: f32, %out: f32):
    %4 = math.sqrt %in : f32
    linalg.yield %4 : f32
  } -> tensor<1026xf32>
  "rtask.yield"(%3) : (tensor<1026xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 6>, kind = "reduction", lanes = 8 : i64, on_chip_bytes = 701100 : i64, order = array<i64: 0>, reads = [[array<i64: 0, 171, 0, 171>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1>, registers = 9 : i64, source = "roller", sym_name = "reduction", tasks = 6 : i64, tile = array<i64: 171>, vector_dim = -1 : i64, writes = [[array<i64: 0, 171, 0, 171>]]} : () -> ()
