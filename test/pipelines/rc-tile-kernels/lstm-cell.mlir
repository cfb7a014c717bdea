// RUN: rc-opt %s -p 'roller-tile-tasks,rtask.kernel(cse)' | filecheck %s --check-prefix=TASK
// RUN: rc-opt %s -p rc-tile-kernels | filecheck %s

// The cell of an LSTM behind its two products: 4 gates of each lie beside each other in dim 1. A task: 11 of 66 rows.
// A register tile: 32 elements of one row. Look at the slices: one of each gate, so nothing of them is moved.

// TASK-DAG: #[[ROWS:.*]] = affine_map<(d0) -> (d0 * 11)>
// TASK: ^bb0(%[[X:.*]]: tensor<66x4x256xf32>, %[[H:.*]]: tensor<66x4x256xf32>, %[[CELL:.*]]: tensor<66x256xf32>, %[[OUT:.*]]: tensor<66x256xf32>, %[[NUMBER:.*]]: index)
// TASK: %[[I:.*]] = affine.apply #[[ROWS]](%[[NUMBER]])
// TASK: %[[X0:.*]] = tensor.extract_slice %[[X]][%[[I]], 0, 0] [11, 1, 256]
// TASK: %[[X1:.*]] = tensor.extract_slice %[[X]][%[[I]], 1, 0] [11, 1, 256]
// TASK: %[[X2:.*]] = tensor.extract_slice %[[X]][%[[I]], 2, 0] [11, 1, 256]
// TASK: %[[X3:.*]] = tensor.extract_slice %[[X]][%[[I]], 3, 0] [11, 1, 256]
// TASK: %[[H0:.*]] = tensor.extract_slice %[[H]][%[[I]], 0, 0] [11, 1, 256]
// TASK: %[[H1:.*]] = tensor.extract_slice %[[H]][%[[I]], 1, 0] [11, 1, 256]
// TASK: %[[H2:.*]] = tensor.extract_slice %[[H]][%[[I]], 2, 0] [11, 1, 256]
// TASK: %[[H3:.*]] = tensor.extract_slice %[[H]][%[[I]], 3, 0] [11, 1, 256]
// TASK: %[[C:.*]] = tensor.extract_slice %[[CELL]][%[[I]], 0] [11, 256]
// TASK: %[[Y:.*]]:2 = linalg.generic {{.*}} ins(%[[X0]], %[[X1]], %[[X2]], %[[X3]], %[[H0]], %[[H1]], %[[H2]], %[[H3]], %[[C]] : tensor<11x1x256xf32>, tensor<11x1x256xf32>, tensor<11x1x256xf32>, tensor<11x1x256xf32>, tensor<11x1x256xf32>, tensor<11x1x256xf32>, tensor<11x1x256xf32>, tensor<11x1x256xf32>, tensor<11x256xf32>) outs(%{{.*}}, %{{.*}} : tensor<11x256xf32>, tensor<11x256xf32>)
// TASK:   math.exp %{{.*}}
// TASK:   math.tanh %{{.*}}
// TASK:   math.exp %{{.*}}
// TASK:   math.exp %{{.*}}
// TASK:   math.tanh %{{.*}}
// TASK: %[[R:.*]] = tensor.insert_slice %[[Y]]#0 into %[[OUT]][%[[I]], 0] [11, 256]
// TASK: "rtask.yield"(%[[R]])

// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1) -> (d0 * 11 + d1)>
// CHECK: ^bb0(%[[X:.*]]: tensor<66x4x256xf32>, %[[H:.*]]: tensor<66x4x256xf32>, %[[CELL:.*]]: tensor<66x256xf32>, %[[OUT:.*]]: tensor<66x256xf32>, %[[NUMBER:.*]]: index)
// The loops over rows and columns.
// CHECK: %[[R:.*]] = scf.for %[[D:.*]] = %c0 to %c11 step %c1 iter_args(%[[O:.*]] = %[[OUT]])
// CHECK:   %[[I:.*]] = affine.apply #[[ROWS]](%[[NUMBER]], %[[D]])
// CHECK:   %[[L:.*]] = scf.for %[[J:.*]] = %c0 to %c256 step %c32 iter_args(%[[P:.*]] = %[[O]])
// CHECK:     %[[X0:.*]] = tensor.extract_slice %[[X]][%[[I]], 0, %[[J]]] [1, 1, 32]
// CHECK:     %[[X1:.*]] = tensor.extract_slice %[[X]][%[[I]], 1, %[[J]]] [1, 1, 32]
// CHECK:     %[[X2:.*]] = tensor.extract_slice %[[X]][%[[I]], 2, %[[J]]] [1, 1, 32]
// CHECK:     %[[X3:.*]] = tensor.extract_slice %[[X]][%[[I]], 3, %[[J]]] [1, 1, 32]
// CHECK:     %[[H0:.*]] = tensor.extract_slice %[[H]][%[[I]], 0, %[[J]]] [1, 1, 32]
// CHECK:     %[[H1:.*]] = tensor.extract_slice %[[H]][%[[I]], 1, %[[J]]] [1, 1, 32]
// CHECK:     %[[H2:.*]] = tensor.extract_slice %[[H]][%[[I]], 2, %[[J]]] [1, 1, 32]
// CHECK:     %[[H3:.*]] = tensor.extract_slice %[[H]][%[[I]], 3, %[[J]]] [1, 1, 32]
// CHECK:     %[[C:.*]] = tensor.extract_slice %[[CELL]][%[[I]], %[[J]]] [1, 32]
// The new cell stays in registers; the result is the new state.
// CHECK:     %[[Y:.*]]:2 = linalg.generic {{.*}} ins(%[[X0]], %[[X1]], %[[X2]], %[[X3]], %[[H0]], %[[H1]], %[[H2]], %[[H3]], %[[C]] : tensor<1x1x32xf32>, tensor<1x1x32xf32>, tensor<1x1x32xf32>, tensor<1x1x32xf32>, tensor<1x1x32xf32>, tensor<1x1x32xf32>, tensor<1x1x32xf32>, tensor<1x1x32xf32>, tensor<1x32xf32>) outs(%{{.*}}, %{{.*}} : tensor<1x32xf32>, tensor<1x32xf32>)
// CHECK:       math.exp %{{.*}}
// CHECK:       math.tanh %{{.*}}
// CHECK:       math.exp %{{.*}}
// CHECK:       math.exp %{{.*}}
// CHECK:       math.tanh %{{.*}}
// CHECK:     %[[S:.*]] = tensor.insert_slice %[[Y]]#0 into %[[P]][%[[I]], %[[J]]] [1, 32]
// CHECK:     scf.yield %[[S]]
// CHECK:   scf.yield %[[L]]
// CHECK: "rtask.yield"(%[[R]])

#map = affine_map<(d0, d1) -> (d0, 0, d1)>
#map1 = affine_map<(d0, d1) -> (d0, 1, d1)>
#map2 = affine_map<(d0, d1) -> (d0, 2, d1)>
#map3 = affine_map<(d0, d1) -> (d0, 3, d1)>
#map4 = affine_map<(d0, d1) -> (d0, d1)>
"rtask.kernel"() ({
^bb0(%arg0: tensor<66x4x256xf32>, %arg1: tensor<66x4x256xf32>, %arg2: tensor<66x256xf32>):
  %0 = tensor.empty() : tensor<66x256xf32>
  %1:2 = linalg.generic {indexing_maps = [#map, #map1, #map2, #map3, #map, #map1, #map2, #map3, #map4, #map4, #map4], iterator_types = ["parallel", "parallel"]} ins(%arg0, %arg0, %arg0, %arg0, %arg1, %arg1, %arg1, %arg1, %arg2 : tensor<66x4x256xf32>, tensor<66x4x256xf32>, tensor<66x4x256xf32>, tensor<66x4x256xf32>, tensor<66x4x256xf32>, tensor<66x4x256xf32>, tensor<66x4x256xf32>, tensor<66x4x256xf32>, tensor<66x256xf32>) outs(%0, %0 : tensor<66x256xf32>, tensor<66x256xf32>) {
  ^bb0(%in: f32, %in_0: f32, %in_1: f32, %in_2: f32, %in_3: f32, %in_4: f32, %in_5: f32, %in_6: f32, %in_7: f32, %out: f32, %out_8: f32):
    %cst = arith.constant 1.000000e+00 : f32
    %2 = arith.addf %in, %in_3 : f32
    %3 = arith.addf %in_0, %in_4 : f32
    %4 = arith.addf %in_1, %in_5 : f32
    %5 = arith.addf %in_2, %in_6 : f32
    %6 = arith.negf %2 : f32
    %7 = math.exp %6 : f32
    %8 = arith.addf %7, %cst : f32
    %9 = arith.divf %cst, %8 : f32
    %10 = math.tanh %5 : f32
    %11 = arith.mulf %9, %10 : f32
    %12 = arith.negf %4 : f32
    %13 = math.exp %12 : f32
    %14 = arith.addf %13, %cst : f32
    %15 = arith.divf %cst, %14 : f32
    %16 = arith.mulf %15, %in_7 : f32
    %17 = arith.addf %16, %11 : f32
    %18 = arith.negf %3 : f32
    %19 = math.exp %18 : f32
    %20 = arith.addf %19, %cst : f32
    %21 = arith.divf %cst, %20 : f32
    %22 = math.tanh %17 : f32
    %23 = arith.mulf %21, %22 : f32
    linalg.yield %23, %17 : f32, f32
  } -> (tensor<66x256xf32>, tensor<66x256xf32>)
  "rtask.yield"(%1#0) : (tensor<66x256xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 6, 1>, in_place = array<i64: 2, 0>, kind = "elementwise", lanes = 8 : i64, on_chip_bytes = 45056 : i64, order = array<i64: 0, 1>, reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: 0, 11, 0, 11>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 32>, registers = 13 : i64, source = "roller", sym_name = "lstm_cell", tasks = 6 : i64, tile = array<i64: 11, 256>, vector_dim = 1 : i64, writes = [[array<i64: 0, 11, 0, 11>, array<i64: -1, 0, 0, 0>]]} : () -> ()
