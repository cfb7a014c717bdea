// RUN: rc-opt %s -p 'roller-tile-tasks,rtask.kernel(cse)' | filecheck %s --check-prefix=TASK
// RUN: rc-opt %s -p rc-tile-kernels | filecheck %s

// A layer normalisation of rows of 768 elements, with scale and bias. A task: 45 of 540 rows. A register
// tile: 5 rows at a time for the mean and the deviation, and 32 elements of each for the result.

// TASK-DAG: #[[ROWS:.*]] = affine_map<(d0) -> (d0 * 45)>
// TASK: ^bb0(%[[X:.*]]: tensor<540x768xf32>, %[[SCALE:.*]]: tensor<768xf32>, %[[BIAS:.*]]: tensor<768xf32>, %[[OUT:.*]]: tensor<540x768xf32>, %[[NUMBER:.*]]: index)
// TASK: %[[I:.*]] = affine.apply #[[ROWS]](%[[NUMBER]])
// TASK: %[[A:.*]] = tensor.extract_slice %[[X]][%[[I]], 0] [45, 768]
// The mean of each row, and the mean of the squares around it.
// TASK: %[[SUM:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A]] : tensor<45x768xf32>) outs(%{{.*}} : tensor<45xf32>)
// TASK: %[[MEAN:.*]] = linalg.generic {{.*}} ins(%[[SUM]] : tensor<45xf32>) outs(%{{.*}} : tensor<45xf32>)
// TASK: %[[SQUARES:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[MEAN]] : tensor<45x768xf32>, tensor<45xf32>) outs(%{{.*}} : tensor<45x768xf32>)
// TASK:   arith.subf %{{.*}}, %{{.*}}
// TASK: %[[SQUARE:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[SQUARES]] : tensor<45x768xf32>) outs(%{{.*}} : tensor<45xf32>)
// TASK: %[[VAR:.*]] = linalg.generic {{.*}} ins(%[[SQUARE]] : tensor<45xf32>) outs(%{{.*}} : tensor<45xf32>)
// TASK: %[[INV:.*]] = linalg.generic {{.*}} ins(%[[VAR]] : tensor<45xf32>) outs(%{{.*}} : tensor<45xf32>)
// TASK:   math.sqrt %{{.*}}
// The epilogue: all of the row.
// TASK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[MEAN]], %[[INV]] : tensor<45x768xf32>, tensor<45xf32>, tensor<45xf32>) outs(%{{.*}} : tensor<45x768xf32>)
// TASK:   arith.subf %{{.*}}, %{{.*}}
// TASK: %[[E:.*]] = linalg.generic {{.*}} ins(%[[D]], %[[SCALE]] : tensor<45x768xf32>, tensor<768xf32>) outs(%{{.*}} : tensor<45x768xf32>)
// TASK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[E]], %[[BIAS]] : tensor<45x768xf32>, tensor<768xf32>) outs(%{{.*}} : tensor<45x768xf32>)
// TASK: %[[R:.*]] = tensor.insert_slice %[[Y]] into %[[OUT]][%[[I]], 0] [45, 768]
// TASK: "rtask.yield"(%[[R]])

// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1) -> (d0 * 45 + d1)>
// CHECK: ^bb0(%[[X:.*]]: tensor<540x768xf32>, %[[SCALE:.*]]: tensor<768xf32>, %[[BIAS:.*]]: tensor<768xf32>, %[[OUT:.*]]: tensor<540x768xf32>, %[[NUMBER:.*]]: index)
// CHECK: %[[R:.*]] = scf.for %[[D:.*]] = %c0 to %c45 step %c5 iter_args(%[[O:.*]] = %[[OUT]])
// CHECK:   %[[I:.*]] = affine.apply #[[ROWS]](%[[NUMBER]], %[[D]])
// CHECK:   %[[A:.*]] = tensor.extract_slice %[[X]][%[[I]], 0] [5, 768]
// The reductions of 5 rows stand in front of the loop over columns ...
// CHECK:   %[[SUM:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A]] : tensor<5x768xf32>) outs(%{{.*}} : tensor<5xf32>)
// CHECK:   %[[MEAN:.*]] = linalg.generic {{.*}} ins(%[[SUM]] : tensor<5xf32>) outs(%{{.*}} : tensor<5xf32>)
// CHECK:   %[[SQUARES:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[MEAN]] : tensor<5x768xf32>, tensor<5xf32>) outs(%{{.*}} : tensor<5x768xf32>)
// CHECK:     arith.subf %{{.*}}, %{{.*}}
// CHECK:   %[[SQUARE:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[SQUARES]] : tensor<5x768xf32>) outs(%{{.*}} : tensor<5xf32>)
// CHECK:   %[[VAR:.*]] = linalg.generic {{.*}} ins(%[[SQUARE]] : tensor<5xf32>) outs(%{{.*}} : tensor<5xf32>)
// CHECK:   %[[INV:.*]] = linalg.generic {{.*}} ins(%[[VAR]] : tensor<5xf32>) outs(%{{.*}} : tensor<5xf32>)
// CHECK:     math.sqrt %{{.*}}
// ... that writes the rows: it reads x again, and of scale and bias what it needs.
// CHECK:   %[[L:.*]] = scf.for %[[J:.*]] = %c0 to %c768 step %c32 iter_args(%[[P:.*]] = %[[O]])
// CHECK:     %[[A2:.*]] = tensor.extract_slice %[[X]][%[[I]], %[[J]]] [5, 32]
// CHECK:     %[[N:.*]] = linalg.generic {{.*}} ins(%[[A2]], %[[MEAN]], %[[INV]] : tensor<5x32xf32>, tensor<5xf32>, tensor<5xf32>) outs(%{{.*}} : tensor<5x32xf32>)
// CHECK:       arith.subf %{{.*}}, %{{.*}}
// CHECK:     %[[SC:.*]] = tensor.extract_slice %[[SCALE]][%[[J]]] [32]
// CHECK:     %[[M:.*]] = linalg.generic {{.*}} ins(%[[N]], %[[SC]] : tensor<5x32xf32>, tensor<32xf32>) outs(%{{.*}} : tensor<5x32xf32>)
// CHECK:     %[[BI:.*]] = tensor.extract_slice %[[BIAS]][%[[J]]] [32]
// CHECK:     %[[Y:.*]] = linalg.generic {{.*}} ins(%[[M]], %[[BI]] : tensor<5x32xf32>, tensor<32xf32>) outs(%{{.*}} : tensor<5x32xf32>)
// CHECK:     %[[S:.*]] = tensor.insert_slice %[[Y]] into %[[P]][%[[I]], %[[J]]] [5, 32]
// CHECK:     scf.yield %[[S]]
// CHECK:   scf.yield %[[L]]
// CHECK: "rtask.yield"(%[[R]])

#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d1)>
"rtask.kernel"() ({
^bb0(%arg0: tensor<540x768xf32>, %arg1: tensor<768xf32>, %arg2: tensor<768xf32>):
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<540xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<540xf32>) -> tensor<540xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<540x768xf32>) outs(%1 : tensor<540xf32>) {
  ^bb0(%in: f32, %out: f32):
    %12 = arith.addf %out, %in : f32
    linalg.yield %12 : f32
  } -> tensor<540xf32>
  %3 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%2 : tensor<540xf32>) outs(%0 : tensor<540xf32>) {
  ^bb0(%in: f32, %out: f32):
    %cst_0 = arith.constant 7.680000e+02 : f32
    %12 = arith.divf %in, %cst_0 : f32
    linalg.yield %12 : f32
  } -> tensor<540xf32>
  %4 = tensor.empty() : tensor<540x768xf32>
  %5 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %3 : tensor<540x768xf32>, tensor<540xf32>) outs(%4 : tensor<540x768xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %12 = arith.subf %in, %in_0 : f32
    %13 = arith.mulf %12, %12 : f32
    linalg.yield %13 : f32
  } -> tensor<540x768xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%5 : tensor<540x768xf32>) outs(%1 : tensor<540xf32>) {
  ^bb0(%in: f32, %out: f32):
    %12 = arith.addf %out, %in : f32
    linalg.yield %12 : f32
  } -> tensor<540xf32>
  %7 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%6 : tensor<540xf32>) outs(%0 : tensor<540xf32>) {
  ^bb0(%in: f32, %out: f32):
    %cst_0 = arith.constant 7.680000e+02 : f32
    %12 = arith.divf %in, %cst_0 : f32
    linalg.yield %12 : f32
  } -> tensor<540xf32>
  %8 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%7 : tensor<540xf32>) outs(%0 : tensor<540xf32>) {
  ^bb0(%in: f32, %out: f32):
    %cst_0 = arith.constant 9.99999974E-6 : f32
    %cst_1 = arith.constant 1.000000e+00 : f32
    %12 = arith.addf %in, %cst_0 : f32
    %13 = math.sqrt %12 : f32
    %14 = arith.divf %cst_1, %13 : f32
    linalg.yield %14 : f32
  } -> tensor<540xf32>
  %9 = linalg.generic {indexing_maps = [#map, #map1, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %3, %8 : tensor<540x768xf32>, tensor<540xf32>, tensor<540xf32>) outs(%4 : tensor<540x768xf32>) {
  ^bb0(%in: f32, %in_0: f32, %in_1: f32, %out: f32):
    %12 = arith.subf %in, %in_0 : f32
    %13 = arith.mulf %12, %in_1 : f32
    linalg.yield %13 : f32
  } -> tensor<540x768xf32>
  %10 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%9, %arg1 : tensor<540x768xf32>, tensor<768xf32>) outs(%4 : tensor<540x768xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %12 = arith.mulf %in, %in_0 : f32
    linalg.yield %12 : f32
  } -> tensor<540x768xf32>
  %11 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%10, %arg2 : tensor<540x768xf32>, tensor<768xf32>) outs(%4 : tensor<540x768xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %12 = arith.addf %in, %in_0 : f32
    linalg.yield %12 : f32
  } -> tensor<540x768xf32>
  "rtask.yield"(%11) : (tensor<540x768xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 12, 1>, kind = "reduction", lanes = 8 : i64, on_chip_bytes = 282624 : i64, order = array<i64: 0, 1>, reads = [[array<i64: 0, 45, 0, 45>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 5, 32>, registers = 13 : i64, source = "roller", sym_name = "layer_norm", tasks = 12 : i64, tile = array<i64: 45, 768>, vector_dim = 1 : i64, writes = [[array<i64: 0, 45, 0, 45>, array<i64: -1, 0, 0, 0>]]} : () -> ()
