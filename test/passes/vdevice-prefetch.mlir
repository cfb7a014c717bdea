// RUN: rc-opt %s -p 'vdevice-attach-device{device=h200},vdevice-prefetch' --split-input-file | filecheck %s
// RUN: rc-opt %s -p 'vdevice-attach-device{device=h200},vdevice-prefetch,vdevice-validate' --split-input-file -o /dev/null
// RUN: rc-opt %s -p 'vdevice-attach-device{device=h200},vdevice-prefetch,vdevice-to-gpu' --split-input-file | filecheck %s --check-prefix=GPU
// RUN: rc-opt %s -p 'vdevice-attach-device{device=cpu},vdevice-prefetch' --split-input-file | filecheck %s --check-prefix=CPU

#id = affine_map<(d0) -> (d0)>

// In front of the waits of the run before; nothing comes before the first run. A task asks for its
// part of an operand, 4 KiB in sectors of 32 bytes.
// CHECK:      "rtask.kernel"() ({
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<2048xf32>):
// CHECK-NEXT:   %[[NONE:.*]] = builtin.unrealized_conversion_cast to tuple<>
// CHECK-NEXT:   "rtask.yield"(%[[NONE]])
// CHECK-NEXT: }) {{{.*}}grid = array<i64: 2>, kind = "prefetch", {{.*}}reads = {{\[\[}}array<i64: 0, 1024, 0, 1024>]], {{.*}}sym_name = "[[P:p_[0-9a-f]+]]", {{.*}}writes = []}
// CHECK-NOT:  kind = "prefetch"
// CHECK:      "vdevice.eu"() ({
// CHECK-NEXT:   "vdevice.run"() {buffers = [@w_b], count = 1 : i64, eu_step = 1 : i64, first = 0 : i64, kernel = @[[P]], operator = "b.prefetch", stride = 1 : i64}
// CHECK-NEXT:   "vdevice.run"() {{.*}}operator = "a",
// CHECK-NEXT:   "vdevice.signal"() {event = @e}
// CHECK-NEXT:   "vdevice.run"() {buffers = [@w_c], {{.*}}operator = "c.prefetch",
// CHECK-NEXT:   "vdevice.wait"() {{.*}}event = @e
// CHECK-NEXT:   "vdevice.run"() {{.*}}operator = "b",
// CHECK-NEXT:   "vdevice.signal"() {event = @f}
// CHECK-NEXT:   "vdevice.wait"() {{.*}}event = @f
// CHECK-NEXT:   "vdevice.run"() {{.*}}operator = "c",
// CHECK-NEXT: }) {first = 0 : i64, last = 1 : i64}
// GPU-LABEL: func.func private @p_
// GPU:         %[[LAST:.*]] = arith.constant 8191 : i64
// GPU:         scf.for
// GPU:           %[[SECTORS:.*]] = arith.constant 128 : i64
// GPU:           scf.for %{{.*}} = %{{.*}} to %[[SECTORS]]
// GPU:             %[[AT:.*]] = arith.minsi %{{.*}}, %[[LAST]] : i64
// GPU:             %[[ADDRESS:.*]] = llvm.getelementptr %{{.*}}[%[[AT]]]
// GPU:             llvm.inline_asm has_side_effects "prefetch.global.L2 [$0];", "l" %[[ADDRESS]]
// CPU-NOT: prefetch
"vdevice.device"() {sym_name = "device", eus = 2 : i64} : () -> ()
"rtask.kernel"() ({
^bb0(%x: tensor<2048xf32>, %w: tensor<2048xf32>):
  %e = tensor.empty() : tensor<2048xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %w : tensor<2048xf32>, tensor<2048xf32>) outs(%e : tensor<2048xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.mulf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<2048xf32>
  "rtask.yield"(%y) : (tensor<2048xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 2>, kind = "elementwise", lanes = 4 : i64, on_chip_bytes = 128 : i64,
    order = array<i64: 0>, reads = [[array<i64: 0, 1024, 0, 1024>], [array<i64: 0, 1024, 0, 1024>]], register_tile = array<i64: 4>, registers = 1 : i64, source = "hand",
    sym_name = "mul", tasks = 2 : i64, tile = array<i64: 1024>, vector_dim = 0 : i64, writes = [[array<i64: 0, 1024, 0, 1024>]]} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", offset = 0 : i64, bytes = 8192 : i64, type = tensor<2048xf32>, index = 0 : i64} : () -> ()
  "vdevice.buffer"() {sym_name = "w_a", kind = "constant", offset = 0 : i64, bytes = 8192 : i64, type = tensor<2048xf32>, value = dense<1.0> : tensor<2048xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "w_b", kind = "constant", offset = 8192 : i64, bytes = 8192 : i64, type = tensor<2048xf32>, value = dense<2.0> : tensor<2048xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "w_c", kind = "constant", offset = 16384 : i64, bytes = 8192 : i64, type = tensor<2048xf32>, value = dense<3.0> : tensor<2048xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "t", kind = "temp", offset = 0 : i64, bytes = 8192 : i64, type = tensor<2048xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "u", kind = "temp", offset = 8192 : i64, bytes = 8192 : i64, type = tensor<2048xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", offset = 0 : i64, bytes = 8192 : i64, type = tensor<2048xf32>, index = 0 : i64} : () -> ()
  "vdevice.event"() {sym_name = "e"} : () -> ()
  "vdevice.event"() {sym_name = "f"} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @mul, operator = "a", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @w_a, @t]} : () -> ()
    "vdevice.signal"() {event = @e} : () -> ()
    "vdevice.wait"() {event = @e, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @mul, operator = "b", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@t, @w_b, @u]} : () -> ()
    "vdevice.signal"() {event = @f} : () -> ()
    "vdevice.wait"() {event = @f, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @mul, operator = "c", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@u, @w_c, @y]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @device, arena = 16384 : i64, constants = 60000000 : i64} : () -> ()
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<2048xf32>}], rtask.outputs = [{dtype = "float32", name = "y0", type = tensor<2048xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}
// -----

#id = affine_map<(d0) -> (d0)>

// Weights that stay in the last cache.
// CHECK: "vdevice.device"
// CHECK-NOT: prefetch
// CHECK: func.func @main
"vdevice.device"() {sym_name = "device", eus = 2 : i64} : () -> ()
"rtask.kernel"() ({
^bb0(%x: tensor<2048xf32>, %w: tensor<2048xf32>):
  %e = tensor.empty() : tensor<2048xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %w : tensor<2048xf32>, tensor<2048xf32>) outs(%e : tensor<2048xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.mulf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<2048xf32>
  "rtask.yield"(%y) : (tensor<2048xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 2>, kind = "elementwise", lanes = 4 : i64, on_chip_bytes = 128 : i64,
    order = array<i64: 0>, reads = [[array<i64: 0, 1024, 0, 1024>], [array<i64: 0, 1024, 0, 1024>]], register_tile = array<i64: 4>, registers = 1 : i64, source = "hand",
    sym_name = "mul", tasks = 2 : i64, tile = array<i64: 1024>, vector_dim = 0 : i64, writes = [[array<i64: 0, 1024, 0, 1024>]]} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", offset = 0 : i64, bytes = 8192 : i64, type = tensor<2048xf32>, index = 0 : i64} : () -> ()
  "vdevice.buffer"() {sym_name = "w_a", kind = "constant", offset = 0 : i64, bytes = 8192 : i64, type = tensor<2048xf32>, value = dense<1.0> : tensor<2048xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "w_b", kind = "constant", offset = 8192 : i64, bytes = 8192 : i64, type = tensor<2048xf32>, value = dense<2.0> : tensor<2048xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "w_c", kind = "constant", offset = 16384 : i64, bytes = 8192 : i64, type = tensor<2048xf32>, value = dense<3.0> : tensor<2048xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "t", kind = "temp", offset = 0 : i64, bytes = 8192 : i64, type = tensor<2048xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "u", kind = "temp", offset = 8192 : i64, bytes = 8192 : i64, type = tensor<2048xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", offset = 0 : i64, bytes = 8192 : i64, type = tensor<2048xf32>, index = 0 : i64} : () -> ()
  "vdevice.event"() {sym_name = "e"} : () -> ()
  "vdevice.event"() {sym_name = "f"} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @mul, operator = "a", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @w_a, @t]} : () -> ()
    "vdevice.signal"() {event = @e} : () -> ()
    "vdevice.wait"() {event = @e, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @mul, operator = "b", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@t, @w_b, @u]} : () -> ()
    "vdevice.signal"() {event = @f} : () -> ()
    "vdevice.wait"() {event = @f, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @mul, operator = "c", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@u, @w_c, @y]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @device, arena = 16384 : i64, constants = 24576 : i64} : () -> ()
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<2048xf32>}], rtask.outputs = [{dtype = "float32", name = "y0", type = tensor<2048xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}
// -----

#id = affine_map<(d0) -> (d0)>

// Weights of two operators; those of the third are asked for.
// CHECK: "vdevice.eu"() ({
// CHECK-NEXT:   "vdevice.run"() {{.*}}operator = "a",
// CHECK-NEXT:   "vdevice.signal"() {event = @e}
// CHECK-NEXT:   "vdevice.run"() {buffers = [@w_c], {{.*}}operator = "c.prefetch",
// CHECK-NOT:    prefetch
// CHECK: func.func @main
"vdevice.device"() {sym_name = "device", eus = 2 : i64} : () -> ()
"rtask.kernel"() ({
^bb0(%x: tensor<2048xf32>, %w: tensor<2048xf32>):
  %e = tensor.empty() : tensor<2048xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %w : tensor<2048xf32>, tensor<2048xf32>) outs(%e : tensor<2048xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.mulf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<2048xf32>
  "rtask.yield"(%y) : (tensor<2048xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 2>, kind = "elementwise", lanes = 4 : i64, on_chip_bytes = 128 : i64,
    order = array<i64: 0>, reads = [[array<i64: 0, 1024, 0, 1024>], [array<i64: 0, 1024, 0, 1024>]], register_tile = array<i64: 4>, registers = 1 : i64, source = "hand",
    sym_name = "mul", tasks = 2 : i64, tile = array<i64: 1024>, vector_dim = 0 : i64, writes = [[array<i64: 0, 1024, 0, 1024>]]} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", offset = 0 : i64, bytes = 8192 : i64, type = tensor<2048xf32>, index = 0 : i64} : () -> ()
  "vdevice.buffer"() {sym_name = "w_a", kind = "constant", offset = 0 : i64, bytes = 8192 : i64, type = tensor<2048xf32>, value = dense<1.0> : tensor<2048xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "w_b", kind = "constant", offset = 8192 : i64, bytes = 8192 : i64, type = tensor<2048xf32>, value = dense<2.0> : tensor<2048xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "w_c", kind = "constant", offset = 16384 : i64, bytes = 8192 : i64, type = tensor<2048xf32>, value = dense<3.0> : tensor<2048xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "t", kind = "temp", offset = 0 : i64, bytes = 8192 : i64, type = tensor<2048xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "u", kind = "temp", offset = 8192 : i64, bytes = 8192 : i64, type = tensor<2048xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", offset = 0 : i64, bytes = 8192 : i64, type = tensor<2048xf32>, index = 0 : i64} : () -> ()
  "vdevice.event"() {sym_name = "e"} : () -> ()
  "vdevice.event"() {sym_name = "f"} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @mul, operator = "a", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @w_a, @t]} : () -> ()
    "vdevice.signal"() {event = @e} : () -> ()
    "vdevice.wait"() {event = @e, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @mul, operator = "b", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@t, @w_a, @u]} : () -> ()
    "vdevice.signal"() {event = @f} : () -> ()
    "vdevice.wait"() {event = @f, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @mul, operator = "c", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@u, @w_c, @y]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @device, arena = 16384 : i64, constants = 60000000 : i64} : () -> ()
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<2048xf32>}], rtask.outputs = [{dtype = "float32", name = "y0", type = tensor<2048xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}
// -----

#id = affine_map<(d0) -> (d0)>

// What runs in a loop. Behind it, what comes next is asked for while the block waits.
// CHECK: "vdevice.eu"() ({
// CHECK-NEXT:   "vdevice.run"() {{.*}}operator = "a",
// CHECK-NOT:    prefetch
// CHECK:        count = 1 : i64} : () -> ()
// CHECK-NEXT:   "vdevice.run"() {buffers = [@w_c], {{.*}}operator = "c.prefetch",
// CHECK-NEXT:   "vdevice.signal"() {event = @f}
// CHECK: func.func @main
"vdevice.device"() {sym_name = "device", eus = 2 : i64} : () -> ()
"rtask.kernel"() ({
^bb0(%x: tensor<2048xf32>, %w: tensor<2048xf32>):
  %e = tensor.empty() : tensor<2048xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %w : tensor<2048xf32>, tensor<2048xf32>) outs(%e : tensor<2048xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.mulf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<2048xf32>
  "rtask.yield"(%y) : (tensor<2048xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 2>, kind = "elementwise", lanes = 4 : i64, on_chip_bytes = 128 : i64,
    order = array<i64: 0>, reads = [[array<i64: 0, 1024, 0, 1024>], [array<i64: 0, 1024, 0, 1024>]], register_tile = array<i64: 4>, registers = 1 : i64, source = "hand",
    sym_name = "mul", tasks = 2 : i64, tile = array<i64: 1024>, vector_dim = 0 : i64, writes = [[array<i64: 0, 1024, 0, 1024>]]} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", offset = 0 : i64, bytes = 8192 : i64, type = tensor<2048xf32>, index = 0 : i64} : () -> ()
  "vdevice.buffer"() {sym_name = "w_a", kind = "constant", offset = 0 : i64, bytes = 8192 : i64, type = tensor<2048xf32>, value = dense<1.0> : tensor<2048xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "w_b", kind = "constant", offset = 8192 : i64, bytes = 8192 : i64, type = tensor<2048xf32>, value = dense<2.0> : tensor<2048xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "w_c", kind = "constant", offset = 16384 : i64, bytes = 8192 : i64, type = tensor<2048xf32>, value = dense<3.0> : tensor<2048xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "t", kind = "temp", offset = 0 : i64, bytes = 8192 : i64, type = tensor<2048xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "u", kind = "temp", offset = 8192 : i64, bytes = 8192 : i64, type = tensor<2048xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", offset = 0 : i64, bytes = 8192 : i64, type = tensor<2048xf32>, index = 0 : i64} : () -> ()
  "vdevice.event"() {sym_name = "e"} : () -> ()
  "vdevice.event"() {sym_name = "f"} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @mul, operator = "a", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @w_a, @t]} : () -> ()
    "vdevice.signal"() {event = @e} : () -> ()
    "vdevice.wait"() {event = @e, count = 2 : i64} : () -> ()
    "vdevice.repeat"() ({
    "vdevice.run"() {kernel = @mul, operator = "b{0+i}", first = 0 : i64, first_steps = array<i64: 0>, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@t, @w_b, @u]} : () -> ()
    }) {count = 1 : i64} : () -> ()
    "vdevice.signal"() {event = @f} : () -> ()
    "vdevice.wait"() {event = @f, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @mul, operator = "c", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@u, @w_c, @y]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @device, arena = 16384 : i64, constants = 60000000 : i64} : () -> ()
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<2048xf32>}], rtask.outputs = [{dtype = "float32", name = "y0", type = tensor<2048xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}
