// An operator, and the rKernel that computes it in two rTasks, each of four rows.
func.func @main(%x: tensor<8x6xf32>) -> tensor<8x6xf32> {
  %y = "rtask.operator"() ({
    %0 = tensor.empty() : tensor<8x6xf32>
    %1 = linalg.exp ins(%x : tensor<8x6xf32>) outs(%0 : tensor<8x6xf32>) -> tensor<8x6xf32>
    %2 = "rtask.stage"(%1) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %3 = linalg.negf ins(%2 : tensor<8x6xf32>) outs(%0 : tensor<8x6xf32>) -> tensor<8x6xf32>
    "rtask.yield"(%3) : (tensor<8x6xf32>) -> ()
  }) {kernels = [@k_exp], kind = "elementwise", sym_name = "exp"} : () -> tensor<8x6xf32>
  return %y : tensor<8x6xf32>
}

"rtask.kernel"() ({
^bb0(%x: tensor<8x6xf32>):
  %0 = tensor.empty() : tensor<8x6xf32>
  %1 = linalg.exp ins(%x : tensor<8x6xf32>) outs(%0 : tensor<8x6xf32>) -> tensor<8x6xf32>
  %2 = "rtask.stage"(%1) {axes = array<i64: 0, -1>, lanes = 2 : i64,
      order = array<i64: 0, 1>, register_tile = array<i64: 2, 2>,
      vector_dim = 1 : i64} : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %3 = linalg.negf ins(%2 : tensor<8x6xf32>) outs(%0 : tensor<8x6xf32>) -> tensor<8x6xf32>
  "rtask.yield"(%3) : (tensor<8x6xf32>) -> ()
}) {estimated_ns = 12.0 : f64, grid = array<i64: 2, 1>, kind = "elementwise",
    lanes = 2 : i64, on_chip_bytes = 96 : i64,
    reads = [[array<i64: 0, 4, 0, 4>, array<i64: -1, 0, 0, 0>]],
    register_tile = array<i64: 2, 2>, registers = 2 : i64, source = "roller",
    sym_name = "k_exp", tasks = 2 : i64, tile = array<i64: 4, 6>, vector_dim = 1 : i64,
    writes = [[array<i64: 0, 4, 0, 4>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// An operator whose result matters only where a condition holds.
func.func @chosen(%c: tensor<i1>, %x: tensor<8x6xf32>) -> tensor<8x6xf32> {
  %a = "rtask.operator"() ({
    "rtask.guard"(%c) {holds = true} : (tensor<i1>) -> ()
    %0 = tensor.empty() : tensor<8x6xf32>
    %1 = linalg.exp ins(%x : tensor<8x6xf32>) outs(%0 : tensor<8x6xf32>) -> tensor<8x6xf32>
    "rtask.yield"(%1) : (tensor<8x6xf32>) -> ()
  }) {kind = "elementwise", sym_name = "guarded"} : () -> tensor<8x6xf32>
  %y = "rtask.operator"() ({
    %0 = tensor.empty() : tensor<8x6xf32>
    %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> ()>,
        affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>,
        affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
        ins(%c, %a, %x : tensor<i1>, tensor<8x6xf32>, tensor<8x6xf32>)
        outs(%0 : tensor<8x6xf32>) {
    ^bb0(%t: i1, %l: f32, %r: f32, %o: f32):
      %2 = arith.select %t, %l, %r : f32
      linalg.yield %2 : f32
    } -> tensor<8x6xf32>
    "rtask.yield"(%1) : (tensor<8x6xf32>) -> ()
  }) {kind = "elementwise", sym_name = "choice"} : () -> tensor<8x6xf32>
  return %y : tensor<8x6xf32>
}
