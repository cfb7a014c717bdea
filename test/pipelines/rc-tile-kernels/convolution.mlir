// RUN: rc-opt %s -p 'roller-tile-tasks,rtask.kernel(cse)' | filecheck %s --check-prefix=TASK
// RUN: rc-opt %s -p rc-tile-kernels | filecheck %s

// A convolution of 2 groups, in steps of 2, whose taps are 2 apart, with bias and relu; channels in
// blocks of 8. A task: 5 of 30 rows of one group. A register tile: 3 pixels of 4 blocks.

// TASK-DAG: #[[DIV:.*]] = affine_map<(d0) -> (d0 floordiv 6)>
// TASK-DAG: #[[MOD:.*]] = affine_map<(d0) -> (d0 mod 6)>
// TASK-DAG: #[[FIRST:.*]] = affine_map<(d0) -> (d0 * 10)>
// TASK-DAG: #[[WINDOW:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d0, d1, d6, d3 * 2 + d7 * 2, d4 * 2 + d8 * 2, d9)>
// TASK-DAG: #[[PLACE:.*]] = affine_map<(d0) -> (d0 * 5)>
// TASK: ^bb0(%[[X:.*]]: tensor<1x2x1x63x63x8xf32>, %[[W:.*]]: tensor<2x4x1x3x3x8x8xf32>, %[[B:.*]]: tensor<2x4x8xf32>, %[[OUT:.*]]: tensor<1x2x4x30x30x8xf32>, %[[NUMBER:.*]]: index)
// TASK: %[[G:.*]] = affine.apply #[[DIV]](%[[NUMBER]])
// TASK: %[[ROWS:.*]] = affine.apply #[[MOD]](%[[NUMBER]])
// The window of 5 rows: they start 10 rows apart, and (5 - 1) * 2 + (3 - 1) * 2 + 1 = 13 are read.
// TASK: %[[Y:.*]] = affine.apply #[[FIRST]](%[[ROWS]])
// TASK: %[[A:.*]] = tensor.extract_slice %[[X]][0, %[[G]], 0, %[[Y]], 0, 0] [1, 1, 1, 13, 63, 8]
// The weights and the bias of the group, whole.
// TASK: %[[V:.*]] = tensor.extract_slice %[[W]][%[[G]], 0, 0, 0, 0, 0, 0] [1, 4, 1, 3, 3, 8, 8]
// TASK: %[[P:.*]] = linalg.generic {indexing_maps = [#[[WINDOW]], #{{.*}}, #{{.*}}], {{.*}}"reduction"{{.*}} ins(%[[A]], %[[V]] : tensor<1x1x1x13x63x8xf32>, tensor<1x4x1x3x3x8x8xf32>) outs(%{{.*}} : tensor<1x1x4x5x30x8xf32>)
// TASK: %[[C:.*]] = tensor.extract_slice %[[B]][%[[G]], 0, 0] [1, 4, 8]
// The epilogue.
// TASK: %[[Q:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[C]] : tensor<1x1x4x5x30x8xf32>, tensor<1x4x8xf32>) outs(%{{.*}} : tensor<1x1x4x5x30x8xf32>)
// TASK:   arith.addf %{{.*}}, %{{.*}}
// TASK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<1x1x4x5x30x8xf32>) outs(%{{.*}} : tensor<1x1x4x5x30x8xf32>)
// TASK:   arith.maximumf %{{.*}}, %{{.*}}
// The results lie 5 rows apart.
// TASK: %[[Y2:.*]] = affine.apply #[[PLACE]](%[[ROWS]])
// TASK: %[[R:.*]] = tensor.insert_slice %[[T]] into %[[OUT]][0, %[[G]], 0, %[[Y2]], 0, 0] [1, 1, 4, 5, 30, 8]
// TASK: "rtask.yield"(%[[R]])

// CHECK-DAG: #[[DIV:.*]] = affine_map<(d0) -> (d0 floordiv 6)>
// CHECK-DAG: #[[MOD:.*]] = affine_map<(d0) -> (d0 mod 6)>
// CHECK-DAG: #[[FIRST:.*]] = affine_map<(d0, d1) -> (d0 * 10 + d1 * 2)>
// CHECK-DAG: #[[PLACE:.*]] = affine_map<(d0, d1) -> (d0 * 5 + d1)>
// CHECK-DAG: #[[STEP:.*]] = affine_map<(d0) -> (d0 * 2)>
// CHECK-DAG: #[[WINDOW:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d0, d1, d6, d3 * 2 + d7 * 2, d4 * 2 + d8 * 2, d9)>
// CHECK: ^bb0(%[[X:.*]]: tensor<1x2x1x63x63x8xf32>, %[[W:.*]]: tensor<2x4x1x3x3x8x8xf32>, %[[B:.*]]: tensor<2x4x8xf32>, %[[OUT:.*]]: tensor<1x2x4x30x30x8xf32>, %[[NUMBER:.*]]: index)
// CHECK: %[[G:.*]] = affine.apply #[[DIV]](%[[NUMBER]])
// CHECK: %[[ROWS:.*]] = affine.apply #[[MOD]](%[[NUMBER]])
// CHECK: %[[V:.*]] = tensor.extract_slice %[[W]][%[[G]], 0, 0, 0, 0, 0, 0] [1, 4, 1, 3, 3, 8, 8]
// CHECK: %[[C:.*]] = tensor.extract_slice %[[B]][%[[G]], 0, 0] [1, 4, 8]
// Loops over the rows of the task, and 3 pixels at a time.
// CHECK: %[[L0:.*]] = scf.for %[[Y:.*]] = %c0 to %c5 step %c1 iter_args(%[[O0:.*]] = %[[OUT]])
// CHECK:   %[[Y1:.*]] = affine.apply #[[FIRST]](%[[ROWS]], %[[Y]])
// CHECK:   %[[Y2:.*]] = affine.apply #[[PLACE]](%[[ROWS]], %[[Y]])
// CHECK:   %[[L1:.*]] = scf.for %[[X1:.*]] = %c0 to %c30 step %c3 iter_args(%[[O1:.*]] = %[[O0]])
// The window of a register tile: 5 rows, and (3 - 1) * 2 + (3 - 1) * 2 + 1 = 9 columns.
// CHECK:     %[[X2:.*]] = affine.apply #[[STEP]](%[[X1]])
// CHECK:     %[[A:.*]] = tensor.extract_slice %[[X]][0, %[[G]], 0, %[[Y1]], %[[X2]], 0] [1, 1, 1, 5, 9, 8]
// Its sums over the taps and the channels of its group, and its epilogue.
// CHECK:     %[[P:.*]] = linalg.generic {indexing_maps = [#[[WINDOW]], #{{.*}}, #{{.*}}], {{.*}}"reduction"{{.*}} ins(%[[A]], %[[V]] : tensor<1x1x1x5x9x8xf32>, tensor<1x4x1x3x3x8x8xf32>) outs(%{{.*}} : tensor<1x1x4x1x3x8xf32>)
// CHECK:     %[[Q:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[C]] : tensor<1x1x4x1x3x8xf32>, tensor<1x4x8xf32>) outs(%{{.*}} : tensor<1x1x4x1x3x8xf32>)
// CHECK:       arith.addf %{{.*}}, %{{.*}}
// CHECK:     %[[T:.*]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<1x1x4x1x3x8xf32>) outs(%{{.*}} : tensor<1x1x4x1x3x8xf32>)
// CHECK:       arith.maximumf %{{.*}}, %{{.*}}
// CHECK:     %[[S:.*]] = tensor.insert_slice %[[T]] into %[[O1]][0, %[[G]], 0, %[[Y2]], %[[X1]], 0] [1, 1, 4, 1, 3, 8]
// CHECK:     scf.yield %[[S]]
// CHECK:   scf.yield %[[L1]]
// CHECK: "rtask.yield"(%[[L0]])

#map = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d0, d1, d6, d3 * 2 + d7 * 2, d4 * 2 + d8 * 2, d9)>
#map1 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d1, d2, d6, d7, d8, d9, d5)>
#map2 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d0, d1, d2, d3, d4, d5)>
#map3 = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3, d4, d5)>
#map4 = affine_map<(d0, d1, d2, d3, d4, d5) -> (d1, d2, d5)>
"rtask.kernel"() ({
^bb0(%arg0: tensor<1x2x1x63x63x8xf32>, %arg1: tensor<2x4x1x3x3x8x8xf32>, %arg2: tensor<2x4x8xf32>):
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<1x2x4x30x30x8xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<1x2x4x30x30x8xf32>) -> tensor<1x2x4x30x30x8xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]} ins(%arg0, %arg1 : tensor<1x2x1x63x63x8xf32>, tensor<2x4x1x3x3x8x8xf32>) outs(%1 : tensor<1x2x4x30x30x8xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %5 = arith.mulf %in, %in_0 : f32
    %6 = arith.addf %out, %5 : f32
    linalg.yield %6 : f32
  } -> tensor<1x2x4x30x30x8xf32>
  %3 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%2, %arg2 : tensor<1x2x4x30x30x8xf32>, tensor<2x4x8xf32>) outs(%0 : tensor<1x2x4x30x30x8xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %5 = arith.addf %in, %in_0 : f32
    linalg.yield %5 : f32
  } -> tensor<1x2x4x30x30x8xf32>
  %4 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%3 : tensor<1x2x4x30x30x8xf32>) outs(%0 : tensor<1x2x4x30x30x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %5 = arith.maximumf %in, %cst : f32
    linalg.yield %5 : f32
  } -> tensor<1x2x4x30x30x8xf32>
  "rtask.yield"(%4) : (tensor<1x2x4x30x30x8xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1, 2, 1, 6, 1, 1>, kind = "convolution", lanes = 8 : i64, on_chip_bytes = 35712 : i64, order = array<i64: 1, 3, 4, 0, 2, 5>, reads = [[array<i64: -1, 0, 0, 0>, array<i64: 1, 1, 0, 1>, array<i64: -1, 0, 0, 0>, array<i64: 3, 10, 0, 13>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: 1, 1, 0, 1>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: 1, 1, 0, 1>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 1, 4, 1, 3, 8>, registers = 16 : i64, source = "roller", sym_name = "convolution", tasks = 12 : i64, tile = array<i64: 1, 1, 4, 5, 30, 8>, vector_dim = 5 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: 1, 1, 0, 1>, array<i64: -1, 0, 0, 0>, array<i64: 3, 5, 0, 5>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()
