// RUN: rc-opt %s -p vdevice-validate --split-input-file -o %t
// RUN: rc-opt %s --split-input-file | diff - %t
// RUN: filecheck %s < %t

#id = affine_map<(d0) -> (d0)>

// A proved schedule stays as it is. EU 1 runs @b on what both EUs made of @t, so it waits for EU 0's half;
// @c makes @u at the bytes of @t, so it comes after the barrier.
// CHECK:      "vdevice.program"()
// CHECK:        "vdevice.signal"() {event = @made}
// CHECK-NEXT:   "vdevice.barrier"()
// CHECK-NEXT:   "vdevice.run"() {{.*}}operator = "c"
// CHECK:        "vdevice.wait"() {count = 1 : i64, event = @made}
// CHECK-NEXT:   "vdevice.run"() {{.*}}operator = "b"
// CHECK:      "vdevice.launch"() {program = @main_0}
"vdevice.device"() {sym_name = "device", eus = 2 : i64} : () -> ()
"rtask.kernel"() ({
^bb0(%x: tensor<32xf32>):
  %e = tensor.empty() : tensor<32xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<32xf32>) outs(%e : tensor<32xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = math.absf %l : f32
    linalg.yield %s : f32
  } -> tensor<32xf32>
  "rtask.yield"(%y) : (tensor<32xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 2>, kind = "elementwise", lanes = 4 : i64, on_chip_bytes = 128 : i64,
    order = array<i64: 0>, reads = [[array<i64: 0, 16, 0, 16>]], register_tile = array<i64: 4>, registers = 1 : i64, source = "hand",
    sym_name = "abs", tasks = 2 : i64, tile = array<i64: 16>, vector_dim = 0 : i64, writes = [[array<i64: 0, 16, 0, 16>]]} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 128 : i64, type = tensor<32xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "t", kind = "temp", offset = 0 : i64, bytes = 128 : i64, type = tensor<32xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "u", kind = "temp", offset = 0 : i64, bytes = 128 : i64, type = tensor<32xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 128 : i64, type = tensor<32xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "z", kind = "output", index = 1 : i64, offset = 0 : i64, bytes = 128 : i64, type = tensor<32xf32>} : () -> ()
  "vdevice.event"() {sym_name = "made"} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @abs, operator = "a", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@x, @t]} : () -> ()
    "vdevice.signal"() {event = @made} : () -> ()
    "vdevice.barrier"() : () -> ()
    "vdevice.run"() {kernel = @abs, operator = "c", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@x, @u]} : () -> ()
    "vdevice.run"() {kernel = @abs, operator = "d", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@u, @z]} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @abs, operator = "a", first = 1 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@x, @t]} : () -> ()
    "vdevice.wait"() {event = @made, count = 1 : i64} : () -> ()
    "vdevice.run"() {kernel = @abs, operator = "b", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@t, @y]} : () -> ()
    "vdevice.barrier"() : () -> ()
  }) {first = 1 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @device, arena = 128 : i64, constants = 0 : i64} : () -> ()
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<32xf32>}], rtask.outputs = [{dtype = "float32", name = "y0", type = tensor<32xf32>}, {dtype = "float32", name = "y1", type = tensor<32xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}

// -----

#id = affine_map<(d0) -> (d0)>

// Launches come one after the other: no event between them. The second one is made of queues that the EUs take.
// CHECK:      "vdevice.queue"()
// CHECK:      "vdevice.launch"() {program = @main_1}
"vdevice.device"() {sym_name = "device", eus = 2 : i64} : () -> ()
"rtask.kernel"() ({
^bb0(%x: tensor<32xf32>):
  %e = tensor.empty() : tensor<32xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<32xf32>) outs(%e : tensor<32xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = math.absf %l : f32
    linalg.yield %s : f32
  } -> tensor<32xf32>
  "rtask.yield"(%y) : (tensor<32xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 2>, kind = "elementwise", lanes = 4 : i64, on_chip_bytes = 128 : i64,
    order = array<i64: 0>, reads = [[array<i64: 0, 16, 0, 16>]], register_tile = array<i64: 4>, registers = 1 : i64, source = "hand",
    sym_name = "abs", tasks = 2 : i64, tile = array<i64: 16>, vector_dim = 0 : i64, writes = [[array<i64: 0, 16, 0, 16>]]} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 128 : i64, type = tensor<32xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "t", kind = "temp", offset = 0 : i64, bytes = 128 : i64, type = tensor<32xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @abs, operator = "a", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @t]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @device, arena = 256 : i64, constants = 0 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "t", kind = "temp", offset = 0 : i64, bytes = 128 : i64, type = tensor<32xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "u", kind = "temp", offset = 128 : i64, bytes = 128 : i64, type = tensor<32xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 128 : i64, type = tensor<32xf32>} : () -> ()
  "vdevice.event"() {sym_name = "half"} : () -> ()
  "vdevice.queue"() ({
    "vdevice.run"() {kernel = @abs, operator = "b", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@t, @u]} : () -> ()
    "vdevice.signal"() {event = @half} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
  "vdevice.queue"() ({
    "vdevice.wait"() {event = @half, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @abs, operator = "c", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@u, @y]} : () -> ()
  }) {first = 2 : i64, last = 3 : i64} : () -> ()
}) {sym_name = "main_1", device = @device, arena = 256 : i64, constants = 0 : i64} : () -> ()
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<32xf32>}], rtask.outputs = [{dtype = "float32", name = "y0", type = tensor<32xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  "vdevice.launch"() {program = @main_1} : () -> ()
  return
}

// -----

#id = affine_map<(d0) -> (d0)>

// The next value of a state is written in the place of the last one, element by element as it is read.
// CHECK:      "vdevice.buffer"() {{.*}}kind = "output", offset = 0 : i64, over = 0 : i64
"vdevice.device"() {sym_name = "device", eus = 2 : i64} : () -> ()
"rtask.kernel"() ({
^bb0(%x: tensor<32xf32>):
  %e = tensor.empty() : tensor<32xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<32xf32>) outs(%e : tensor<32xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = math.absf %l : f32
    linalg.yield %s : f32
  } -> tensor<32xf32>
  "rtask.yield"(%y) : (tensor<32xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 2>, in_place = array<i64: 0, 0>, kind = "elementwise", lanes = 4 : i64, on_chip_bytes = 128 : i64,
    order = array<i64: 0>, reads = [[array<i64: 0, 16, 0, 16>]], register_tile = array<i64: 4>, registers = 1 : i64, source = "hand",
    sym_name = "abs", tasks = 2 : i64, tile = array<i64: 16>, vector_dim = 0 : i64, writes = [[array<i64: 0, 16, 0, 16>]]} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 128 : i64, type = tensor<32xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, over = 0 : i64, offset = 0 : i64, bytes = 128 : i64, type = tensor<32xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @abs, operator = "a", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @y]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @device, arena = 0 : i64, constants = 0 : i64} : () -> ()
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", state = "x", type = tensor<32xf32>}], rtask.outputs = [{dtype = "float32", name = "y", state = "x", type = tensor<32xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}
