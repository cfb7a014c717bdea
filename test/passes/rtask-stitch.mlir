// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v4-2.json},rtask-stitch' --split-input-file | filecheck %s
// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v4-2.json},rtask-stitch,roller-tile' --split-input-file | filecheck %s --check-prefix=TILED
// RUN: rc-opt %s -p 'vdevice-attach-device{device=h200},rtask-stitch' --split-input-file | filecheck %s --check-prefix=WIDE

#left = affine_map<(h, m, n, k) -> (h, m, k)>
#right = affine_map<(h, m, n, k) -> (h, k, n)>
#out = affine_map<(h, m, n, k) -> (h, m, n)>

// Scores stay on chip: a task needs whole rows of them, and computes rows of its own.
// CHECK-LABEL: func.func @attention
// CHECK-COUNT-1: "rtask.operator"
// CHECK:         %[[S:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1
// CHECK:         %[[K:.*]] = "rtask.stage"(%[[S]]) : (tensor<4x512x512xf32>) -> tensor<4x512x512xf32>
// CHECK:         %[[O:.*]] = linalg.generic {{.*}} ins(%[[K]], %arg2
// CHECK:         "rtask.yield"(%[[O]])
// CHECK:       kind = "contraction", sym_name = "values"
// CHECK-NOT:   "rtask.operator"
// CHECK:       return

// In a kernel the stage is tiled: rows as the result's, columns whole.
// TILED:       "rtask.kernel"
// TILED:         "rtask.stage"(%{{.*}}) {axes = array<i64: 0, 1, -1>, lanes = 16 : i64, order = array<i64: 0, {{[12]}}, {{[12]}}>,
// TILED-SAME:      register_tile = array<i64: 1, {{[0-9]+, (32|48|64)}}>, vector_dim = 2 : i64}
// TILED-LABEL: func.func @attention
func.func @attention(%q: tensor<4x512x64xf32>, %k: tensor<4x64x512xf32>, %v: tensor<4x512x64xf32>) -> tensor<4x512x64xf32> {
  %s = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<4x512x512xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x512x512xf32>) -> tensor<4x512x512xf32>
    %a = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<4x512x64xf32>, tensor<4x64x512xf32>) outs(%f : tensor<4x512x512xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %m = arith.mulf %l, %r : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<4x512x512xf32>
    "rtask.yield"(%a) : (tensor<4x512x512xf32>) -> ()
  }) {kind = "contraction", sym_name = "scores"} : () -> tensor<4x512x512xf32>
  %o = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<4x512x64xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x512x64xf32>) -> tensor<4x512x64xf32>
    %a = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %v : tensor<4x512x512xf32>, tensor<4x512x64xf32>) outs(%f : tensor<4x512x64xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %m = arith.mulf %l, %r : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<4x512x64xf32>
    "rtask.yield"(%a) : (tensor<4x512x64xf32>) -> ()
  }) {kind = "contraction", sym_name = "values"} : () -> tensor<4x512x64xf32>
  return %o : tensor<4x512x64xf32>
}

// -----

#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>

// The scores are an output too, so they have to be in memory.
// CHECK-LABEL: func.func @two_readers
// CHECK-COUNT-2: "rtask.operator"
// CHECK-NOT:   rtask.stage
func.func @two_readers(%q: tensor<512x64xf32>, %k: tensor<64x512xf32>, %v: tensor<512x64xf32>) -> (tensor<512x512xf32>, tensor<512x64xf32>) {
  %s = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<512x512xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<512x512xf32>) -> tensor<512x512xf32>
    %a = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%q, %k : tensor<512x64xf32>, tensor<64x512xf32>) outs(%f : tensor<512x512xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %m = arith.mulf %l, %r : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<512x512xf32>
    "rtask.yield"(%a) : (tensor<512x512xf32>) -> ()
  }) {kind = "contraction", sym_name = "scores"} : () -> tensor<512x512xf32>
  %o = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<512x64xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<512x64xf32>) -> tensor<512x64xf32>
    %a = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s, %v : tensor<512x512xf32>, tensor<512x64xf32>) outs(%f : tensor<512x64xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %m = arith.mulf %l, %r : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<512x64xf32>
    "rtask.yield"(%a) : (tensor<512x64xf32>) -> ()
  }) {kind = "contraction", sym_name = "values"} : () -> tensor<512x64xf32>
  return %s, %o : tensor<512x512xf32>, tensor<512x64xf32>
}

// -----

#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>

// Read both along rows and along columns: no tile of it is enough for a tile of the result.
// CHECK-LABEL: func.func @squared
// CHECK-COUNT-2: "rtask.operator"
// CHECK-NOT:   rtask.stage
func.func @squared(%q: tensor<512x64xf32>, %k: tensor<64x512xf32>) -> tensor<512x512xf32> {
  %s = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<512x512xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<512x512xf32>) -> tensor<512x512xf32>
    %a = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%q, %k : tensor<512x64xf32>, tensor<64x512xf32>) outs(%f : tensor<512x512xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %m = arith.mulf %l, %r : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<512x512xf32>
    "rtask.yield"(%a) : (tensor<512x512xf32>) -> ()
  }) {kind = "contraction", sym_name = "once"} : () -> tensor<512x512xf32>
  %o = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<512x512xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<512x512xf32>) -> tensor<512x512xf32>
    %a = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s, %s : tensor<512x512xf32>, tensor<512x512xf32>) outs(%f : tensor<512x512xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %m = arith.mulf %l, %r : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<512x512xf32>
    "rtask.yield"(%a) : (tensor<512x512xf32>) -> ()
  }) {kind = "contraction", sym_name = "twice"} : () -> tensor<512x512xf32>
  return %o : tensor<512x512xf32>
}

// -----

#left = affine_map<(h, m, n, k) -> (h, m, k)>
#right = affine_map<(h, m, n, k) -> (h, k, n)>
#out = affine_map<(h, m, n, k) -> (h, m, n)>
#id = affine_map<(h, m, n) -> (h, m, n)>
#row = affine_map<(h, m, n) -> (h, m)>

// All three are judged as they will be, with the rows of the softmax kept and the sums divided.
// CHECK-LABEL: func.func @softmax
// CHECK-COUNT-1: "rtask.operator"
// CHECK:         "rtask.stage"(%{{.*}}) : (tensor<12x128x128xf32>)
// CHECK:         arith.maxnumf
// CHECK:         math.exp2
// CHECK:         arith.divf
// CHECK:         "rtask.stage"(%{{.*}}) : (tensor<12x128x128xf32>)
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %arg2
// CHECK-NOT:   "rtask.operator"
// CHECK:       return
func.func @softmax(%query: tensor<12x128x64xf32>, %key: tensor<12x64x128xf32>, %v: tensor<12x128x64xf32>) -> tensor<12x128x64xf32> {
  %x = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<12x128x128xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<12x128x128xf32>) -> tensor<12x128x128xf32>
    %a = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%query, %key : tensor<12x128x64xf32>, tensor<12x64x128xf32>) outs(%f : tensor<12x128x128xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %m = arith.mulf %l, %r : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<12x128x128xf32>
    "rtask.yield"(%a) : (tensor<12x128x128xf32>) -> ()
  }) {kind = "contraction", sym_name = "scores"} : () -> tensor<12x128x128xf32>
  %w = "rtask.operator"() ({
    %low = arith.constant 0xFF800000 : f32
    %zero = arith.constant 0.0 : f32
    %re = tensor.empty() : tensor<12x128xf32>
    %xe = tensor.empty() : tensor<12x128x128xf32>
    %mf = linalg.fill ins(%low : f32) outs(%re : tensor<12x128xf32>) -> tensor<12x128xf32>
    %lf = linalg.fill ins(%zero : f32) outs(%re : tensor<12x128xf32>) -> tensor<12x128xf32>
    %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<12x128x128xf32>) outs(%mf : tensor<12x128xf32>) {
    ^bb0(%a: f32, %acc: f32):
      %q = arith.maxnumf %acc, %a : f32
      linalg.yield %q : f32
    } -> tensor<12x128xf32>
    %e = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %m : tensor<12x128x128xf32>, tensor<12x128xf32>) outs(%xe : tensor<12x128x128xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %d = arith.subf %a, %c : f32
      %q = math.exp2 %d : f32
      linalg.yield %q : f32
    } -> tensor<12x128x128xf32>
    %l = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%e : tensor<12x128x128xf32>) outs(%lf : tensor<12x128xf32>) {
    ^bb0(%a: f32, %acc: f32):
      %q = arith.addf %acc, %a : f32
      linalg.yield %q : f32
    } -> tensor<12x128xf32>
    %p = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%e, %l : tensor<12x128x128xf32>, tensor<12x128xf32>) outs(%xe : tensor<12x128x128xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %q = arith.divf %a, %c : f32
      linalg.yield %q : f32
    } -> tensor<12x128x128xf32>
    "rtask.yield"(%p) : (tensor<12x128x128xf32>) -> ()
  }) {kind = "reduction", sym_name = "softmax"} : () -> tensor<12x128x128xf32>
  %o = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<12x128x64xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<12x128x64xf32>) -> tensor<12x128x64xf32>
    %a = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%w, %v : tensor<12x128x128xf32>, tensor<12x128x64xf32>) outs(%f : tensor<12x128x64xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %m = arith.mulf %l, %r : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<12x128x64xf32>
    "rtask.yield"(%a) : (tensor<12x128x64xf32>) -> ()
  }) {kind = "contraction", sym_name = "values"} : () -> tensor<12x128x64xf32>
  return %o : tensor<12x128x64xf32>
}

// -----

#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>
#same = affine_map<(m, n) -> (m, n)>

// Products too short to be placed alone go to where their tiles are needed, also one with two results.
// CHECK-LABEL: func.func @gates
// CHECK-COUNT-1: "rtask.operator"
// CHECK-COUNT-2: "rtask.stage"({{.*}}) : (tensor<1x192xf32>) -> tensor<1x192xf32>
// CHECK:         kind = "contraction", sym_name = "third"} : () -> tuple<tensor<1x192xf32>, tensor<1x192xf32>>
// CHECK-NOT:   "rtask.operator"
// CHECK:       return

// TILED:         grid = array<i64: 1, 2>
// TILED-LABEL: func.func @gates
func.func @gates(%h: tensor<1x192xf32>, %u: tensor<192x192xf32>, %v: tensor<192x192xf32>, %w: tensor<192x192xf32>) -> (tensor<1x192xf32>, tensor<1x192xf32>) {
  %p = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<1x192xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x192xf32>) -> tensor<1x192xf32>
    %a = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %u : tensor<1x192xf32>, tensor<192x192xf32>) outs(%f : tensor<1x192xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %m = arith.mulf %l, %r : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<1x192xf32>
    "rtask.yield"(%a) : (tensor<1x192xf32>) -> ()
  }) {kind = "contraction", sym_name = "first"} : () -> tensor<1x192xf32>
  %q = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<1x192xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x192xf32>) -> tensor<1x192xf32>
    %a = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %v : tensor<1x192xf32>, tensor<192x192xf32>) outs(%f : tensor<1x192xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %m = arith.mulf %l, %r : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<1x192xf32>
    "rtask.yield"(%a) : (tensor<1x192xf32>) -> ()
  }) {kind = "contraction", sym_name = "second"} : () -> tensor<1x192xf32>
  %r = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<1x192xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x192xf32>) -> tensor<1x192xf32>
    %a = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %w : tensor<1x192xf32>, tensor<192x192xf32>) outs(%f : tensor<1x192xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %m = arith.mulf %l, %r : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<1x192xf32>
    %g = linalg.generic {indexing_maps = [#same, #same, #same, #same], iterator_types = ["parallel", "parallel"]} ins(%a, %p, %q : tensor<1x192xf32>, tensor<1x192xf32>, tensor<1x192xf32>) outs(%e : tensor<1x192xf32>) {
    ^bb0(%i0: f32, %i1: f32, %i2: f32, %o: f32):
      %s0 = arith.mulf %i0, %i1 : f32
      %s1 = arith.addf %s0, %i2 : f32
      linalg.yield %s1 : f32
    } -> tensor<1x192xf32>
    %both = builtin.unrealized_conversion_cast %a, %g : tensor<1x192xf32>, tensor<1x192xf32> to tuple<tensor<1x192xf32>, tensor<1x192xf32>>
    "rtask.yield"(%both) : (tuple<tensor<1x192xf32>, tensor<1x192xf32>>) -> ()
  }) {kind = "contraction", sym_name = "third"} : () -> tuple<tensor<1x192xf32>, tensor<1x192xf32>>
  %c, %d = builtin.unrealized_conversion_cast %r : tuple<tensor<1x192xf32>, tensor<1x192xf32>> to tensor<1x192xf32>, tensor<1x192xf32>
  return %c, %d : tensor<1x192xf32>, tensor<1x192xf32>
}

// -----

#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>
#same = affine_map<(m, n) -> (m, n)>

// Each of these keeps all EUs busy by itself.
// CHECK-LABEL: func.func @long_gates
// CHECK-COUNT-3: "rtask.operator"
// CHECK-NOT:   rtask.stage
func.func @long_gates(%h: tensor<1x1024xf32>, %u: tensor<1024x1024xf32>, %v: tensor<1024x1024xf32>, %w: tensor<1024x1024xf32>) -> (tensor<1x1024xf32>, tensor<1x1024xf32>) {
  %p = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<1x1024xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x1024xf32>) -> tensor<1x1024xf32>
    %a = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %u : tensor<1x1024xf32>, tensor<1024x1024xf32>) outs(%f : tensor<1x1024xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %m = arith.mulf %l, %r : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<1x1024xf32>
    "rtask.yield"(%a) : (tensor<1x1024xf32>) -> ()
  }) {kind = "contraction", sym_name = "first"} : () -> tensor<1x1024xf32>
  %q = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<1x1024xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x1024xf32>) -> tensor<1x1024xf32>
    %a = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %v : tensor<1x1024xf32>, tensor<1024x1024xf32>) outs(%f : tensor<1x1024xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %m = arith.mulf %l, %r : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<1x1024xf32>
    "rtask.yield"(%a) : (tensor<1x1024xf32>) -> ()
  }) {kind = "contraction", sym_name = "second"} : () -> tensor<1x1024xf32>
  %r = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<1x1024xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x1024xf32>) -> tensor<1x1024xf32>
    %a = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %w : tensor<1x1024xf32>, tensor<1024x1024xf32>) outs(%f : tensor<1x1024xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %m = arith.mulf %l, %r : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<1x1024xf32>
    %g = linalg.generic {indexing_maps = [#same, #same, #same, #same], iterator_types = ["parallel", "parallel"]} ins(%a, %p, %q : tensor<1x1024xf32>, tensor<1x1024xf32>, tensor<1x1024xf32>) outs(%e : tensor<1x1024xf32>) {
    ^bb0(%i0: f32, %i1: f32, %i2: f32, %o: f32):
      %s0 = arith.mulf %i0, %i1 : f32
      %s1 = arith.addf %s0, %i2 : f32
      linalg.yield %s1 : f32
    } -> tensor<1x1024xf32>
    %both = builtin.unrealized_conversion_cast %a, %g : tensor<1x1024xf32>, tensor<1x1024xf32> to tuple<tensor<1x1024xf32>, tensor<1x1024xf32>>
    "rtask.yield"(%both) : (tuple<tensor<1x1024xf32>, tensor<1x1024xf32>>) -> ()
  }) {kind = "contraction", sym_name = "third"} : () -> tuple<tensor<1x1024xf32>, tensor<1x1024xf32>>
  %c, %d = builtin.unrealized_conversion_cast %r : tuple<tensor<1x1024xf32>, tensor<1x1024xf32>> to tensor<1x1024xf32>, tensor<1x1024xf32>
  return %c, %d : tensor<1x1024xf32>, tensor<1x1024xf32>
}

// -----

#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>
#same = affine_map<(m, n) -> (m, n)>

// Gates and what they add up from are one operator where a hand-off takes long. Products that wait for no other one are
// stages in front of those that do, whatever operators they came from.
// WIDE-LABEL: func.func @cell
// WIDE:         "rtask.operator"
// WIDE:         linalg.generic {{.*}} ins(%arg1, %arg3
// WIDE:         %[[Q:.*]] = "rtask.stage"
// WIDE:         linalg.generic {{.*}} ins(%arg1, %arg2
// WIDE:         %[[P:.*]] = "rtask.stage"
// WIDE:         linalg.generic {{.*}} ins(%{{.*}}, %[[Q]] :
// WIDE:         %[[S:.*]] = "rtask.stage"
// WIDE:         linalg.generic {{.*}} ins(%{{.*}}, %[[P]] :
// WIDE:         %[[R:.*]] = "rtask.stage"
// WIDE:         linalg.generic {{.*}} ins(%{{.*}}, %[[R]], %[[S]] :
// WIDE-NOT:     rtask.stage
// WIDE:         kind = "contraction", sym_name = "last"}
// WIDE-NOT:     "rtask.operator"
// WIDE:         return
func.func @cell(%x: tensor<1x256xf32>, %h: tensor<1x256xf32>, %u0: tensor<256x256xf32>, %u1: tensor<256x256xf32>, %w0: tensor<256x256xf32>, %w1: tensor<256x256xf32>, %w2: tensor<256x256xf32>) -> tensor<1x256xf32> {
  %p0 = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<1x256xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x256xf32>) -> tensor<1x256xf32>
    %a = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %u0 : tensor<1x256xf32>, tensor<256x256xf32>) outs(%f : tensor<1x256xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %m = arith.mulf %l, %r : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<1x256xf32>
    "rtask.yield"(%a) : (tensor<1x256xf32>) -> ()
  }) {kind = "contraction", sym_name = "p0"} : () -> tensor<1x256xf32>
  %g0 = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<1x256xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x256xf32>) -> tensor<1x256xf32>
    %a = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w0 : tensor<1x256xf32>, tensor<256x256xf32>) outs(%f : tensor<1x256xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %m = arith.mulf %l, %r : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<1x256xf32>
    %s = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]} ins(%a, %p0 : tensor<1x256xf32>, tensor<1x256xf32>) outs(%e : tensor<1x256xf32>) {
    ^bb0(%i0: f32, %i1: f32, %o: f32):
      %s1 = arith.addf %i0, %i1 : f32
      linalg.yield %s1 : f32
    } -> tensor<1x256xf32>
    "rtask.yield"(%s) : (tensor<1x256xf32>) -> ()
  }) {kind = "contraction", sym_name = "g0"} : () -> tensor<1x256xf32>
  %p1 = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<1x256xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x256xf32>) -> tensor<1x256xf32>
    %a = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %u1 : tensor<1x256xf32>, tensor<256x256xf32>) outs(%f : tensor<1x256xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %m = arith.mulf %l, %r : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<1x256xf32>
    "rtask.yield"(%a) : (tensor<1x256xf32>) -> ()
  }) {kind = "contraction", sym_name = "p1"} : () -> tensor<1x256xf32>
  %g1 = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<1x256xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x256xf32>) -> tensor<1x256xf32>
    %a = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w1 : tensor<1x256xf32>, tensor<256x256xf32>) outs(%f : tensor<1x256xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %m = arith.mulf %l, %r : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<1x256xf32>
    %s = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]} ins(%a, %p1 : tensor<1x256xf32>, tensor<1x256xf32>) outs(%e : tensor<1x256xf32>) {
    ^bb0(%i0: f32, %i1: f32, %o: f32):
      %s1 = arith.addf %i0, %i1 : f32
      linalg.yield %s1 : f32
    } -> tensor<1x256xf32>
    "rtask.yield"(%s) : (tensor<1x256xf32>) -> ()
  }) {kind = "contraction", sym_name = "g1"} : () -> tensor<1x256xf32>
  %last = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<1x256xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x256xf32>) -> tensor<1x256xf32>
    %a = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w2 : tensor<1x256xf32>, tensor<256x256xf32>) outs(%f : tensor<1x256xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %m = arith.mulf %l, %r : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<1x256xf32>
    %s = linalg.generic {indexing_maps = [#same, #same, #same, #same], iterator_types = ["parallel", "parallel"]} ins(%a, %g0, %g1 : tensor<1x256xf32>, tensor<1x256xf32>, tensor<1x256xf32>) outs(%e : tensor<1x256xf32>) {
    ^bb0(%i0: f32, %i1: f32, %i2: f32, %o: f32):
      %s1 = arith.addf %i0, %i1 : f32
      %s2 = arith.addf %s1, %i2 : f32
      linalg.yield %s2 : f32
    } -> tensor<1x256xf32>
    "rtask.yield"(%s) : (tensor<1x256xf32>) -> ()
  }) {kind = "contraction", sym_name = "last"} : () -> tensor<1x256xf32>
  return %last : tensor<1x256xf32>
}

// -----

#words = affine_map<(k, i, n) -> (n floordiv 16, k, n mod 16)>
#weights = affine_map<(k, i, n) -> (k, i, n)>
#left = affine_map<(m, n, k, i) -> (m, k, i)>
#right = affine_map<(m, n, k, i) -> (k, i, n)>
#out = affine_map<(m, n, k, i) -> (m, n)>

// Weights that are made of words of a few bits stay on chip, however small they are: of the columns
// of a task, whole.
// CHECK-LABEL: func.func @unpacked
// CHECK-COUNT-1: "rtask.operator"
// CHECK:         %[[W:.*]] = linalg.generic {{.*}} ins(%cst : tensor<8x16x16xi32>)
// CHECK:         %[[K:.*]] = "rtask.stage"(%[[W]]) : (tensor<16x8x128xf32>) -> tensor<16x8x128xf32>
// CHECK:         linalg.generic {{.*}} ins(%arg0, %[[K]]
// CHECK-NOT:   "rtask.operator"
// CHECK:       return
// TILED-LABEL: "rtask.kernel"
// TILED:         "rtask.stage"(%{{.*}}) {axes = array<i64: -1, -1, 1>,
// TILED-LABEL: func.func @unpacked
func.func @unpacked(%x: tensor<64x16x8xf32>) -> tensor<64x128xf32> {
  %words = arith.constant dense_resource<w_0> : tensor<8x16x16xi32>
  %w = "rtask.operator"() ({
    %e = tensor.empty() : tensor<16x8x128xf32>
    %a = linalg.generic {indexing_maps = [#words, #weights], iterator_types = ["parallel", "parallel", "parallel"]} ins(%words : tensor<8x16x16xi32>) outs(%e : tensor<16x8x128xf32>) {
    ^bb0(%word: i32, %o: f32):
      %four = arith.constant 4 : index
      %mask = arith.constant 15 : i32
      %i = linalg.index 1 : index
      %p = arith.muli %i, %four : index
      %s = arith.index_cast %p : index to i32
      %r = arith.shrui %word, %s : i32
      %q = arith.andi %r, %mask : i32
      %f = arith.sitofp %q : i32 to f32
      linalg.yield %f : f32
    } -> tensor<16x8x128xf32>
    "rtask.yield"(%a) : (tensor<16x8x128xf32>) -> ()
  }) {kind = "elementwise", sym_name = "weights"} : () -> tensor<16x8x128xf32>
  %y = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<64x128xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x128xf32>) -> tensor<64x128xf32>
    %a = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<64x16x8xf32>, tensor<16x8x128xf32>) outs(%f : tensor<64x128xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %m = arith.mulf %l, %r : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<64x128xf32>
    "rtask.yield"(%a) : (tensor<64x128xf32>) -> ()
  }) {kind = "contraction", sym_name = "product"} : () -> tensor<64x128xf32>
  return %y : tensor<64x128xf32>
}
