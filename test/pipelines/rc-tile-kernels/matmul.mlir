// RUN: rc-opt %s -p 'roller-tile-tasks,rtask.kernel(cse)' | filecheck %s --check-prefix=TASK
// RUN: rc-opt %s -p rc-tile-kernels | filecheck %s

// relu(x * w + bias) of 192 x 96 results, in 8 x 3 tasks of 24 x 32.
// The lines of TASK show what one task makes, those of CHECK how: in register tiles of 3 x 32.

// TASK-DAG: #[[DIV:.*]] = affine_map<(d0) -> (d0 floordiv 3)>
// TASK-DAG: #[[MOD:.*]] = affine_map<(d0) -> (d0 mod 3)>
// TASK-DAG: #[[ROWS:.*]] = affine_map<(d0) -> (d0 * 24)>
// TASK-DAG: #[[COLUMNS:.*]] = affine_map<(d0) -> (d0 * 32)>
// TASK: ^bb0(%[[X:.*]]: tensor<192x512xf32>, %[[W:.*]]: tensor<512x96xf32>, %[[B:.*]]: tensor<96xf32>, %[[OUT:.*]]: tensor<192x96xf32>, %[[NUMBER:.*]]: index)
// Where the task lies in the grid.
// TASK: %[[G0:.*]] = affine.apply #[[DIV]](%[[NUMBER]])
// TASK: %[[G1:.*]] = affine.apply #[[MOD]](%[[NUMBER]])
// Its slices: 24 rows of x, and 32 columns of w.
// TASK: %[[I:.*]] = affine.apply #[[ROWS]](%[[G0]])
// TASK: %[[A:.*]] = tensor.extract_slice %[[X]][%[[I]], 0] [24, 512]
// TASK: %[[J:.*]] = affine.apply #[[COLUMNS]](%[[G1]])
// TASK: %[[V:.*]] = tensor.extract_slice %[[W]][0, %[[J]]] [512, 32]
// The product of these, and behind it the epilogue on the tile: the bias of its columns, relu.
// TASK: %[[P:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A]], %[[V]] : tensor<24x512xf32>, tensor<512x32xf32>) outs(%{{.*}} : tensor<24x32xf32>)
// TASK: %[[C:.*]] = tensor.extract_slice %[[B]][%[[J]]] [32]
// TASK: %[[Q:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[C]] : tensor<24x32xf32>, tensor<32xf32>) outs(%{{.*}} : tensor<24x32xf32>)
// TASK:   arith.addf %{{.*}}, %{{.*}}
// TASK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<24x32xf32>) outs(%{{.*}} : tensor<24x32xf32>)
// TASK:   arith.maximumf %{{.*}}, %{{.*}}
// The tile goes where the task lies.
// TASK: %[[R:.*]] = tensor.insert_slice %[[Y]] into %[[OUT]][%[[I]], %[[J]]] [24, 32]
// TASK: "rtask.yield"(%[[R]])

// CHECK-DAG: #[[DIV:.*]] = affine_map<(d0) -> (d0 floordiv 3)>
// CHECK-DAG: #[[MOD:.*]] = affine_map<(d0) -> (d0 mod 3)>
// CHECK-DAG: #[[COLUMNS:.*]] = affine_map<(d0) -> (d0 * 32)>
// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1) -> (d0 * 24 + d1)>
// CHECK: ^bb0(%[[X:.*]]: tensor<192x512xf32>, %[[W:.*]]: tensor<512x96xf32>, %[[B:.*]]: tensor<96xf32>, %[[OUT:.*]]: tensor<192x96xf32>, %[[NUMBER:.*]]: index)
// The columns of w and of the bias are the same for all register tiles: they stand in front.
// CHECK: %[[G0:.*]] = affine.apply #[[DIV]](%[[NUMBER]])
// CHECK: %[[G1:.*]] = affine.apply #[[MOD]](%[[NUMBER]])
// CHECK: %[[J:.*]] = affine.apply #[[COLUMNS]](%[[G1]])
// CHECK: %[[V:.*]] = tensor.extract_slice %[[W]][0, %[[J]]] [512, 32]
// CHECK: %[[C:.*]] = tensor.extract_slice %[[B]][%[[J]]] [32]
// The loop over the rows of the task, 3 at a time, from one state of the result to the next.
// CHECK: %[[R:.*]] = scf.for %[[D:.*]] = %c0 to %c24 step %c3 iter_args(%[[O:.*]] = %[[OUT]])
// CHECK:   %[[I:.*]] = affine.apply #[[ROWS]](%[[G0]], %[[D]])
// CHECK:   %[[A:.*]] = tensor.extract_slice %[[X]][%[[I]], 0] [3, 512]
// The register tile: all 512 steps of the reduction, then its epilogue.
// CHECK:   %[[P:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A]], %[[V]] : tensor<3x512xf32>, tensor<512x32xf32>) outs(%{{.*}} : tensor<3x32xf32>)
// CHECK:   %[[Q:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[C]] : tensor<3x32xf32>, tensor<32xf32>) outs(%{{.*}} : tensor<3x32xf32>)
// CHECK:     arith.addf %{{.*}}, %{{.*}}
// CHECK:   %[[Y:.*]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<3x32xf32>) outs(%{{.*}} : tensor<3x32xf32>)
// CHECK:     arith.maximumf %{{.*}}, %{{.*}}
// Only then is it put into the result.
// CHECK:   %[[S:.*]] = tensor.insert_slice %[[Y]] into %[[O]][%[[I]], %[[J]]] [3, 32]
// CHECK:   scf.yield %[[S]]
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
}) {estimated_ns = 1.0, grid = array<i64: 8, 3>, kind = "contraction", lanes = 8 : i64, on_chip_bytes = 117888 : i64, order = array<i64: 1, 0>, reads = [[array<i64: 0, 24, 0, 24>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: 1, 32, 0, 32>], [array<i64: 1, 32, 0, 32>]], register_tile = array<i64: 3, 32>, registers = 16 : i64, source = "roller", sym_name = "matmul", tasks = 24 : i64, tile = array<i64: 24, 32>, vector_dim = 1 : i64, writes = [[array<i64: 0, 24, 0, 24>, array<i64: 1, 32, 0, 32>]]} : () -> ()
