// RUN: rc-opt %s -p 'roller-tile-tasks,rtask.kernel(cse)' | filecheck %s --check-prefix=TASK
// RUN: rc-opt %s -p rc-tile-kernels | filecheck %s

// Winograd's 36 products of 6 x 6 pairs. A task: 3 of them. A register tile: 4 tiles of a row of 7, times 3 of 8
// blocks of channels; what is left are 3 tiles and 2 blocks: four register tiles cover a row.

// TASK-DAG: #[[DIV:.*]] = affine_map<(d0) -> (d0 floordiv 2)>
// TASK-DAG: #[[MOD:.*]] = affine_map<(d0) -> (d0 mod 2)>
// TASK-DAG: #[[PAIRS:.*]] = affine_map<(d0) -> (d0 * 3)>
// TASK: ^bb0(%[[X:.*]]: tensor<6x6x1x8x7x7x8xf32>, %[[W:.*]]: tensor<6x6x8x8x8x8xf32>, %[[OUT:.*]]: tensor<6x6x1x8x7x7x8xf32>, %[[NUMBER:.*]]: index)
// TASK: %[[G0:.*]] = affine.apply #[[DIV]](%[[NUMBER]])
// TASK: %[[G1:.*]] = affine.apply #[[MOD]](%[[NUMBER]])
// TASK: %[[J:.*]] = affine.apply #[[PAIRS]](%[[G1]])
// TASK: %[[A:.*]] = tensor.extract_slice %[[X]][%[[G0]], %[[J]], 0, 0, 0, 0, 0] [1, 3, 1, 8, 7, 7, 8]
// TASK: %[[V:.*]] = tensor.extract_slice %[[W]][%[[G0]], %[[J]], 0, 0, 0, 0] [1, 3, 8, 8, 8, 8]
// TASK: %[[P:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A]], %[[V]] : tensor<1x3x1x8x7x7x8xf32>, tensor<1x3x8x8x8x8xf32>) outs(%{{.*}} : tensor<1x3x1x8x7x7x8xf32>)
// TASK: %[[R:.*]] = tensor.insert_slice %[[P]] into %[[OUT]][%[[G0]], %[[J]], 0, 0, 0, 0, 0] [1, 3, 1, 8, 7, 7, 8]
// TASK: "rtask.yield"(%[[R]])

// CHECK-DAG: #[[DIV:.*]] = affine_map<(d0) -> (d0 floordiv 2)>
// CHECK-DAG: #[[MOD:.*]] = affine_map<(d0) -> (d0 mod 2)>
// CHECK-DAG: #[[PAIRS:.*]] = affine_map<(d0, d1) -> (d0 * 3 + d1)>
// CHECK: ^bb0(%[[X:.*]]: tensor<6x6x1x8x7x7x8xf32>, %[[W:.*]]: tensor<6x6x8x8x8x8xf32>, %[[OUT:.*]]: tensor<6x6x1x8x7x7x8xf32>, %[[NUMBER:.*]]: index)
// CHECK: %[[G0:.*]] = affine.apply #[[DIV]](%[[NUMBER]])
// CHECK: %[[G1:.*]] = affine.apply #[[MOD]](%[[NUMBER]])
// Loops over the pairs of the task, 3 blocks of channels, rows of tiles.
// CHECK: %[[L0:.*]] = scf.for %[[D0:.*]] = %c0 to %c3 step %c1 iter_args(%[[O0:.*]] = %[[OUT]])
// CHECK:   %[[J:.*]] = affine.apply #[[PAIRS]](%[[G1]], %[[D0]])
// CHECK:   %[[L1:.*]] = scf.for %[[C:.*]] = %c0 to %c6 step %c3 iter_args(%[[O1:.*]] = %[[O0]])
// CHECK:     %[[V:.*]] = tensor.extract_slice %[[W]][%[[G0]], %[[J]], %[[C]], 0, 0, 0] [1, 1, 3, 8, 8, 8]
// CHECK:     %[[L2:.*]] = scf.for %[[Y:.*]] = %c0 to %c7 step %c1 iter_args(%[[O2:.*]] = %[[O1]])
// 4 tiles of the row ...
// CHECK:       %[[A:.*]] = tensor.extract_slice %[[X]][%[[G0]], %[[J]], 0, 0, %[[Y]], 0, 0] [1, 1, 1, 8, 1, 4, 8]
// CHECK:       %[[P:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A]], %[[V]] : tensor<1x1x1x8x1x4x8xf32>, tensor<1x1x3x8x8x8xf32>) outs(%{{.*}} : tensor<1x1x1x3x1x4x8xf32>)
// CHECK:       %[[S:.*]] = tensor.insert_slice %[[P]] into %[[O2]][%[[G0]], %[[J]], 0, %[[C]], %[[Y]], 0, 0] [1, 1, 1, 3, 1, 4, 8]
// ... and 3 that are left.
// CHECK:       %[[A2:.*]] = tensor.extract_slice %[[X]][%[[G0]], %[[J]], 0, 0, %[[Y]], 4, 0] [1, 1, 1, 8, 1, 3, 8]
// CHECK:       %[[P2:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A2]], %[[V]] : tensor<1x1x1x8x1x3x8xf32>, tensor<1x1x3x8x8x8xf32>) outs(%{{.*}} : tensor<1x1x1x3x1x3x8xf32>)
// CHECK:       %[[S2:.*]] = tensor.insert_slice %[[P2]] into %[[S]][%[[G0]], %[[J]], 0, %[[C]], %[[Y]], 4, 0] [1, 1, 1, 3, 1, 3, 8]
// CHECK:       scf.yield %[[S2]]
// CHECK:     scf.yield %[[L2]]
// The last 2 blocks of channels, with the same two.
// CHECK:   %[[V3:.*]] = tensor.extract_slice %[[W]][%[[G0]], %[[J]], 6, 0, 0, 0] [1, 1, 2, 8, 8, 8]
// CHECK:   %[[L3:.*]] = scf.for %[[Y3:.*]] = %c0 to %c7 step %c1 iter_args(%[[O3:.*]] = %[[L1]])
// CHECK:     %[[A3:.*]] = tensor.extract_slice %[[X]][%[[G0]], %[[J]], 0, 0, %[[Y3]], 0, 0] [1, 1, 1, 8, 1, 4, 8]
// CHECK:     %[[P3:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A3]], %[[V3]] : tensor<1x1x1x8x1x4x8xf32>, tensor<1x1x2x8x8x8xf32>) outs(%{{.*}} : tensor<1x1x1x2x1x4x8xf32>)
// CHECK:     %[[S3:.*]] = tensor.insert_slice %[[P3]] into %[[O3]][%[[G0]], %[[J]], 0, 6, %[[Y3]], 0, 0] [1, 1, 1, 2, 1, 4, 8]
// CHECK:     %[[A4:.*]] = tensor.extract_slice %[[X]][%[[G0]], %[[J]], 0, 0, %[[Y3]], 4, 0] [1, 1, 1, 8, 1, 3, 8]
// CHECK:     %[[P4:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A4]], %[[V3]] : tensor<1x1x1x8x1x3x8xf32>, tensor<1x1x2x8x8x8xf32>) outs(%{{.*}} : tensor<1x1x1x2x1x3x8xf32>)
// CHECK:     %[[S4:.*]] = tensor.insert_slice %[[P4]] into %[[S3]][%[[G0]], %[[J]], 0, 6, %[[Y3]], 4, 0] [1, 1, 1, 2, 1, 3, 8]
// CHECK:     scf.yield %[[S4]]
// CHECK:   scf.yield %[[L3]]
// CHECK: "rtask.yield"(%[[L0]])

#map = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d1, d2, d7, d4, d5, d8)>
#map1 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d1, d3, d7, d8, d6)>
#map2 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d1, d2, d3, d4, d5, d6)>
"rtask.kernel"() ({
^bb0(%arg0: tensor<6x6x1x8x7x7x8xf32>, %arg1: tensor<6x6x8x8x8x8xf32>):
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<6x6x1x8x7x7x8xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<6x6x1x8x7x7x8xf32>) -> tensor<6x6x1x8x7x7x8xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%arg0, %arg1 : tensor<6x6x1x8x7x7x8xf32>, tensor<6x6x8x8x8x8xf32>) outs(%1 : tensor<6x6x1x8x7x7x8xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %3 = arith.mulf %in, %in_0 : f32
    %4 = arith.addf %out, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<6x6x1x8x7x7x8xf32>
  "rtask.yield"(%2) : (tensor<6x6x1x8x7x7x8xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 6, 2, 1, 1, 1, 1, 1>, kind = "contraction", lanes = 8 : i64, on_chip_bytes = 92160 : i64, order = array<i64: 0, 1, 3, 4, 5, 2, 6>, reads = [[array<i64: 0, 1, 0, 1>, array<i64: 1, 3, 0, 3>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: 0, 1, 0, 1>, array<i64: 1, 3, 0, 3>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 1, 1, 3, 1, 4, 8>, registers = 16 : i64, source = "roller", sym_name = "winograd_product", tasks = 12 : i64, tile = array<i64: 1, 3, 1, 8, 7, 7, 8>, vector_dim = 6 : i64, writes = [[array<i64: 0, 1, 0, 1>, array<i64: 1, 3, 0, 3>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()
