// Two 1x1 convolutions of 32 channels, the first kept on chip for the second: 224 sums of a register tile, whose
// coordinates have five dims.
#map5 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
#map7 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d5, d2 + d6, d3 + d7, d8)>
#map8 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d1, d5, d6, d7, d8, d4)>
#map9 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d1, d2, d3, d4)>
#map10 = affine_map<(d0, d1, d2, d3, d4) -> (d1, d4)>
"rtask.kernel"() ({
^bb0(%arg0: tensor<1x3x32x32x32xf32>, %arg1: tensor<1x3x1x1x32x32xf32>, %arg2: tensor<1x32xf32>, %arg3: tensor<1x3x1x1x32x32xf32>, %arg4: tensor<1x32xf32>):
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<1x1x32x32x32xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<1x1x32x32x32xf32>) -> tensor<1x1x32x32x32xf32>
  %2 = linalg.generic {indexing_maps = [#map7, #map8, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]} ins(%arg0, %arg1 : tensor<1x3x32x32x32xf32>, tensor<1x3x1x1x32x32xf32>) outs(%1 : tensor<1x1x32x32x32xf32>) {
  ^bb0(%in: f32, %in_1: f32, %out: f32):
    %10 = arith.mulf %in, %in_1 : f32
    %11 = arith.addf %out, %10 : f32
    linalg.yield %11 : f32
  } -> tensor<1x1x32x32x32xf32>
  %3 = linalg.generic {indexing_maps = [#map5, #map10, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%2, %arg2 : tensor<1x1x32x32x32xf32>, tensor<1x32xf32>) outs(%0 : tensor<1x1x32x32x32xf32>) {
  ^bb0(%in: f32, %in_1: f32, %out: f32):
    %10 = arith.addf %in, %in_1 : f32
    linalg.yield %10 : f32
  } -> tensor<1x1x32x32x32xf32>
  %4 = "rtask.stage"(%3) {axes = array<i64: 0, 1, 2, 3, 4>, lanes = 32 : i64, order = array<i64: 2, 0, 1, 3, 4>, register_tile = array<i64: 1, 1, 7, 32, 32>, vector_dim = 4 : i64} : (tensor<1x1x32x32x32xf32>) -> tensor<1x1x32x32x32xf32>
  %cst_0 = arith.constant 0.000000e+00 : f32
  %5 = tensor.empty() : tensor<1x1x32x32x32xf32>
  %6 = linalg.fill ins(%cst_0 : f32) outs(%5 : tensor<1x1x32x32x32xf32>) -> tensor<1x1x32x32x32xf32>
  %7 = linalg.generic {indexing_maps = [#map7, #map8, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]} ins(%arg0, %arg3 : tensor<1x3x32x32x32xf32>, tensor<1x3x1x1x32x32xf32>) outs(%6 : tensor<1x1x32x32x32xf32>) {
  ^bb0(%in: f32, %in_1: f32, %out: f32):
    %10 = arith.mulf %in, %in_1 : f32
    %11 = arith.addf %out, %10 : f32
    linalg.yield %11 : f32
  } -> tensor<1x1x32x32x32xf32>
  %8 = linalg.generic {indexing_maps = [#map5, #map10, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%7, %arg4 : tensor<1x1x32x32x32xf32>, tensor<1x32xf32>) outs(%5 : tensor<1x1x32x32x32xf32>) {
  ^bb0(%in: f32, %in_1: f32, %out: f32):
    %10 = arith.addf %in, %in_1 : f32
    linalg.yield %10 : f32
  } -> tensor<1x1x32x32x32xf32>
  %9 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%8, %4 : tensor<1x1x32x32x32xf32>, tensor<1x1x32x32x32xf32>) outs(%5 : tensor<1x1x32x32x32xf32>) {
  ^bb0(%in: f32, %in_1: f32, %out: f32):
    %10 = arith.addf %in, %in_1 : f32
    linalg.yield %10 : f32
  } -> tensor<1x1x32x32x32xf32>
  "rtask.yield"(%9) : (tensor<1x1x32x32x32xf32>) -> ()
}) {estimated_ns = 2.058620e+04 : f64, grid = array<i64: 1, 1, 5, 1, 1>, kind = "convolution", lanes = 32 : i64, on_chip_bytes = 155776 : i64, order = array<i64: 2, 0, 1, 3, 4>, reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], reason = "1x1x7x32x32 in registers: 224 accumulators, 229 of 255 registers, 1.00 loads per operation; 5 tasks of 20.6 us, bound by compute, 27% of the peak; after 1 stage(s), which stay on chip", register_tile = array<i64: 1, 1, 7, 32, 32>, registers = 229 : i64, source = "roller", sym_name = "k_convolutions", tasks = 5 : i64, tile = array<i64: 1, 1, 7, 32, 32>, vector_dim = 4 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: 2, 7, 0, 7>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()
