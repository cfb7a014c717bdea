// RUN: rc-opt %s -p 'rc-gpu{device=h200}' | filecheck %s
// RUN: rc-opt %s -p rc-gpu | filecheck %s
// RUN: rc-opt %s -p 'rc-gpu{device=h200 to=rtask}' | filecheck %s --check-prefix=RTASK
// RUN: rc-opt %s -p 'rc-gpu{device=h200 precision=f16}' --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=HALF
// RUN: rc-opt %s -p 'rc-gpu{device=a100}' --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=BYTES
// RUN: rc-opt %s -p 'rc-gpu{device=v100}' --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=OLD
// RUN: rc-opt %s -p 'rc-gpu{device=mi300x}' --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=AMD
// RUN: not rc-opt %s -p 'rc-gpu{device=epyc-9555}' 2>&1 | filecheck %s --check-prefix=OTHER

// CHECK:     module attributes {vdevice.device = {{.*}}target = "cuda:sm_90a"}}
// CHECK:     scf.forall (%{{.*}}) in (8) shared_outs
// CHECK:     "vdevice.program"
// RTASK:     "rtask.operator"
// RTASK-NOT: "rtask.kernel"

// Factors are rounded before anything else, and what is packed is expanded again. Bytes go to matrix units whatever
// the precision of floats.
// HALF:      },rtask-widen-halves{operators=false sums=true bf16=false},cse,rtask-round-factors{to=f16 weights=false},cse,fold-constants,cse,rtask-batch-products,
// HALF-SAME: rtask-winograd{roots=direct}
// HALF-SAME: halves=false of-bytes=false lines=true},cse,rtask-expand-products{bytes-only=false},rtask-turn-bytes,rtask-split-k
// HALF-SAME: ,rtask-widen-halves{operators=true sums=false bf16=true},
// HALF-SAME: fold-constants,rtask-update-state,roller-tile
// HALF-SAME: ,vdevice-pin,vdevice-prefetch,roller-tile-tasks{by-threads=true},roller-tile-threads{threads=0},roller-tidy-tasks)
// BYTES-NOT: rtask-round-factors
// BYTES:     rtask-merge-siblings,cse,rtask-expand-products{bytes-only=true},cse,rtask-block-channels
// BYTES:     halves=true of-bytes=false lines=true},rtask-expand-products{bytes-only=true},rtask-turn-bytes,rtask-split-k
// OLD:       },cse,rtask-batch-products,
// OLD-SAME:  halves=true of-bytes=true lines=true},rtask-split-k
// OLD-SAME:  ,vdevice-pin,vdevice-prefetch,roller-tile-tasks{by-threads=true},roller-tile-threads{threads=0},roller-tidy-tasks)
// AMD:       rammer-schedule{policy=rammer eus=0 kernels=auto memory=auto},roller-tile-tasks{by-threads=true},roller-tile-threads{threads=0},roller-tidy-tasks)

// OTHER:     rc-gpu: device {{.*}} is a CPU; run rc-cpu
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = math.absf %l : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %a : tensor<8xf32>
}
