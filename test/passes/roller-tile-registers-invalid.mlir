// RUN: not rc-opt %s -p roller-tile-registers 2>&1 | filecheck %s

// CHECK: its body is that of a whole operator; run roller-tile-tasks
"rtask.kernel"() ({
^bb0(%x: tensor<10x32xf32>, %w: tensor<32x20xf32>, %bias: tensor<20xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<10x20xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<10x20xf32>) -> tensor<10x20xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<10x32xf32>, tensor<32x20xf32>) outs(%f : tensor<10x20xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %c = arith.mulf %a, %b : f32
    %d = arith.addf %acc, %c : f32
    linalg.yield %d : f32
  } -> tensor<10x20xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p, %bias : tensor<10x20xf32>, tensor<20xf32>) outs(%e : tensor<10x20xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<10x20xf32>
  "rtask.yield"(%y) : (tensor<10x20xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1, 1>, kind = "contraction", lanes = 8 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1>,
    reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 6, 8>, registers = 1 : i64,
    source = "roller", sym_name = "product", tasks = 1 : i64, tile = array<i64: 10, 20>,
    vector_dim = 1 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()
