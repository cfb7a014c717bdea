// RUN: rc-opt %s -p 'vdevice-attach-device{device=cuda:sm_80}' -o %t.mlir
// RUN: rc-compile %t.mlir --no-machine-code --emit=ptx | filecheck %s
// RUN: rc-opt %s -p 'vdevice-attach-device{device=cuda:sm_90a}' -o %t.mlir
// RUN: rc-compile %t.mlir --no-machine-code --emit=ptx | filecheck %s
// RUN: rc-opt %s -p 'vdevice-attach-device{device=rocm:gfx90a}' -o %t.mlir
// RUN: rc-compile %t.mlir --no-machine-code --emit=amdgcn | filecheck %s --check-prefix AMD

// Two of the eight warps of a block have anything to do: only they meet between the stages of a task, at a barrier that
// is not that of the block. The others go on to where the block meets.

// CHECK:       .func k_gates(
// CHECK:       setp.{{[a-z.0-9]+}} %p1, %r{{[0-9]+}}, 63;
// CHECK-NEXT:  @%p1 bra [[END:[$]L__BB[0-9_]+]];
// CHECK:       bar.sync 1, 64;
// CHECK:       st.shared
// CHECK-NOT:   bar.
// CHECK:       st.shared
// CHECK:       bar.sync 1, 64;
// CHECK:       ld.shared
// CHECK-NOT:   bar.
// CHECK:       [[END]]:
// CHECK-NEXT:  ret;
// CHECK:       .visible .entry veu(
// CHECK-NOT:   bar.sync 1
// CHECK:       bar.sync 0;
// CHECK-NOT:   bar.sync 1

// All warps come to a barrier of AMD's.
// AMD:         {{^}}k_gates:
// AMD-COUNT-2: s_barrier
// AMD:         s_setpc_b64
#row = affine_map<(m, n) -> (m, n)>

"rtask.kernel"() ({
^bb0(%x: tensor<1x32xf32>):
  %e = tensor.empty() : tensor<1x32xf32>
  %p = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1x32xf32>) outs(%e : tensor<1x32xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = math.absf %l : f32
    linalg.yield %s : f32
  } -> tensor<1x32xf32>
  %k = "rtask.stage"(%p) {axes = array<i64: 0, 1>, register_tile = array<i64: 1, 32>, order = array<i64: 0, 1>, vector_dim = 1 : i64, lanes = 32 : i64} : (tensor<1x32xf32>) -> tensor<1x32xf32>
  %q = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1x32xf32>) outs(%e : tensor<1x32xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = arith.negf %l : f32
    linalg.yield %s : f32
  } -> tensor<1x32xf32>
  %g = "rtask.stage"(%q) {axes = array<i64: 0, 1>, register_tile = array<i64: 1, 32>, order = array<i64: 0, 1>, vector_dim = 1 : i64, lanes = 32 : i64} : (tensor<1x32xf32>) -> tensor<1x32xf32>
  %y = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel", "parallel"]} ins(%k, %g : tensor<1x32xf32>, tensor<1x32xf32>) outs(%e : tensor<1x32xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<1x32xf32>
  "rtask.yield"(%y) : (tensor<1x32xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1, 1>, kind = "elementwise", lanes = 32 : i64, on_chip_bytes = 96 : i64,
    order = array<i64: 0, 1>, reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 32>,
    registers = 1 : i64, source = "test", sym_name = "k_gates", tasks = 1 : i64, tile = array<i64: 1, 32>, vector_dim = 1 : i64,
    writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()
"vdevice.device"() {eus = 1 : i64, sym_name = "device"} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {bytes = 128 : i64, index = 0 : i64, kind = "input", offset = 0 : i64, sym_name = "in0", type = tensor<1x32xf32>} : () -> ()
  "vdevice.buffer"() {bytes = 128 : i64, index = 0 : i64, kind = "output", offset = 0 : i64, sym_name = "out0", type = tensor<1x32xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {buffers = [@in0, @out0], count = 1 : i64, eu_step = 1 : i64, first = 0 : i64, kernel = @k_gates, operator = "gates", stride = 1 : i64} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
}) {arena = 0 : i64, arena_bound = 0 : i64, constants = 0 : i64, device = @device, sym_name = "main_0"} : () -> ()
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<1x32xf32>}], rtask.outputs = [{dtype = "float32", name = "y", type = tensor<1x32xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}
