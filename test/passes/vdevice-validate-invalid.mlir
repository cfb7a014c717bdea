// RUN: rc-opt %s -p vdevice-validate --split-input-file --verify-diagnostics

#id = affine_map<(d0) -> (d0)>

// A race: EU 1 reads what EU 0 writes, and does not wait for it.
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
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 128 : i64, type = tensor<32xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @abs, operator = "a", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@x, @t]} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @abs, operator = "b", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@t, @y]} : () -> ()
  }) {first = 1 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @device, arena = 128 : i64, constants = 0 : i64} : () -> ()
// expected-error@+1 {{operator b (rKernel abs), rTasks 0..1 on EU 1, instruction 0 reads t and may run before or during operator a}}
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<32xf32>}], rtask.outputs = [{dtype = "float32", name = "y0", type = tensor<32xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}

// -----

#id = affine_map<(d0) -> (d0)>

// A wait that comes too early in the count: one half of @t is there, the other may be missing.
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
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 128 : i64, type = tensor<32xf32>} : () -> ()
  "vdevice.event"() {sym_name = "made"} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @abs, operator = "a", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@x, @t]} : () -> ()
    "vdevice.signal"() {event = @made} : () -> ()
    "vdevice.wait"() {event = @made, count = 1 : i64} : () -> ()
    "vdevice.run"() {kernel = @abs, operator = "b", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@t, @y]} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @abs, operator = "a", first = 1 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@x, @t]} : () -> ()
    "vdevice.signal"() {event = @made} : () -> ()
  }) {first = 1 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @device, arena = 128 : i64, constants = 0 : i64} : () -> ()
// expected-error@+1 {{operator b (rKernel abs), rTasks 0..1 on EU 0, instruction 3 reads t and may run before or during operator a (rKernel abs), rTasks 1..1 on EU 1}}
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<32xf32>}], rtask.outputs = [{dtype = "float32", name = "y0", type = tensor<32xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}

// -----

#id = affine_map<(d0) -> (d0)>

// A deadlock: each EU waits for what the other one signals later.
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
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 128 : i64, type = tensor<32xf32>} : () -> ()
  "vdevice.event"() {sym_name = "a"} : () -> ()
  "vdevice.event"() {sym_name = "b"} : () -> ()
  "vdevice.eu"() ({
    "vdevice.wait"() {event = @b, count = 1 : i64} : () -> ()
    "vdevice.run"() {kernel = @abs, operator = "a", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@x, @t]} : () -> ()
    "vdevice.signal"() {event = @a} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
  "vdevice.eu"() ({
    "vdevice.wait"() {event = @a, count = 1 : i64} : () -> ()
    "vdevice.run"() {kernel = @abs, operator = "b", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@t, @y]} : () -> ()
    "vdevice.signal"() {event = @b} : () -> ()
  }) {first = 1 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @device, arena = 128 : i64, constants = 0 : i64} : () -> ()
// expected-error@+1 {{program main_0 deadlocks: EU 0 at place 0 waits for event b (0 of 1 signals), which EU 1 signals later; EU 1 at place 0 waits for event a}}
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<32xf32>}], rtask.outputs = [{dtype = "float32", name = "y0", type = tensor<32xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}

// -----

#id = affine_map<(d0) -> (d0)>

// A wait for ever: nobody signals so often.
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
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 128 : i64, type = tensor<32xf32>} : () -> ()
  "vdevice.event"() {sym_name = "a"} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @abs, operator = "a", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@x, @t]} : () -> ()
    "vdevice.signal"() {event = @a} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
  "vdevice.eu"() ({
    "vdevice.wait"() {event = @a, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @abs, operator = "b", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@t, @y]} : () -> ()
  }) {first = 1 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @device, arena = 128 : i64, constants = 0 : i64} : () -> ()
// expected-error@+1 {{EU 1 waits at place 0 until event a was signalled 2 times, but it is signalled only 1 times: it would wait for ever}}
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<32xf32>}], rtask.outputs = [{dtype = "float32", name = "y0", type = tensor<32xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}

// -----

#id = affine_map<(d0) -> (d0)>

// A clobber: @t and @u have common bytes, and nothing says which of them is over first.
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
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @abs, operator = "a", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@x, @t]} : () -> ()
    "vdevice.run"() {kernel = @abs, operator = "b", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@t, @y]} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @abs, operator = "c", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@x, @u]} : () -> ()
    "vdevice.run"() {kernel = @abs, operator = "d", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@u, @z]} : () -> ()
  }) {first = 1 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @device, arena = 128 : i64, constants = 0 : i64} : () -> ()
// expected-error@+1 {{writes t, but operator c (rKernel abs), rTasks 0..1 on EU 1, instruction 0 writes, in no order, u over it: bytes 0..127 of the same memory}}
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<32xf32>}], rtask.outputs = [{dtype = "float32", name = "y0", type = tensor<32xf32>}, {dtype = "float32", name = "y1", type = tensor<32xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}

// -----

#id = affine_map<(d0) -> (d0)>

// A clobber in one list: @u is made before @t is read.
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
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @abs, operator = "a", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@x, @t]} : () -> ()
    "vdevice.run"() {kernel = @abs, operator = "c", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@x, @u]} : () -> ()
    "vdevice.run"() {kernel = @abs, operator = "b", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@t, @y]} : () -> ()
    "vdevice.run"() {kernel = @abs, operator = "d", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@u, @z]} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
  "vdevice.eu"() ({
    ^bb0:
  }) {first = 1 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @device, arena = 128 : i64, constants = 0 : i64} : () -> ()
// expected-error@+1 {{operator b (rKernel abs), rTasks 0..1 on EU 0, instruction 2 reads t, but operator c}}
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<32xf32>}], rtask.outputs = [{dtype = "float32", name = "y0", type = tensor<32xf32>}, {dtype = "float32", name = "y1", type = tensor<32xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}

// -----

#id = affine_map<(d0) -> (d0)>

// An rTask that nobody runs.
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
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 128 : i64, type = tensor<32xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @abs, operator = "a", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@x, @t]} : () -> ()
    "vdevice.run"() {kernel = @abs, operator = "b", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@t, @y]} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
  "vdevice.eu"() ({
    ^bb0:
  }) {first = 1 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @device, arena = 128 : i64, constants = 0 : i64} : () -> ()
// expected-error@+1 {{operator b (rKernel abs): rTask 1 of 2 is run 0 times (1 such rTasks): each must run exactly once}}
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<32xf32>}], rtask.outputs = [{dtype = "float32", name = "y0", type = tensor<32xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}

// -----

#id = affine_map<(d0) -> (d0)>

// An output that nobody writes.
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
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 128 : i64, type = tensor<32xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @abs, operator = "a", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@x, @t]} : () -> ()
    "vdevice.run"() {kernel = @abs, operator = "b", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@t, @y]} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
  "vdevice.eu"() ({
    ^bb0:
  }) {first = 1 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @device, arena = 128 : i64, constants = 0 : i64} : () -> ()
// expected-error@+1 {{output 1 has 128 bytes, and no operator writes byte 0 of it}}
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<32xf32>}], rtask.outputs = [{dtype = "float32", name = "y0", type = tensor<32xf32>}, {dtype = "float32", name = "y1", type = tensor<32xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}

// -----

#id = affine_map<(d0) -> (d0)>

// An rKernel that reads more than it says: the proof would be worth nothing.
"vdevice.device"() {sym_name = "device", eus = 2 : i64} : () -> ()
// expected-error@+1 {{rKernel @abs: 'reads' is [[(0, 8, 0, 8)]], and should be [[(0, 16, 0, 16)]], by its body and tile}}
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
    order = array<i64: 0>, reads = [[array<i64: 0, 8, 0, 8>]], register_tile = array<i64: 4>, registers = 1 : i64, source = "hand",
    sym_name = "abs", tasks = 2 : i64, tile = array<i64: 16>, vector_dim = 0 : i64, writes = [[array<i64: 0, 16, 0, 16>]]} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 128 : i64, type = tensor<32xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 128 : i64, type = tensor<32xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @abs, operator = "a", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @y]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @device, arena = 128 : i64, constants = 0 : i64} : () -> ()
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<32xf32>}], rtask.outputs = [{dtype = "float32", name = "y0", type = tensor<32xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}

// -----

// What is no schedule yet.
// expected-error@+1 {{the module has no vdevice.device or no @main with rtask.inputs: it is not a schedule (S4)}}
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// The same where the kernel does not say that it reads each element before it writes it.
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
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, over = 0 : i64, offset = 0 : i64, bytes = 128 : i64, type = tensor<32xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @abs, operator = "a", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @y]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @device, arena = 0 : i64, constants = 0 : i64} : () -> ()
// expected-error@+1 {{operator a (rKernel abs), rTasks 0..0 on EU 0, instruction 0 reads x, but operator a (rKernel abs), rTasks 0..0 on EU 0, instruction 0 in place, writes y over it}}
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", state = "x", type = tensor<32xf32>}], rtask.outputs = [{dtype = "float32", name = "y", state = "x", type = tensor<32xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}

// -----

#id = affine_map<(d0) -> (d0)>

// What lies over an input is the next value of no state.
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
// expected-error@+1 {{output 0 lies over input 0, and they are not the next and the last value of one state}}
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<32xf32>}], rtask.outputs = [{dtype = "float32", name = "y", type = tensor<32xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}
