// RUN: rc-opt %s -p 'roller-tile-tasks,rtask.kernel(cse)' | filecheck %s --check-prefix=TASK
// RUN: rc-opt %s -p rc-tile-kernels | filecheck %s

// The product of matmul.mlir with a reduction_tile: the 512 steps in parts of 128.
// What a task makes (TASK) is the same; the sums of its whole tile wait in a tensor between parts (CHECK).

// TASK-DAG: #[[DIV:.*]] = affine_map<(d0) -> (d0 floordiv 3)>
// TASK-DAG: #[[MOD:.*]] = affine_map<(d0) -> (d0 mod 3)>
// TASK-DAG: #[[ROWS:.*]] = affine_map<(d0) -> (d0 * 24)>
// TASK-DAG: #[[COLUMNS:.*]] = affine_map<(d0) -> (d0 * 32)>
// TASK: ^bb0(%[[X:.*]]: tensor<192x512xf32>, %[[W:.*]]: tensor<512x96xf32>, %[[B:.*]]: tensor<96xf32>, %[[OUT:.*]]: tensor<192x96xf32>, %[[NUMBER:.*]]: index)
// TASK: %[[G0:.*]] = affine.apply #[[DIV]](%[[NUMBER]])
// TASK: %[[G1:.*]] = affine.apply #[[MOD]](%[[NUMBER]])
// TASK: %[[I:.*]] = affine.apply #[[ROWS]](%[[G0]])
// TASK: %[[A:.*]] = tensor.extract_slice %[[X]][%[[I]], 0] [24, 512]
// TASK: %[[J:.*]] = affine.apply #[[COLUMNS]](%[[G1]])
// TASK: %[[V:.*]] = tensor.extract_slice %[[W]][0, %[[J]]] [512, 32]
// TASK: %[[P:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A]], %[[V]] : tensor<24x512xf32>, tensor<512x32xf32>) outs(%{{.*}} : tensor<24x32xf32>)
// TASK: %[[C:.*]] = tensor.extract_slice %[[B]][%[[J]]] [32]
// TASK: %[[Q:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[C]] : tensor<24x32xf32>, tensor<32xf32>) outs(%{{.*}} : tensor<24x32xf32>)
// TASK:   arith.addf %{{.*}}, %{{.*}}
// TASK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<24x32xf32>) outs(%{{.*}} : tensor<24x32xf32>)
// TASK:   arith.maximumf %{{.*}}, %{{.*}}
// TASK: %[[R:.*]] = tensor.insert_slice %[[Y]] into %[[OUT]][%[[I]], %[[J]]] [24, 32]
// TASK: "rtask.yield"(%[[R]])

// CHECK-DAG: #[[DIV:.*]] = affine_map<(d0) -> (d0 floordiv 3)>
// CHECK-DAG: #[[MOD:.*]] = affine_map<(d0) -> (d0 mod 3)>
// CHECK-DAG: #[[COLUMNS:.*]] = affine_map<(d0) -> (d0 * 32)>
// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1) -> (d0 * 24 + d1)>
// CHECK: ^bb0(%[[X:.*]]: tensor<192x512xf32>, %[[W:.*]]: tensor<512x96xf32>, %[[B:.*]]: tensor<96xf32>, %[[OUT:.*]]: tensor<192x96xf32>, %[[NUMBER:.*]]: index)
// CHECK: %[[G0:.*]] = affine.apply #[[DIV]](%[[NUMBER]])
// CHECK: %[[G1:.*]] = affine.apply #[[MOD]](%[[NUMBER]])
// The first sums: zeros of all 24 x 32 results, register tile by register tile.
// CHECK: %[[START:.*]] = scf.for %[[D0:.*]] = %c0 to %c24 step %c3 iter_args(%[[O0:.*]] = %{{.*}})
// CHECK:   %[[S0:.*]] = tensor.insert_slice %{{.*}} into %[[O0]][%[[D0]], 0] [3, 32]
// CHECK:   scf.yield %[[S0]]
// CHECK: %[[J:.*]] = affine.apply #[[COLUMNS]](%[[G1]])
// The outer loop goes over the parts of the reduction, which read 128 rows of w ...
// CHECK: %[[SUMS:.*]] = scf.for %[[K:.*]] = %c0 to %c512 step %c128 iter_args(%[[O1:.*]] = %[[START]])
// CHECK:   %[[V:.*]] = tensor.extract_slice %[[W]][%[[K]], %[[J]]] [128, 32]
// ... and the inner one over the register tiles, which all read these rows.
// CHECK:   %[[PART:.*]] = scf.for %[[D1:.*]] = %c0 to %c24 step %c3 iter_args(%[[O2:.*]] = %[[O1]])
// A register tile goes on with its sums: they are what the product starts from.
// CHECK:     %[[OLD:.*]] = tensor.extract_slice %[[O2]][%[[D1]], 0] [3, 32]
// CHECK:     %[[I:.*]] = affine.apply #[[ROWS]](%[[G0]], %[[D1]])
// CHECK:     %[[A:.*]] = tensor.extract_slice %[[X]][%[[I]], %[[K]]] [3, 128]
// CHECK:     %[[NEW:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A]], %[[V]] : tensor<3x128xf32>, tensor<128x32xf32>) outs(%[[OLD]] : tensor<3x32xf32>)
// CHECK:     %[[S1:.*]] = tensor.insert_slice %[[NEW]] into %[[O2]][%[[D1]], 0] [3, 32]
// CHECK:     scf.yield %[[S1]]
// CHECK:   scf.yield %[[PART]]
// Behind all parts: the epilogue of each register tile, and its place in the result.
// CHECK: %[[C:.*]] = tensor.extract_slice %[[B]][%[[J]]] [32]
// CHECK: %[[R:.*]] = scf.for %[[D2:.*]] = %c0 to %c24 step %c3 iter_args(%[[O3:.*]] = %[[OUT]])
// CHECK:   %[[P:.*]] = tensor.extract_slice %[[SUMS]][%[[D2]], 0] [3, 32]
// CHECK:   %[[Q:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[C]] : tensor<3x32xf32>, tensor<32xf32>) outs(%{{.*}} : tensor<3x32xf32>)
// CHECK:     arith.addf %{{.*}}, %{{.*}}
// CHECK:   %[[Y:.*]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<3x32xf32>) outs(%{{.*}} : tensor<3x32xf32>)
// CHECK:     arith.maximumf %{{.*}}, %{{.*}}
// CHECK:   %[[I2:.*]] = affine.apply #[[ROWS]](%[[G0]], %[[D2]])
// CHECK:   %[[S2:.*]] = tensor.insert_slice %[[Y]] into %[[O3]][%[[I2]], %[[J]]] [3, 32]
// CHECK:   scf.yield %[[S2]]
// CHECK: "rtask.yield"(%[[R]])

#map = affine_map<(d0, d1, d2) -> (d0, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d2, d1)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map3 = affine_map<(d0, d1) -> (d0, d1)>
#map4 = affine_map<(d0, d1) -> (d1)>
"rtask.kernel"() ({
^bb0(%arg0: tensor<192x512xf32>, %arg1: tensor<512x96xf32>, %arg2: tensor<96xf32>):
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<192x96xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<192x96xf32>) -> tensor<192x96xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1, #map2], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0, %arg1 : tensor<192x512xf32>, tensor<512x96xf32>) outs(%1 : tensor<192x96xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %5 = arith.mulf %in, %in_0 : f32
    %6 = arith.addf %out, %5 : f32
    linalg.yield %6 : f32
  } -> tensor<192x96xf32>
  %3 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]} ins(%2, %arg2 : tensor<192x96xf32>, tensor<96xf32>) outs(%0 : tensor<192x96xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %5 = arith.addf %in, %in_0 : f32
    linalg.yield %5 : f32
  } -> tensor<192x96xf32>
  %4 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<192x96xf32>) outs(%0 : tensor<192x96xf32>) {
  ^bb0(%in: f32, %out: f32):
    %5 = arith.maximumf %in, %cst : f32
    linalg.yield %5 : f32
  } -> tensor<192x96xf32>
  "rtask.yield"(%4) : (tensor<192x96xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 8, 3>, kind = "contraction", lanes = 8 : i64, on_chip_bytes = 117888 : i64, order = array<i64: 1, 0>, reads = [[array<i64: 0, 24, 0, 24>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: 1, 32, 0, 32>], [array<i64: 1, 32, 0, 32>]], register_tile = array<i64: 3, 32>, registers = 16 : i64, source = "roller", sym_name = "matmul_parts", tasks = 24 : i64, tile = array<i64: 24, 32>, reduction_tile = array<i64: 0, 128>, vector_dim = 1 : i64, writes = [[array<i64: 0, 24, 0, 24>, array<i64: 1, 32, 0, 32>]]} : () -> ()
