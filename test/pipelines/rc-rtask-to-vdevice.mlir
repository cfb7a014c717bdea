// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v3-2.json},rc-rtask-to-vdevice' | filecheck %s
// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v3-2.json},rc-rtask-to-vdevice{eus=1 policy=wave kernels=fast}' | filecheck %s --check-prefix=ONE
// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v3-2.json},rc-rtask-to-vdevice{policy=dynamic}' | filecheck %s --check-prefix=TAKEN

#id = affine_map<(d0) -> (d0)>

// One rOperator becomes a kernel and a program on all EUs of the device, or as many as asked for.
// CHECK:       sym_name = "[[K:k_[0-9a-f]+]]"
// CHECK:       "vdevice.device"() {eus = 2 : i64
// CHECK:       "vdevice.run"() {{.*}}kernel = @[[K]], operator = "abs"
// CHECK:       "vdevice.launch"() {program = @main_0}
// ONE:         "vdevice.device"() {eus = 1 : i64
// TAKEN:       "vdevice.queue"
func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %a = "rtask.operator"() ({
    %e = tensor.empty() : tensor<1024xf32>
    %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<1024xf32>) outs(%e : tensor<1024xf32>) {
    ^bb0(%l: f32, %o: f32):
      %s = math.absf %l : f32
      linalg.yield %s : f32
    } -> tensor<1024xf32>
    "rtask.yield"(%y) : (tensor<1024xf32>) -> ()
  }) {kind = "elementwise", sym_name = "abs"} : () -> tensor<1024xf32>
  return %a : tensor<1024xf32>
}
