// RUN: rc-opt %s -p 'roller-tile-tasks,rtask.kernel(cse)' | filecheck %s --check-prefix=TASK
// RUN: rc-opt %s -p rc-tile-kernels | filecheck %s

// A depthwise convolution of 64 channels with bias and relu; channels in blocks of 8, which are the
// vectors: nothing is summed up over them. A task: 19 rows of 4 blocks. A register tile: 6 pixels.

// TASK-DAG: #[[DIV:.*]] = affine_map<(d0) -> (d0 floordiv 3)>
// TASK-DAG: #[[MOD:.*]] = affine_map<(d0) -> (d0 mod 3)>
// TASK-DAG: #[[BLOCKS:.*]] = affine_map<(d0) -> (d0 * 4)>
// TASK-DAG: #[[ROWS:.*]] = affine_map<(d0) -> (d0 * 19)>
// TASK-DAG: #[[WINDOW:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2 + d4, d3 + d5, d6)>
// TASK: ^bb0(%[[X:.*]]: tensor<1x8x59x59x8xf32>, %[[W:.*]]: tensor<8x3x3x8xf32>, %[[B:.*]]: tensor<8x8xf32>, %[[OUT:.*]]: tensor<1x8x57x57x8xf32>, %[[NUMBER:.*]]: index)
// TASK: %[[G0:.*]] = affine.apply #[[DIV]](%[[NUMBER]])
// TASK: %[[G1:.*]] = affine.apply #[[MOD]](%[[NUMBER]])
// TASK: %[[CH:.*]] = affine.apply #[[BLOCKS]](%[[G0]])
// TASK: %[[Y:.*]] = affine.apply #[[ROWS]](%[[G1]])
// The window has the 19 rows and one at either side, and the same blocks of channels ...
// TASK: %[[A:.*]] = tensor.extract_slice %[[X]][0, %[[CH]], %[[Y]], 0, 0] [1, 4, 21, 59, 8]
// ... as the taps and the bias.
// TASK: %[[V:.*]] = tensor.extract_slice %[[W]][%[[CH]], 0, 0, 0] [4, 3, 3, 8]
// The reduction goes over the 3 x 3 taps.
// TASK: %[[P:.*]] = linalg.generic {indexing_maps = [#[[WINDOW]], #{{.*}}, #{{.*}}], {{.*}}"reduction"{{.*}} ins(%[[A]], %[[V]] : tensor<1x4x21x59x8xf32>, tensor<4x3x3x8xf32>) outs(%{{.*}} : tensor<1x4x19x57x8xf32>)
// TASK: %[[C:.*]] = tensor.extract_slice %[[B]][%[[CH]], 0] [4, 8]
// TASK: %[[Q:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[C]] : tensor<1x4x19x57x8xf32>, tensor<4x8xf32>) outs(%{{.*}} : tensor<1x4x19x57x8xf32>)
// TASK:   arith.addf %{{.*}}, %{{.*}}
// TASK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<1x4x19x57x8xf32>) outs(%{{.*}} : tensor<1x4x19x57x8xf32>)
// TASK:   arith.maximumf %{{.*}}, %{{.*}}
// TASK: %[[R:.*]] = tensor.insert_slice %[[T]] into %[[OUT]][0, %[[CH]], %[[Y]], 0, 0] [1, 4, 19, 57, 8]
// TASK: "rtask.yield"(%[[R]])

// CHECK-DAG: #[[DIV:.*]] = affine_map<(d0) -> (d0 floordiv 3)>
// CHECK-DAG: #[[MOD:.*]] = affine_map<(d0) -> (d0 mod 3)>
// CHECK-DAG: #[[BLOCKS:.*]] = affine_map<(d0, d1) -> (d0 * 4 + d1)>
// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1) -> (d0 * 19 + d1)>
// CHECK-DAG: #[[WINDOW:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2 + d4, d3 + d5, d6)>
// CHECK: ^bb0(%[[X:.*]]: tensor<1x8x59x59x8xf32>, %[[W:.*]]: tensor<8x3x3x8xf32>, %[[B:.*]]: tensor<8x8xf32>, %[[OUT:.*]]: tensor<1x8x57x57x8xf32>, %[[NUMBER:.*]]: index)
// CHECK: %[[G0:.*]] = affine.apply #[[DIV]](%[[NUMBER]])
// CHECK: %[[G1:.*]] = affine.apply #[[MOD]](%[[NUMBER]])
// Loops over blocks of channels, rows, and 6 pixels at a time. 57 = 9 * 6 + 3 ...
// CHECK: %[[L0:.*]] = scf.for %[[CI:.*]] = %c0 to %c4 step %c1 iter_args(%[[O0:.*]] = %[[OUT]])
// CHECK:   %[[CH:.*]] = affine.apply #[[BLOCKS]](%[[G0]], %[[CI]])
// CHECK:   %[[V:.*]] = tensor.extract_slice %[[W]][%[[CH]], 0, 0, 0] [1, 3, 3, 8]
// CHECK:   %[[C:.*]] = tensor.extract_slice %[[B]][%[[CH]], 0] [1, 8]
// CHECK:   %[[L1:.*]] = scf.for %[[YI:.*]] = %c0 to %c19 step %c1 iter_args(%[[O1:.*]] = %[[O0]])
// CHECK:     %[[Y:.*]] = affine.apply #[[ROWS]](%[[G1]], %[[YI]])
// CHECK:     %[[L2:.*]] = scf.for %[[XI:.*]] = %c0 to %c54 step %c6 iter_args(%[[O2:.*]] = %[[O1]])
// The register tile reads 3 x 8 pixels for 6.
// CHECK:       %[[A:.*]] = tensor.extract_slice %[[X]][0, %[[CH]], %[[Y]], %[[XI]], 0] [1, 1, 3, 8, 8]
// CHECK:       %[[P:.*]] = linalg.generic {indexing_maps = [#[[WINDOW]], #{{.*}}, #{{.*}}], {{.*}}"reduction"{{.*}} ins(%[[A]], %[[V]] : tensor<1x1x3x8x8xf32>, tensor<1x3x3x8xf32>) outs(%{{.*}} : tensor<1x1x1x6x8xf32>)
// CHECK:       %[[Q:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[C]] : tensor<1x1x1x6x8xf32>, tensor<1x8xf32>) outs(%{{.*}} : tensor<1x1x1x6x8xf32>)
// CHECK:         arith.addf %{{.*}}, %{{.*}}
// CHECK:       %[[T:.*]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<1x1x1x6x8xf32>) outs(%{{.*}} : tensor<1x1x1x6x8xf32>)
// CHECK:         arith.maximumf %{{.*}}, %{{.*}}
// CHECK:       %[[S:.*]] = tensor.insert_slice %[[T]] into %[[O2]][0, %[[CH]], %[[Y]], %[[XI]], 0] [1, 1, 1, 6, 8]
// CHECK:       scf.yield %[[S]]
// ... so 3 pixels are left, at 54.
// CHECK:     %[[A2:.*]] = tensor.extract_slice %[[X]][0, %[[CH]], %[[Y]], 54, 0] [1, 1, 3, 5, 8]
// CHECK:     %[[P2:.*]] = linalg.generic {indexing_maps = [#[[WINDOW]], #{{.*}}, #{{.*}}], {{.*}}"reduction"{{.*}} ins(%[[A2]], %[[V]] : tensor<1x1x3x5x8xf32>, tensor<1x3x3x8xf32>) outs(%{{.*}} : tensor<1x1x1x3x8xf32>)
// CHECK:     %[[Q2:.*]] = linalg.generic {{.*}} ins(%[[P2]], %[[C]] : tensor<1x1x1x3x8xf32>, tensor<1x8xf32>) outs(%{{.*}} : tensor<1x1x1x3x8xf32>)
// CHECK:       arith.addf %{{.*}}, %{{.*}}
// CHECK:     %[[T2:.*]] = linalg.generic {{.*}} ins(%[[Q2]] : tensor<1x1x1x3x8xf32>) outs(%{{.*}} : tensor<1x1x1x3x8xf32>)
// CHECK:       arith.maximumf %{{.*}}, %{{.*}}
// CHECK:     %[[S2:.*]] = tensor.insert_slice %[[T2]] into %[[L2]][0, %[[CH]], %[[Y]], 54, 0] [1, 1, 1, 3, 8]
// CHECK:     scf.yield %[[S2]]
// CHECK:   scf.yield %[[L1]]
// CHECK: "rtask.yield"(%[[L0]])

#map = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2 + d4, d3 + d5, d6)>
#map1 = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d4, d5, d6)>
#map2 = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3, d6)>
#map3 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
#map4 = affine_map<(d0, d1, d2, d3, d4) -> (d1, d4)>
"rtask.kernel"() ({
^bb0(%arg0: tensor<1x8x59x59x8xf32>, %arg1: tensor<8x3x3x8xf32>, %arg2: tensor<8x8xf32>):
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<1x8x57x57x8xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<1x8x57x57x8xf32>) -> tensor<1x8x57x57x8xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "parallel"]} ins(%arg0, %arg1 : tensor<1x8x59x59x8xf32>, tensor<8x3x3x8xf32>) outs(%1 : tensor<1x8x57x57x8xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %5 = arith.mulf %in, %in_0 : f32
    %6 = arith.addf %out, %5 : f32
    linalg.yield %6 : f32
  } -> tensor<1x8x57x57x8xf32>
  %3 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%2, %arg2 : tensor<1x8x57x57x8xf32>, tensor<8x8xf32>) outs(%0 : tensor<1x8x57x57x8xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %5 = arith.addf %in, %in_0 : f32
    linalg.yield %5 : f32
  } -> tensor<1x8x57x57x8xf32>
  %4 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%3 : tensor<1x8x57x57x8xf32>) outs(%0 : tensor<1x8x57x57x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %5 = arith.maximumf %in, %cst : f32
    linalg.yield %5 : f32
  } -> tensor<1x8x57x57x8xf32>
  "rtask.yield"(%4) : (tensor<1x8x57x57x8xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1, 2, 3, 1, 1>, kind = "convolution", lanes = 8 : i64, on_chip_bytes = 298496 : i64, order = array<i64: 1, 2, 3, 0, 4>, reads = [[array<i64: -1, 0, 0, 0>, array<i64: 1, 4, 0, 4>, array<i64: 2, 19, 0, 21>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: 1, 4, 0, 4>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: 1, 4, 0, 4>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 1, 1, 6, 8>, registers = 8 : i64, source = "roller", sym_name = "depthwise", tasks = 6 : i64, tile = array<i64: 1, 4, 19, 57, 8>, vector_dim = 4 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: 1, 4, 0, 4>, array<i64: 2, 19, 0, 19>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()
