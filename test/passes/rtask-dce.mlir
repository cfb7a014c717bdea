// RUN: rc-opt %s -p rtask-dce | filecheck %s

// CHECK:     kernels = [@k_listed]
// CHECK:     sym_name = "k_listed"
// CHECK-NOT: "k_unused"
// CHECK:     kernel = @k_run
// CHECK:     sym_name = "k_run"
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %r = "rtask.operator"() ({
    "rtask.yield"(%x) : (tensor<8xf32>) -> ()
  }) {sym_name = "copy", kind = "movement", kernels = [@k_listed]} : () -> tensor<8xf32>
  return %r : tensor<8xf32>
}

"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k_listed", kind = "movement", grid = array<i64: 1>, tile = array<i64: 8>, register_tile = array<i64: 8>, vector_dim = 0 : i64, lanes = 8 : i64, tasks = 1 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 8, 0, 8>]], writes = [[array<i64: 0, 8, 0, 8>]]} : () -> ()

"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k_unused", kind = "movement", grid = array<i64: 1>, tile = array<i64: 8>, register_tile = array<i64: 8>, vector_dim = 0 : i64, lanes = 8 : i64, tasks = 1 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 8, 0, 8>]], writes = [[array<i64: 0, 8, 0, 8>]]} : () -> ()

"vdevice.device"() {sym_name = "cpu", eus = 1 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @k_run, operator = "copy", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@x, @y]} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
}) {sym_name = "main_0", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k_run", kind = "movement", grid = array<i64: 1>, tile = array<i64: 8>, register_tile = array<i64: 8>, vector_dim = 0 : i64, lanes = 8 : i64, tasks = 1 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 8, 0, 8>]], writes = [[array<i64: 0, 8, 0, 8>]]} : () -> ()
