// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v3-2.json},roller-tile' --split-input-file | filecheck %s
// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v4-2.json},roller-tile' --split-input-file | filecheck %s --check-prefix=WIDE
// RUN: rc-opt %s -p 'vdevice-attach-device{device=mi50},roller-tile{policy=osdi22}' --split-input-file | filecheck %s --check-prefix=GPU
// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v3-2.json},roller-tile{policy=osdi22}' --split-input-file | filecheck %s --check-prefix=CPU
// RUN: rc-opt %s -p 'vdevice-attach-device{device=a100 precision=tf32},roller-tile' --split-input-file | filecheck %s --check-prefix=UNIT

// A product: vectors along the columns, a tile of accumulators in registers, nothing of which depends on the host. It
// says why, and what came second. The columns of w that a task reads follow its place in the grid.
// CHECK:       "rtask.kernel"()
// CHECK:       }) {{.*}}explanation = {alignment = {accumulators = 12 : i64, hiding = 8 : i64, lanes = 1.000000e+00 : f64
// CHECK-SAME:  limit = "compute", loads = {{.*}}, parts_ns = {L2 = {{.*}}, compute = {{.*}}runner_up = {by = "EU time"
// CHECK-SAME:  grid = array<i64: {{[0-9]+}}, {{[0-9]+}}>, kind = "contraction", lanes = 8 : i64
// CHECK-SAME:  array<i64: -1, 0, 0, 0>, array<i64: 1, [[N:[0-9]+]], 0, [[N]]>]]
// CHECK-SAME:  register_tile = array<i64: 6, 16>
// CHECK-SAME:  sym_name = "[[K:k_[0-9a-f]+]]"
// CHECK-SAME:  tile = array<i64: {{[0-9]+}}, [[N]]>, vector_dim = 1 : i64
// CHECK-SAME:  array<i64: 1, [[N]], 0, [[N]]>]]}
// On a GPU with matrix units tiles are multiples of 16 rows and 8 columns, of which none is padding here.
// UNIT:        }) {{.*}}registers = array<i64: {{[0-9]+}}, 255>{{.*}}unit = {columns = {{[0-9]+}} : i64, name = "mma of tf32"
// UNIT-SAME:   padding = 0.000000e+00 : f64, rows = {{[0-9]+}} : i64}}
// UNIT-SAME:   kind = "contraction"
// The published search on a core: a thread is a lane, 8 of them are a vector.
// CPU:         }) {{.*}}note = "published search: shared tile 32x16x16, register tile 4x2x1 of a lane, padding up to 0.0", parts_ns
// CPU-SAME:    lanes = 8 : i64
// CPU-SAME:    source = "osdi22"
// CPU-SAME:    vector_dim = 1 : i64
// CHECK-LABEL: func.func @product
// CHECK:       }) {kernels = [@[[K]]
func.func @product(%x: tensor<512x256xf32>, %w: tensor<256x768xf32>) -> tensor<512x768xf32> {
  %r = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<512x768xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<512x768xf32>) -> tensor<512x768xf32>
    %a = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<512x256xf32>, tensor<256x768xf32>) outs(%f : tensor<512x768xf32>) {
    ^bb0(%l: f32, %s: f32, %acc: f32):
      %m = arith.mulf %l, %s : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<512x768xf32>
    "rtask.yield"(%a) : (tensor<512x768xf32>) -> ()
  }) {kind = "contraction", sym_name = "fc"} : () -> tensor<512x768xf32>
  return %r : tensor<512x768xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// Equal bodies share their kernels, whatever they are called; an elementwise result may take its operand's place.
// CHECK:       "rtask.kernel"()
// CHECK-NOT:   "rtask.kernel"()
// CHECK:       }) {{.*}}in_place = array<i64: 0, 0>
// CHECK-LABEL: func.func @shared
// CHECK:       kernels = [@[[K:k_[0-9a-f]+]]], kind = "elementwise", sym_name = "first"
// CHECK:       kernels = [@[[K]]], kind = "elementwise", sym_name = "second"
func.func @shared(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = "rtask.operator"() ({
    %e = tensor.empty() : tensor<8xf32>
    %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
    ^bb0(%l: f32, %o: f32):
      %s = math.absf %l : f32
      linalg.yield %s : f32
    } -> tensor<8xf32> loc("one")
    "rtask.yield"(%y) : (tensor<8xf32>) -> ()
  }) {kind = "elementwise", sym_name = "first"} : () -> tensor<8xf32>
  %b = "rtask.operator"() ({
    %e = tensor.empty() : tensor<8xf32>
    %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%a : tensor<8xf32>) outs(%e : tensor<8xf32>) {
    ^bb0(%l: f32, %o: f32):
      %s = math.absf %l : f32
      linalg.yield %s : f32
    } -> tensor<8xf32> loc("two")
    "rtask.yield"(%y) : (tensor<8xf32>) -> ()
  }) {kind = "elementwise", sym_name = "second"} : () -> tensor<8xf32>
  return %b : tensor<8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// x / sum(x) over rows: a task needs whole rows, so the columns are not cut.
// CHECK:       }) {{.*}}grid = array<i64: {{[0-9]+}}, 1>, kind = "reduction"
// CHECK-SAME:  tile = array<i64: {{[0-9]+}}, 64>
// CHECK-LABEL: func.func @whole_rows
func.func @whole_rows(%x: tensor<4096x64xf32>) -> tensor<4096x64xf32> {
  %r = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<4096x64xf32>
    %r = tensor.empty() : tensor<4096xf32>
    %f = linalg.fill ins(%zero : f32) outs(%r : tensor<4096xf32>) -> tensor<4096xf32>
    %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4096x64xf32>) outs(%f : tensor<4096xf32>) {
    ^bb0(%l: f32, %o: f32):
      %s = arith.addf %o, %l : f32
      linalg.yield %s : f32
    } -> tensor<4096xf32>
    %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %sum : tensor<4096x64xf32>, tensor<4096xf32>) outs(%e : tensor<4096x64xf32>) {
    ^bb0(%l: f32, %m: f32, %o: f32):
      %s = arith.divf %l, %m : f32
      linalg.yield %s : f32
    } -> tensor<4096x64xf32>
    "rtask.yield"(%y) : (tensor<4096x64xf32>) -> ()
  }) {kind = "reduction", sym_name = "normalise"} : () -> tensor<4096x64xf32>
  return %r : tensor<4096x64xf32>
}

// -----

// A scalar: one task, no dims. The published search has no tile for it and says so.
// CPU:         }) {{.*}}note = "published search: no tile of it is aligned and fits; decided by policy roller"{{.*}}source = "roller"
// CPU-LABEL:   func.func @scalar
// CHECK:       }) {{.*}}grid = array<i64>{{.*}}tasks = 1 : i64, tile = array<i64>, vector_dim = -1 : i64
// CHECK-LABEL: func.func @scalar
func.func @scalar(%x: tensor<f32>) -> tensor<f32> {
  %r = "rtask.operator"() ({
    %e = tensor.empty() : tensor<f32>
    %y = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%x : tensor<f32>) outs(%e : tensor<f32>) {
    ^bb0(%l: f32, %o: f32):
      %s = math.absf %l : f32
      linalg.yield %s : f32
    } -> tensor<f32>
    "rtask.yield"(%y) : (tensor<f32>) -> ()
  }) {kind = "elementwise", sym_name = "abs"} : () -> tensor<f32>
  return %r : tensor<f32>
}

// -----

// Panels of 288 KiB, 7 pixels in a row: the reduction runs in parts that stay in the first cache, all rows of a task
// inside of the loop over parts. That pays where the vectors are wide.
// WIDE:        ^bb0(%{{.*}}: tensor<32x9x9x16xf32>
// WIDE:        order = array<i64: 0, 1, 2, 3>
// WIDE-SAME:   reduction_tile = array<i64: {{[01]}}, 1>
// WIDE-LABEL:  func.func @long
func.func @long(%x: tensor<32x9x9x16xf32>, %w: tensor<32x32x3x3x16x16xf32>) -> tensor<32x7x7x16xf32> {
  %r = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<32x7x7x16xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x7x7x16xf32>) -> tensor<32x7x7x16xf32>
    %a = linalg.generic {indexing_maps = [affine_map<(o, h, w, l, c, p, q, i) -> (c, h + p, w + q, i)>, affine_map<(o, h, w, l, c, p, q, i) -> (o, c, p, q, i, l)>, affine_map<(o, h, w, l, c, p, q, i) -> (o, h, w, l)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<32x9x9x16xf32>, tensor<32x32x3x3x16x16xf32>) outs(%f : tensor<32x7x7x16xf32>) {
    ^bb0(%l: f32, %s: f32, %acc: f32):
      %m = arith.mulf %l, %s : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<32x7x7x16xf32>
    "rtask.yield"(%a) : (tensor<32x7x7x16xf32>) -> ()
  }) {kind = "convolution", sym_name = "long"} : () -> tensor<32x7x7x16xf32>
  return %r : tensor<32x7x7x16xf32>
}

// -----

// The published search: a task of a GPU is a block of threads, each with 8x4 results; as recorded (golden_mi50.json).
// GPU:         }) {{.*}}note = "published search: shared tile 128x64x16, register tile 8x4x1 of a thread, padding up to 0.0"
// GPU-SAME:    grid = array<i64: 512, 16>, kind = "contraction", lanes = 1 : i64
// GPU-SAME:    register_tile = array<i64: 8, 4>
// GPU-SAME:    source = "osdi22"
// GPU-SAME:    tile = array<i64: 128, 64>, vector_dim = -1 : i64
// GPU-LABEL:   func.func @recorded
func.func @recorded(%x: tensor<65536x1024xf32>, %w: tensor<1024x1024xf32>) -> tensor<65536x1024xf32> {
  %r = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<65536x1024xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<65536x1024xf32>) -> tensor<65536x1024xf32>
    %a = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<65536x1024xf32>, tensor<1024x1024xf32>) outs(%f : tensor<65536x1024xf32>) {
    ^bb0(%l: f32, %s: f32, %acc: f32):
      %m = arith.mulf %l, %s : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<65536x1024xf32>
    "rtask.yield"(%a) : (tensor<65536x1024xf32>) -> ()
  }) {kind = "contraction", sym_name = "recorded"} : () -> tensor<65536x1024xf32>
  return %r : tensor<65536x1024xf32>
}

// -----

// A small constant matrix of two rows: a register tile holds both, whatever comes of it, and the
// kernel says why it has this root. The last column has no second row.
// CHECK:       reason = "2x{{[0-9]+}} in registers
// CHECK-SAME:  register_tile = array<i64: 2, {{[0-9]+}}>
// CHECK-SAME:  rtask.root = "because"
// CHECK-LABEL: func.func @transform
func.func @transform(%m: tensor<4x8x16xf32>) -> tensor<15x16xf32> {
  %r = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %a = arith.constant dense<[[1.0, 1.0, 1.0, 0.0], [0.0, 1.0, -1.0, 1.0]]> : tensor<2x4xf32>
    %e = tensor.empty() : tensor<15x16xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<15x16xf32>) -> tensor<15x16xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(x, l, k) -> (x mod 2, k)>, affine_map<(x, l, k) -> (k, x floordiv 2, l)>, affine_map<(x, l, k) -> (x, l)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %m : tensor<2x4xf32>, tensor<4x8x16xf32>) outs(%f : tensor<15x16xf32>) {
    ^bb0(%l: f32, %s: f32, %acc: f32):
      %p = arith.mulf %l, %s : f32
      %t = arith.addf %acc, %p : f32
      linalg.yield %t : f32
    } -> tensor<15x16xf32>
    "rtask.yield"(%y) : (tensor<15x16xf32>) -> ()
  }) {kind = "transform", rtask.root = "because", sym_name = "out"} : () -> tensor<15x16xf32>
  return %r : tensor<15x16xf32>
}

// -----
// MLIR's canonicalize moves scalars out of rOperators: they go back, and tell operators apart that are else equal.
// CHECK:       "rtask.kernel"()
// CHECK:       arith.constant 3.000000e+00 : f32
// CHECK:       sym_name = "[[THRICE:k_[0-9a-f]+]]"
// CHECK:       arith.constant 2.000000e+00 : f32
// CHECK:       sym_name = "[[TWICE:k_[0-9a-f]+]]"
// CHECK-LABEL: func.func @scalars_outside
// CHECK-NEXT:  "rtask.operator"
// CHECK:       }) {kernels = [@[[TWICE]]
// CHECK:       }) {kernels = [@[[THRICE]]
func.func @scalars_outside(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %two = arith.constant 2.0 : f32
  %three = arith.constant 3.0 : f32
  %a = "rtask.operator"() ({
    %e = tensor.empty() : tensor<64xf32>
    %m = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
    ^bb0(%l: f32, %o: f32):
      %t = arith.mulf %l, %two : f32
      linalg.yield %t : f32
    } -> tensor<64xf32>
    "rtask.yield"(%m) : (tensor<64xf32>) -> ()
  }) {kind = "elementwise", sym_name = "twice"} : () -> tensor<64xf32>
  %b = "rtask.operator"() ({
    %e = tensor.empty() : tensor<64xf32>
    %m = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
    ^bb0(%l: f32, %o: f32):
      %t = arith.mulf %l, %three : f32
      linalg.yield %t : f32
    } -> tensor<64xf32>
    "rtask.yield"(%m) : (tensor<64xf32>) -> ()
  }) {kind = "elementwise", sym_name = "thrice"} : () -> tensor<64xf32>
  return %a, %b : tensor<64xf32>, tensor<64xf32>
}
