// RUN: rc-opt %s -p 'rtask-widen-halves' --split-input-file | filecheck %s
// RUN: rc-opt %s -p 'rtask-widen-halves{bf16}' --split-input-file | filecheck %s --check-prefix=BOTH

#row = affine_map<(i) -> (i)>

// What is computed is f32 up to the result; inputs and weights are read in 16 bits.
// CHECK-LABEL: func.func @chain
// CHECK-SAME: tensor<8xf16>) -> tensor<8xf16>
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<8xf16>) outs(%{{.*}} : tensor<8xf32>)
// CHECK: %[[X:.*]] = arith.extf %{{.*}} : f16 to f32
// CHECK: arith.mulf %[[X]], %[[X]] : f32
// CHECK-NEXT: linalg.yield %{{.*}} : f32
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<8xf32>, tensor<8xf16>) outs(%{{.*}} : tensor<8xf16>)
// CHECK: %[[C:.*]] = arith.constant 2.500000e-01 : f32
// CHECK: arith.mulf %{{.*}}, %[[C]] : f32
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK: arith.addf %{{.*}}, %{{.*}} : f32
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK-NEXT: linalg.yield %{{.*}} : f16
func.func @chain(%x: tensor<8xf16>) -> tensor<8xf16> {
  %w = arith.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf16>
  %e = tensor.empty() : tensor<8xf16>
  %q = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel"]} ins(%x : tensor<8xf16>) outs(%e : tensor<8xf16>) {
  ^bb0(%a: f16, %o: f16):
    %s = arith.mulf %a, %a : f16
    linalg.yield %s : f16
  } -> tensor<8xf16>
  %y = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel"]} ins(%q, %w : tensor<8xf16>, tensor<8xf16>) outs(%e : tensor<8xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %c = arith.constant 0.25 : f16
    %m = arith.mulf %a, %c : f16
    %s = arith.addf %m, %b : f16
    linalg.yield %s : f16
  } -> tensor<8xf16>
  return %y : tensor<8xf16>
}

// -----

// A rounding between two ops goes, and so does the extension behind it; what only moves is moved in
// f32 where it was computed, and in 16 bits where it was not.
// CHECK-LABEL: func.func @between
// CHECK-NOT: truncf
// CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: tensor.pad %{{.*}} low[1, 0]
// CHECK: tensor.yield %[[ZERO]] : f32
// CHECK: tensor<1x8xf32> to tensor<2x8xf32>
// CHECK: tensor.pad %{{.*}} low[1, 0]
// CHECK: tensor<1x8xf16> to tensor<2x8xf16>
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<2x8xf32>, tensor<2x8xf16>) outs(%{{.*}} : tensor<2x8xf32>)
// CHECK-NOT: truncf
#each = affine_map<(i, j) -> (i, j)>
func.func @between(%x: tensor<1x8xf32>, %z: tensor<1x8xf16>) -> tensor<2x8xf32> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<1x8xf16>
  %r = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1x8xf32>) outs(%e : tensor<1x8xf16>) {
  ^bb0(%a: f32, %o: f16):
    %t = arith.truncf %a : f32 to f16
    linalg.yield %t : f16
  } -> tensor<1x8xf16>
  %p = tensor.pad %r low[1, 0] high[0, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f16
  } : tensor<1x8xf16> to tensor<2x8xf16>
  %n = tensor.pad %z low[1, 0] high[0, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f16
  } : tensor<1x8xf16> to tensor<2x8xf16>
  %f = tensor.empty() : tensor<2x8xf32>
  %y = linalg.generic {indexing_maps = [#each, #each, #each], iterator_types = ["parallel", "parallel"]} ins(%p, %n : tensor<2x8xf16>, tensor<2x8xf16>) outs(%f : tensor<2x8xf32>) {
  ^bb0(%a: f16, %b: f16, %o: f32):
    %s = arith.addf %a, %b : f16
    %t = arith.extf %s : f16 to f32
    linalg.yield %t : f32
  } -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// -----

// What a model rounds itself is rounded.
// CHECK-LABEL: func.func @asked
// CHECK: arith.truncf %{{.*}} to_nearest_even : f32 to f16
// CHECK-NEXT: linalg.yield %{{.*}} : f16
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<8xf16>)
// CHECK: arith.extf
#row = affine_map<(i) -> (i)>
func.func @asked(%x: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf16>
  %r = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf16>) {
  ^bb0(%a: f32, %o: f16):
    %t = arith.truncf %a to_nearest_even : f32 to f16
    linalg.yield %t : f16
  } -> tensor<8xf16>
  %f = tensor.empty() : tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel"]} ins(%r : tensor<8xf16>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f16, %o: f32):
    %t = arith.extf %a : f16 to f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// A maximum that is kept in 16 bits while it is found is found in f32, and rounded once to be
// returned; weights are computed in 16 bits.
// CHECK-LABEL: func.func @extreme
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<8xf16>)
// CHECK: arith.mulf {{.*}} : f16
// CHECK: linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<4xf32>)
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<4xf32>)
// CHECK: arith.maximumf {{.*}} : f32
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<4xf32>) outs(%{{.*}} : tensor<4xf16>)
// CHECK: arith.truncf
#row = affine_map<(i) -> (i)>
func.func @extreme(%x: tensor<4x8xf16>) -> tensor<4xf16> {
  %w = arith.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf16>
  %e = tensor.empty() : tensor<8xf16>
  %v = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel"]} ins(%w : tensor<8xf16>) outs(%e : tensor<8xf16>) {
  ^bb0(%a: f16, %o: f16):
    %s = arith.mulf %a, %a : f16
    linalg.yield %s : f16
  } -> tensor<8xf16>
  %least = arith.constant 0xFC00 : f16
  %m = tensor.empty() : tensor<4xf16>
  %f = linalg.fill ins(%least : f16) outs(%m : tensor<4xf16>) -> tensor<4xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%x, %v : tensor<4x8xf16>, tensor<8xf16>) outs(%f : tensor<4xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %s = arith.addf %a, %b : f16
    %t = arith.maximumf %s, %o : f16
    linalg.yield %t : f16
  } -> tensor<4xf16>
  return %y : tensor<4xf16>
}

// -----

// What the pass does not know, such as a loop over elements, takes and gives 16 bits.
// CHECK-LABEL: func.func @loop
// CHECK: linalg.generic {{.*}} outs(%[[E:.*]] : tensor<8xf16>)
// CHECK: arith.truncf
// CHECK: scf.for {{.*}} -> (tensor<8xf16>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<8xf16>) outs(%{{.*}} : tensor<8xf16>)
#row = affine_map<(i) -> (i)>
func.func @loop(%x: tensor<8xf16>) -> tensor<8xf16> {
  %e = tensor.empty() : tensor<8xf16>
  %r = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel"]} ins(%x : tensor<8xf16>) outs(%e : tensor<8xf16>) {
  ^bb0(%a: f16, %o: f16):
    %t = math.exp %a : f16
    linalg.yield %t : f16
  } -> tensor<8xf16>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %seven = arith.constant 7 : index
  %l = scf.for %i = %zero to %seven step %one iter_args(%t = %r) -> (tensor<8xf16>) {
    %next = arith.addi %i, %one : index
    %a = tensor.extract %t[%i] : tensor<8xf16>
    %b = tensor.extract %t[%next] : tensor<8xf16>
    %s = arith.addf %a, %b : f16
    %u = tensor.insert %s into %t[%next] : tensor<8xf16>
    scf.yield %u : tensor<8xf16>
  }
  %y = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel"]} ins(%l : tensor<8xf16>) outs(%e : tensor<8xf16>) {
  ^bb0(%a: f16, %o: f16):
    %t = arith.negf %a : f16
    linalg.yield %t : f16
  } -> tensor<8xf16>
  return %y : tensor<8xf16>
}

// -----

// bf16 has the range of f32.
// CHECK-LABEL: func.func @short
// CHECK: arith.addf %{{.*}} : bf16
// BOTH-LABEL: func.func @short
// BOTH: arith.mulf %{{.*}} : f32
// BOTH: arith.addf %{{.*}} : f32
// BOTH: arith.truncf %{{.*}} : f32 to bf16
#row = affine_map<(i) -> (i)>
func.func @short(%x: tensor<8xbf16>) -> tensor<8xbf16> {
  %e = tensor.empty() : tensor<8xbf16>
  %q = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel"]} ins(%x : tensor<8xbf16>) outs(%e : tensor<8xbf16>) {
  ^bb0(%a: bf16, %o: bf16):
    %s = arith.mulf %a, %a : bf16
    linalg.yield %s : bf16
  } -> tensor<8xbf16>
  %y = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel"]} ins(%q : tensor<8xbf16>) outs(%e : tensor<8xbf16>) {
  ^bb0(%a: bf16, %o: bf16):
    %s = arith.addf %a, %a : bf16
    linalg.yield %s : bf16
  } -> tensor<8xbf16>
  return %y : tensor<8xbf16>
}
