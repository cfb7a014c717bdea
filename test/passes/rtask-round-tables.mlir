// RUN: rc-opt %s -p 'rtask-round-tables{to=bf16},cse' --split-input-file | filecheck %s
// RUN: rc-opt %s -p 'rtask-round-tables{to=f16},cse' --split-input-file | filecheck %s --check-prefix=F16
// RUN: rc-opt %s -p 'rtask-round-factors{to=bf16 weights},cse,rtask-round-tables,cse' --split-input-file | filecheck %s --check-prefix=TIED

// Rows of a table are read in 16 bits by each of its gathers, and widened there.
// CHECK-LABEL: func.func @rows(
// CHECK:         %[[T:.*]] = arith.constant {{.*}} : tensor<64x96xf32>
// CHECK:         %[[R:.*]] = linalg.generic {{.*}} ins(%[[T]] : tensor<64x96xf32>) outs(%{{.*}} : tensor<64x96xbf16>)
// CHECK:           arith.truncf {{.*}} : f32 to bf16
// CHECK:         %[[N:.*]] = tensor.extract %[[R]][%{{.*}}, %{{.*}}] : tensor<64x96xbf16>
// CHECK-NEXT:    %[[V:.*]] = arith.extf %[[N]] : bf16 to f32
// CHECK-NEXT:    linalg.yield %[[V]] : f32
// CHECK:         tensor.extract %[[R]][%{{.*}}, %{{.*}}] : tensor<64x96xbf16>
// F16-LABEL:   func.func @rows(
// F16-COUNT-2:   tensor.extract %{{.*}} : tensor<64x96xf16>
func.func @rows(%i: tensor<5xi64>, %j: tensor<7xi64>) -> (tensor<5x96xf32>, tensor<7x96xf32>) {
  %t = arith.constant dense<0.5> : tensor<64x96xf32>
  %e = tensor.empty() : tensor<5x96xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r)>, affine_map<(r, c) -> (r, c)>], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<5xi64>) outs(%e : tensor<5x96xf32>) {
  ^bb0(%n: i64, %o: f32):
    %row = arith.index_cast %n : i64 to index
    %column = linalg.index 1 : index
    %v = tensor.extract %t[%row, %column] : tensor<64x96xf32>
    linalg.yield %v : f32
  } -> tensor<5x96xf32>
  %f = tensor.empty() : tensor<7x96xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r)>, affine_map<(r, c) -> (r, c)>], iterator_types = ["parallel", "parallel"]} ins(%j : tensor<7xi64>) outs(%f : tensor<7x96xf32>) {
  ^bb0(%n: i64, %o: f32):
    %row = arith.index_cast %n : i64 to index
    %column = linalg.index 1 : index
    %v = tensor.extract %t[%row, %column] : tensor<64x96xf32>
    linalg.yield %v : f32
  } -> tensor<7x96xf32>
  return %y, %z : tensor<5x96xf32>, tensor<7x96xf32>
}

// -----

// Embeddings that a product has as weights, too, are rounded once for both.
// CHECK-LABEL: func.func @tied(
// CHECK-NOT:     bf16
// TIED-LABEL:  func.func @tied(
// TIED:          %[[T:.*]] = arith.constant {{.*}} : tensor<64x96xf32>
// TIED:          %[[R:.*]] = linalg.generic {{.*}} ins(%[[T]] : tensor<64x96xf32>) outs(%{{.*}} : tensor<64x96xbf16>)
// TIED-NOT:      ins(%[[T]]
// TIED:          tensor.extract %[[R]]
// TIED:          linalg.generic {{.*}} ins(%{{.*}}, %[[R]] : tensor<5x96xbf16>, tensor<64x96xbf16>)
func.func @tied(%i: tensor<5xi64>) -> tensor<5x64xf32> {
  %t = arith.constant dense<0.5> : tensor<64x96xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x96xf32>
  %x = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r)>, affine_map<(r, c) -> (r, c)>], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<5xi64>) outs(%e : tensor<5x96xf32>) {
  ^bb0(%n: i64, %o: f32):
    %row = arith.index_cast %n : i64 to index
    %column = linalg.index 1 : index
    %v = tensor.extract %t[%row, %column] : tensor<64x96xf32>
    linalg.yield %v : f32
  } -> tensor<5x96xf32>
  %f = tensor.empty() : tensor<5x64xf32>
  %g = linalg.fill ins(%zero : f32) outs(%f : tensor<5x64xf32>) -> tensor<5x64xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %t : tensor<5x96xf32>, tensor<64x96xf32>) outs(%g : tensor<5x64xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<5x64xf32>
  return %y : tensor<5x64xf32>
}

// -----

// As they are stay: a table that is small, one that a body computes with, one whose numbers are
// gathered one by one, one that something else reads.
// CHECK-LABEL: func.func @others(
// CHECK-NOT:     bf16
// CHECK:         return
func.func @others(%i: tensor<5xi64>) -> (tensor<5x8xf32>, tensor<5x96xf32>, tensor<5x96xf32>, tensor<5x96xf32>, tensor<64x97xf32>) {
  %small = arith.constant dense<0.5> : tensor<64x8xf32>
  %computed = arith.constant dense<0.5> : tensor<64x96xf32>
  %single = arith.constant dense<0.5> : tensor<96x64xf32>
  %read = arith.constant dense<0.5> : tensor<64x97xf32>
  %e = tensor.empty() : tensor<5x8xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r)>, affine_map<(r, c) -> (r, c)>], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<5xi64>) outs(%e : tensor<5x8xf32>) {
  ^bb0(%n: i64, %o: f32):
    %row = arith.index_cast %n : i64 to index
    %column = linalg.index 1 : index
    %v = tensor.extract %small[%row, %column] : tensor<64x8xf32>
    linalg.yield %v : f32
  } -> tensor<5x8xf32>
  %f = tensor.empty() : tensor<5x96xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r)>, affine_map<(r, c) -> (r, c)>], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<5xi64>) outs(%f : tensor<5x96xf32>) {
  ^bb0(%n: i64, %o: f32):
    %row = arith.index_cast %n : i64 to index
    %column = linalg.index 1 : index
    %v = tensor.extract %computed[%row, %column] : tensor<64x96xf32>
    %w = math.absf %v : f32
    linalg.yield %w : f32
  } -> tensor<5x96xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r)>, affine_map<(r, c) -> (r, c)>], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<5xi64>) outs(%f : tensor<5x96xf32>) {
  ^bb0(%n: i64, %o: f32):
    %at = arith.index_cast %n : i64 to index
    %row = linalg.index 1 : index
    %v = tensor.extract %single[%row, %at] : tensor<96x64xf32>
    linalg.yield %v : f32
  } -> tensor<5x96xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r)>, affine_map<(r, c) -> (r, c)>], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<5xi64>) outs(%f : tensor<5x96xf32>) {
  ^bb0(%n: i64, %o: f32):
    %row = arith.index_cast %n : i64 to index
    %column = linalg.index 1 : index
    %v = tensor.extract %read[%row, %column] : tensor<64x97xf32>
    linalg.yield %v : f32
  } -> tensor<5x96xf32>
  return %a, %b, %c, %d, %read : tensor<5x8xf32>, tensor<5x96xf32>, tensor<5x96xf32>, tensor<5x96xf32>, tensor<64x97xf32>
}
