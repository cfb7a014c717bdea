// RUN: rc-opt %s -p 'vdevice-attach-device{device=v100},roller-tile{policy=osdi22}' | filecheck %s --check-prefix=LOGGED
// RUN: rc-opt %s -p 'vdevice-attach-device{device=v100},roller-tile{policy=osdi22 score=paper}' | filecheck %s --check-prefix=PAPER
// RUN: rc-opt %s -p 'vdevice-attach-device{device=v100},roller-tile{policy=osdi22 score=paper pad-banks}' | filecheck %s --check-prefix=PADDED
// RUN: rc-opt %s -p 'vdevice-attach-device{device=h200 precision=tf32},roller-tile{policy=osdi22 tensor-core}' | filecheck %s --check-prefix=WARPS
// RUN: rc-opt %s -p 'vdevice-attach-device{device=h200 precision=f32},roller-tile{policy=osdi22 tensor-core}' | filecheck %s --check-prefix=THREADS

// What the paper has and its published runs leave out changes the tile: first as it was published.
// LOGGED:      note = "published search: shared tile 64x32x8, register tile 4x2x1 of a thread, {{.*}} tile = array<i64: 64, 32>
// The score by the paper's formula.
// PAPER:       note = "published search: shared tile 64x48x8, register tile 4x2x1 of a thread, {{.*}} tile = array<i64: 64, 48>
// And rows in shared memory padded against bank conflicts.
// PADDED:      note = "published search: shared tile 32x64x8, register tile 4x2x1 of a thread, {{.*}} tile = array<i64: 32, 64>
// Fragments of 16x16x16, one for each warp, where a matrix unit multiplies: not where all of f32 is exact.
// WARPS:       note = "published search: shared tile 32x32x64, register tile 16x16x16 of a warp, {{.*}} tile = array<i64: 32, 32>
// THREADS:     note = "published search: shared tile {{[0-9x]+}}, register tile {{[0-9x]+}} of a thread,
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
