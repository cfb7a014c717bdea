// RUN: rc-opt %s -p 'rc-cpu{device=%{inputs}/v3-2.json}' | filecheck %s
// RUN: rc-opt %s -p 'rc-cpu{device=%{inputs}/v3-2.json to=rtask}' | filecheck %s --check-prefix=RTASK
// RUN: rc-opt %s -p 'rc-cpu{device=%{inputs}/v3-2.json to=rkernel fusion=false}' | filecheck %s --check-prefix=RKERNEL
// RUN: rc-opt %s -p 'rc-cpu{device=%{inputs}/v3-2.json normalise=false}' --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=DUMP
// RUN: rc-opt %s -p 'rc-cpu{device=%{inputs}/v3-2.json precision=bf16}' --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=HALVES
// RUN: not rc-opt %s -p 'rc-cpu{device=h200}' 2>&1 | filecheck %s --check-prefix=OTHER
// RUN: not rc-opt %s -p 'rc-cpu{device=%{inputs}/v3-2.json target=h200}' 2>&1 | filecheck %s --check-prefix=TARGET
// RUN: rc-opt %s -p 'rc-cpu{device=%{inputs}/v3-2.json target=cpu:x86-64}' | filecheck %s --check-prefix=FITTED
// RUN: rc-opt %s -p rc-cpu | filecheck %s --check-prefix=HOST

// HOST:        module attributes {vdevice.device = {{.*}}kind = "cpu"
// HOST:        "vdevice.program"
// CHECK:       module attributes {vdevice.device = {{.*}}target = "cpu:v3"}}
// CHECK:       "vdevice.program"
// RTASK:       "rtask.operator"
// RTASK-NOT:   "rtask.kernel"
// RKERNEL:     "rtask.kernel"
// RKERNEL-NOT: "vdevice.program"

// DUMP:        builtin.module(vdevice-attach-device{
// DUMP-SAME:   },rtask-widen-halves{operators=false sums=false bf16=false},cse,rtask-widen-factors{bf16=true},rtask-widen-bytes,rtask-block-channels{lanes=8 step-bytes=0},rtask-winograd{roots=auto},rtask-sink-reshapes,
// DUMP-SAME:   fold-constants,cse,rtask-form{fusion=true flat-rows=true apart=true},rtask-stitch,
// DUMP-SAME:   ,rtask-widen-halves{operators=true sums=false bf16=true},
// DUMP-SAME:   fold-constants,rtask-update-state,rtask-guard,roller-tile{{.*}},rammer-schedule{{.*}})

// HALVES:      vdevice-attach-device{
// HALVES-SAME: },cse,rtask-round-factors{to=bf16 weights=true},cse,rtask-round-tables{to=bf16},cse,fold-constants,

// OTHER:       rc-cpu: device {{.*}} is of kind cuda; run rc-gpu
// TARGET:      rc-cpu: target 'h200' is of kind cuda; run rc-gpu
// Of a device with more features than the target has, those of the target count.
// FITTED:      vdevice.device = {figures = {{.*}}name = "{{.*}} as x86-64"{{.*}}target = "cpu:x86-64"
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
