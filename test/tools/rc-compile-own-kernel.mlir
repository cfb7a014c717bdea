// A kernel of the user's own in a schedule: its body is that of one task, in vectors that it names itself. It computes
// relu(x + bias) for 4 rows of 8, in two tasks; rc-compile proves that each element is written once, and takes it as it is.
// RUN: rc-compile %s -o %t.rcx
// RUN: %{python} -c "import numpy, rcompiler; x = numpy.arange(-32, 32, dtype='f4').reshape(8, 8); b = numpy.arange(8, dtype='f4'); (y,) = rcompiler.load('%t.rcx')(x, b); assert (y == numpy.maximum(x + b, 0)).all()"
// RUN: rc-compile %s --emit=llvm | filecheck %s
// CHECK: llvm.func @mine
// CHECK: llvm.load {{.*}}vector<4xf32>
// CHECK: llvm.store {{.*}}vector<4xf32>

// What is wrong in it is refused, with the task and the place: here a row of the task before.
// RUN: sed 's/affine_map<(t) -> (t \* 4)>/affine_map<(t) -> (t * 3)>/' %s > %t.gap.mlir
// RUN: not rc-compile %t.gap.mlir -o %t.gap.rcx 2>&1 | filecheck %s --check-prefix=GAP
// GAP: rKernel @mine: task [1] touches 3 ... 3 in dim 0 of operand 0, and 'reads' says 4 ... 7
// RUN: sed 's/%bias\[%j\]/%bias[%end]/' %s > %t.outside.mlir
// RUN: not rc-compile %t.outside.mlir -o %t.outside.rcx 2>&1 | filecheck %s --check-prefix=OUTSIDE
// OUTSIDE: rKernel @mine: task [0] vector.transfer_read goes from {{.*}} in dim 0 of a tensor of 8
// RUN: sed 's/bias: tensor<8xf32>/bias: tensor<8xf64>/' %s > %t.types.mlir
// RUN: not rc-compile %t.types.mlir -o %t.types.rcx 2>&1 | filecheck %s --check-prefix=TYPES
// TYPES: the schedule is not valid
// TYPES: tensor<8xf64>
// RUN: sed '/rtask.yield/d' %s > %t.yield.mlir
// RUN: not rc-compile %t.yield.mlir -o %t.yield.rcx 2>&1 | filecheck %s --check-prefix=YIELD
// YIELD: the schedule is not valid
// RUN: sed 's/grid = array<i64: 2>/&, in_place = array<i64: 0, 0>/' %s > %t.place.mlir
// RUN: not rc-compile %t.place.mlir -o %t.place.rcx 2>&1 | filecheck %s --check-prefix=PLACE
// PLACE: 'in_place' is not proved of a body in vectors
#rows = affine_map<(t) -> (t * 4)>
#row = affine_map<(first, i) -> (first + i)>
module attributes {vdevice.device = {figures = {compute = {fma_latency = 4 : i64, fma_ports = 2 : i64, ghz = 3.900000e+00 : f64, load_ports = 2 : i64, matrix = {}, partitions = 1 : i64, peaks = {}, registers = 16 : i64, vector_bytes = 16 : i64, warp = 1 : i64, window = 2.600000e+02 : f64}, costs = {barrier_ns = 2.000000e+02 : f64, hand_off_ns = 2.000000e+02 : f64, launch_ns = 5.000000e+02 : f64, min_task_ns = 5.000000e+03 : f64, signals = true, step_ns = 5.000000e+00 : f64, task_ns = 5.000000e+01 : f64}, eus = 2 : i64, features = [], format = "rcompiler-device-1", kind = "cpu", level_name = "x86-64", measured = true, memory = [{bandwidth = 5.000000e+02 : f64, capacity = 49152 : i64, line = 64 : i64, name = "L1", shared_bandwidth = 5.000000e+02 : f64, shared_by = 1 : i64, ways = 12 : i64}, {bandwidth = 1.800000e+02 : f64, capacity = 1048576 : i64, feed = 1.800000e+02 : f64, line = 64 : i64, name = "L2", shared_bandwidth = 1.800000e+02 : f64, shared_by = 1 : i64, ways = 16 : i64}, {bandwidth = 1.100000e+02 : f64, capacity = 33554432 : i64, line = 64 : i64, name = "L3", shared_bandwidth = 2.100000e+02 : f64, shared_by = 2 : i64, ways = 16 : i64}, {bandwidth = 4.700000e+01 : f64, capacity = 17179869184 : i64, line = 64 : i64, name = "DRAM", shared_bandwidth = 5.800000e+01 : f64, shared_by = 2 : i64, ways = 1 : i64}], name = "zen5-2 as x86-64"}, precision = "f32", target = "cpu:x86-64"}} {
  "rtask.kernel"() ({
  ^bb0(%x: tensor<8x8xf32>, %bias: tensor<8xf32>, %out: tensor<8x8xf32>, %task: index):
    %zero = arith.constant 0.0 : f32
    %zeros = arith.constant dense<0.0> : vector<4xf32>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %end = arith.constant 8 : index
    %first = affine.apply #rows(%task)
    %done = scf.for %i = %c0 to %c4 step %c1 iter_args(%rows = %out) -> (tensor<8x8xf32>) {
      %r = affine.apply #row(%first, %i)
      %row = scf.for %j = %c0 to %end step %c4 iter_args(%tiles = %rows) -> (tensor<8x8xf32>) {
        %a = vector.transfer_read %x[%r, %j], %zero {in_bounds = [true]} : tensor<8x8xf32>, vector<4xf32>
        %b = vector.transfer_read %bias[%j], %zero {in_bounds = [true]} : tensor<8xf32>, vector<4xf32>
        %sum = arith.addf %a, %b : vector<4xf32>
        %y = arith.maximumf %sum, %zeros : vector<4xf32>
        %tile = vector.transfer_write %y, %tiles[%r, %j] {in_bounds = [true]} : vector<4xf32>, tensor<8x8xf32>
        scf.yield %tile : tensor<8x8xf32>
      }
      scf.yield %row : tensor<8x8xf32>
    }
    "rtask.yield"(%done) : (tensor<8x8xf32>) -> ()
  }) {estimated_ns = 10.0 : f64, grid = array<i64: 2>, kind = "elementwise", lanes = 4 : i64, on_chip_bytes = 0 : i64, reads = [[array<i64: 0, 4, 0, 4>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1>, registers = 3 : i64, source = "by hand", sym_name = "mine", tasks = 2 : i64, tile = array<i64: 4>, vector_dim = -1 : i64, writes = [[array<i64: 0, 4, 0, 4>, array<i64: -1, 0, 0, 0>]]} : () -> ()
  "vdevice.device"() {eus = 2 : i64, sym_name = "device"} : () -> ()
  "vdevice.program"() ({
    "vdevice.buffer"() {bytes = 256 : i64, index = 0 : i64, kind = "input", offset = 0 : i64, sym_name = "in0", type = tensor<8x8xf32>} : () -> ()
    "vdevice.buffer"() {bytes = 32 : i64, index = 1 : i64, kind = "input", offset = 0 : i64, sym_name = "in1", type = tensor<8xf32>} : () -> ()
    "vdevice.buffer"() {bytes = 256 : i64, index = 0 : i64, kind = "output", offset = 0 : i64, sym_name = "relu", type = tensor<8x8xf32>} : () -> ()
    "vdevice.eu"() ({
      "vdevice.run"() {buffers = [@in0, @in1, @relu], count = 1 : i64, eu_step = 1 : i64, first = 0 : i64, kernel = @mine, operator = "relu", stride = 1 : i64} : () -> ()
    }) {first = 0 : i64, last = 1 : i64} : () -> ()
  }) {arena = 0 : i64, arena_bound = 0 : i64, constants = 0 : i64, device = @device, sym_name = "main_0"} : () -> ()
  func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<8x8xf32>}, {dtype = "float32", name = "bias", type = tensor<8xf32>}], rtask.outputs = [{dtype = "float32", name = "y", type = tensor<8x8xf32>}]} {
    "vdevice.launch"() {program = @main_0} : () -> ()
    return
  }
}
