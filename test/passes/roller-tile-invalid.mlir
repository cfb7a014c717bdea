// RUN: not rc-opt %s -p roller-tile 2>&1 | filecheck %s
// RUN: not rc-opt %s -p 'roller-tile{policy=best}' 2>&1 | filecheck %s --check-prefix=POLICY
// RUN: not rc-opt %s -p 'roller-tile{policy=osdi22 score=best}' 2>&1 | filecheck %s --check-prefix=SCORE
// RUN: not rc-opt %s -p 'roller-tile{policy=osdi22 pad-banks=2}' 2>&1 | filecheck %s --check-prefix=BANKS
// RUN: not rc-opt %s -p 'roller-tile{score=paper}' 2>&1 | filecheck %s --check-prefix=OTHER
// RUN: not rc-opt %s -p 'vdevice-attach-device{device=v100},roller-tile{policy=osdi22 tensor-core}' 2>&1 | filecheck %s --check-prefix=UNITS

// CHECK: roller-tile: the module does not say which device it is for
// POLICY: option 'policy' cannot be 'best'; choices: roller, osdi22
// SCORE: option 'score' cannot be 'best'; choices: intensity, paper
// BANKS: option 'pad-banks' cannot be '2'
// OTHER: roller-tile: score, pad-banks and tensor-core are of the published search: give policy=osdi22, too
// UNITS: roller-tile: device v100 has no matrix units that products are written for; leave tensor-core out
func.func @absolute(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = "rtask.operator"() ({
    %e = tensor.empty() : tensor<8xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
    ^bb0(%l: f32, %o: f32):
      %s = math.absf %l : f32
      linalg.yield %s : f32
    } -> tensor<8xf32>
    "rtask.yield"(%y) : (tensor<8xf32>) -> ()
  }) {kind = "elementwise", sym_name = "first"} : () -> tensor<8xf32>
  return %a : tensor<8xf32>
}
