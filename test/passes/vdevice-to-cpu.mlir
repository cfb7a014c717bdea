// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v3-2.json},vdevice-to-cpu' --split-input-file | filecheck %s

#id = affine_map<(d0) -> (d0)>

// 20 elements, tasks of 12: the second one has 8. Tasks first, first + stride, ... in a loop; two vectors of eight lanes
// at most, then four; the last task's tile is another side of a branch.
// CHECK-LABEL: llvm.func @k_abs(%arg0: !llvm.ptr, %arg1: i64, %arg2: i64, %arg3: i64, %arg4: !llvm.ptr)
// CHECK-NOT:   rtask.
// CHECK:       %[[IN:.*]] = llvm.load %{{.*}} : !llvm.ptr -> !llvm.ptr
// CHECK:       %[[SLOT:.*]] = llvm.getelementptr %arg0[1]
// CHECK:       llvm.load %[[SLOT]] : !llvm.ptr -> !llvm.ptr
// CHECK:       llvm.mul %{{.*}}, %arg3
// CHECK:       llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr -> vector<8xf32>
// CHECK:       llvm.intr.fabs(%{{.*}}) {{.*}}vector<8xf32>
// CHECK:       llvm.store %{{.*}}, %{{.*}} {alignment = 4 : i64} : vector<8xf32>, !llvm.ptr
// CHECK:       llvm.store %{{.*}} : vector<4xf32>, !llvm.ptr
// CHECK:       llvm.return
"rtask.kernel"() ({
^bb0(%x: tensor<20xf32>):
  %e = tensor.empty() : tensor<20xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<20xf32>) outs(%e : tensor<20xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = math.absf %l : f32
    linalg.yield %s : f32
  } -> tensor<20xf32>
  "rtask.yield"(%y) : (tensor<20xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 2>, kind = "elementwise", lanes = 8 : i64, on_chip_bytes = 96 : i64,
    order = array<i64: 0>, reads = [[array<i64: 0, 12, 0, 12>]], register_tile = array<i64: 8>, registers = 1 : i64,
    source = "test", sym_name = "k_abs", tasks = 2 : i64, tile = array<i64: 12>, vector_dim = 0 : i64,
    writes = [[array<i64: 0, 12, 0, 12>]]} : () -> ()

// -----

// Every other element of the operand: two vectors, of which the second one ends with the last element that is wanted,
// and the even lanes of the first and the odd ones of the second; four lanes for the rest.
// CHECK-LABEL: llvm.func @k_halves
// CHECK:       %[[IN:.*]] = llvm.load %arg0 : !llvm.ptr -> !llvm.ptr
// CHECK:       %[[A:.*]] = llvm.load %[[IN]] {alignment = 4 : i64} : !llvm.ptr -> vector<8xf32>
// CHECK:       %[[P:.*]] = llvm.getelementptr %[[IN]][7]
// CHECK:       %[[B:.*]] = llvm.load %[[P]] {alignment = 4 : i64} : !llvm.ptr -> vector<8xf32>
// CHECK:       llvm.shufflevector %[[A]], %[[B]] [0, 2, 4, 6, 9, 11, 13, 15]
// CHECK:       llvm.shufflevector {{.*}} [0, 2, 5, 7] : vector<4xf32>
// CHECK-NOT:   -> f32
// CHECK:       llvm.return
"rtask.kernel"() ({
^bb0(%x: tensor<23xf32>):
  %e = tensor.empty() : tensor<12xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i * 2)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<23xf32>) outs(%e : tensor<12xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = math.absf %l : f32
    linalg.yield %s : f32
  } -> tensor<12xf32>
  "rtask.yield"(%y) : (tensor<12xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1>, kind = "elementwise", lanes = 8 : i64, on_chip_bytes = 96 : i64,
    order = array<i64: 0>, reads = [[array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 12>, registers = 1 : i64,
    source = "test", sym_name = "k_halves", tasks = 1 : i64, tile = array<i64: 12>, vector_dim = 0 : i64,
    writes = [[array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// A register tile of 2 x 8: one vector of w for two broadcasts of x, fused multiply-add into two accumulators.
// CHECK-LABEL: llvm.func @k_product
// CHECK:       %[[ROW:.*]] = llvm.load {{.*}} -> vector<8xf32>
// CHECK:       %[[A:.*]] = llvm.intr.fmuladd(%{{.*}}, %[[ROW]], %{{.*}}) {{.*}}vector<8xf32>
// CHECK:       llvm.intr.fmuladd(%{{.*}}, %[[ROW]], %{{.*}}) {{.*}}vector<8xf32>
// CHECK:       llvm.store {{.*}} : vector<8xf32>, !llvm.ptr
// CHECK:       llvm.store {{.*}} : vector<8xf32>, !llvm.ptr
// CHECK:       llvm.return
"rtask.kernel"() ({
^bb0(%x: tensor<2x300xf32>, %w: tensor<300x8xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8xf32>) -> tensor<2x8xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<2x300xf32>, tensor<300x8xf32>) outs(%f : tensor<2x8xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x8xf32>
  "rtask.yield"(%a) : (tensor<2x8xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1, 1>, kind = "contraction", lanes = 8 : i64, on_chip_bytes = 96 : i64,
    order = array<i64: 0, 1>, reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]],
    register_tile = array<i64: 2, 8>, registers = 4 : i64, source = "test", sym_name = "k_product", tasks = 1 : i64,
    tile = array<i64: 2, 8>, vector_dim = 1 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// i1 is a byte of 0 or 1; a function that has no polynomial is a call of the C library.
// CHECK:       llvm.func @cosf(f32) -> f32
// CHECK-LABEL: llvm.func @k_test
// CHECK:       llvm.call @cosf
// CHECK:       llvm.zext %{{.*}} : i1 to i8
// CHECK:       llvm.store %{{.*}} : i8, !llvm.ptr
"rtask.kernel"() ({
^bb0(%x: tensor<f32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<i1>
  %y = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%x : tensor<f32>) outs(%e : tensor<i1>) {
  ^bb0(%l: f32, %o: i1):
    %c = math.cos %l : f32
    %s = arith.cmpf ogt, %c, %zero : f32
    linalg.yield %s : i1
  } -> tensor<i1>
  "rtask.yield"(%y) : (tensor<i1>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64>, kind = "elementwise", lanes = 1 : i64, on_chip_bytes = 5 : i64,
    order = array<i64>, reads = [[]], register_tile = array<i64>, registers = 1 : i64, source = "test", sym_name = "k_test",
    tasks = 1 : i64, tile = array<i64>, vector_dim = -1 : i64, writes = [[]]} : () -> ()
