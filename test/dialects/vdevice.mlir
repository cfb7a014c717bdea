// RUN: rc-opt %s | filecheck %s
// RUN: rc-opt %s -o %t.once
// RUN: rc-opt %t.once -o %t.twice
// RUN: diff %t.once %t.twice

// Two EUs share the first list of tasks; the second half waits for the first by an event.
// CHECK:      "vdevice.device"() {eus = 2 : i64, sym_name = "cpu", vector_bits = 512 : i64}
// CHECK-NEXT: "vdevice.program"() ({
// CHECK-NEXT:   "vdevice.buffer"() {bytes = 32 : i64, index = 0 : i64, kind = "input", offset = 0 : i64, sym_name = "x", type = tensor<8xf32>}
// CHECK-NEXT:   "vdevice.buffer"() {{.*}} sym_name = "t"
// CHECK-NEXT:   "vdevice.buffer"() {{.*}} sym_name = "t_reshaped", type = tensor<4x2xf32>
// CHECK-NEXT:   "vdevice.buffer"() {{.*}} value = dense_resource<w_0123456789abcdef> : tensor<8xf32>
// CHECK-NEXT:   "vdevice.buffer"() {{.*}} value = dense<0.000000e+00> : tensor<8xf32>
// CHECK-NEXT:   "vdevice.buffer"() {{.*}} sym_name = "y"
// CHECK-NEXT:   "vdevice.event"() {sym_name = "ready"}
// CHECK-NEXT:   "vdevice.eu"() ({
// CHECK-NEXT:     "vdevice.run"() {buffers = [@x, @t], count = 1 : i64, eu_step = 1 : i64, first = 0 : i64, kernel = @k, operator = "copy", stride = 1 : i64}
// CHECK-NEXT:     "vdevice.signal"() {event = @ready}
// CHECK-NEXT:     "vdevice.wait"() {count = 2 : i64, event = @ready}
// CHECK-NEXT:     "vdevice.run"() {buffers = [@t, @y]
// CHECK-NEXT:     "vdevice.barrier"()
// CHECK-NEXT:   }) {first = 0 : i64, last = 1 : i64}
// CHECK-NEXT: }) {arena = 128 : i64, constants = 128 : i64, device = @cpu, sym_name = "main_0"}
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64, vector_bits = 512 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "t", kind = "temp", offset = 64 : i64, bytes = 64 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "t_reshaped", kind = "temp", offset = 64 : i64, bytes = 32 : i64, type = tensor<4x2xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "w", kind = "constant", offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>, value = dense_resource<w_0123456789abcdef> : tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "zero", kind = "constant", offset = 64 : i64, bytes = 32 : i64, type = tensor<8xf32>, value = dense<0.0> : tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.event"() {sym_name = "ready"} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @k, operator = "copy", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @t]} : () -> ()
    "vdevice.signal"() {event = @ready} : () -> ()
    "vdevice.wait"() {event = @ready, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @k, operator = "copy_again", first = 1 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@t, @y]} : () -> ()
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @cpu, arena = 128 : i64, constants = 128 : i64} : () -> ()

// The same as queues, which the two EUs take: four that run a task each.
// CHECK:      "vdevice.program"() ({
// CHECK:        "vdevice.queue"() ({
// CHECK-NEXT:     "vdevice.run"() {buffers = [@x, @t], count = 1 : i64, eu_step = 1 : i64
// CHECK-NEXT:     "vdevice.signal"() {event = @ready}
// CHECK-NEXT:   }) {first = 0 : i64, last = 1 : i64}
// CHECK-NEXT:   "vdevice.queue"() ({
// CHECK-NEXT:     "vdevice.wait"() {count = 2 : i64, event = @ready}
// CHECK-NEXT:     "vdevice.run"() {buffers = [@t, @y]
// CHECK-NEXT:   }) {first = 2 : i64, last = 3 : i64}
// CHECK-NEXT: }) {arena = 128 : i64, constants = 128 : i64, device = @cpu, sym_name = "main_1"}
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "t", kind = "temp", offset = 64 : i64, bytes = 64 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.event"() {sym_name = "ready"} : () -> ()
  "vdevice.queue"() ({
    "vdevice.run"() {kernel = @k, operator = "copy", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @t]} : () -> ()
    "vdevice.signal"() {event = @ready} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
  "vdevice.queue"() ({
    "vdevice.wait"() {event = @ready, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @k, operator = "copy_again", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@t, @y]} : () -> ()
  }) {first = 2 : i64, last = 3 : i64} : () -> ()
}) {sym_name = "main_1", device = @cpu, arena = 128 : i64, constants = 128 : i64} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main() {
  // CHECK-NEXT: "vdevice.launch"() {program = @main_0} : () -> ()
  // CHECK-NEXT: "vdevice.launch"() {program = @main_1} : () -> ()
  "vdevice.launch"() {program = @main_0} : () -> ()
  "vdevice.launch"() {program = @main_1} : () -> ()
  return
}

"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]]} : () -> ()

// Loops: three buffers, three events, and what signals and waits for them in turn.
// CHECK:      "vdevice.program"() ({
// CHECK-NEXT:   "vdevice.repeat"() ({
// CHECK-NEXT:     "vdevice.buffer"() {bytes = 64 : i64, kind = "temp", offset = 0 : i64, offset_steps = array<i64: 64>, sym_name = "h{0+i}", type = tensor<8xf32>}
// CHECK-NEXT:     "vdevice.event"() {sym_name = "h{0+i}.done"}
// CHECK-NEXT:   }) {count = 3 : i64}
// CHECK-NEXT:   "vdevice.eu"() ({
// CHECK-NEXT:     "vdevice.repeat"() ({
// CHECK-NEXT:       "vdevice.run"() {buffers = [@"h{0+i}", @"h{1+i}"], {{.*}} operator = "step{1+i}"
// CHECK-NEXT:       "vdevice.signal"() {event = @"h{1+i}.done"}
// CHECK-NEXT:       "vdevice.repeat"() ({
// CHECK-NEXT:         "vdevice.signal"() {event = @"h{0+2i}.done"}
// CHECK-NEXT:       }) {count = 2 : i64}
// CHECK-NEXT:     }) {count = 2 : i64}
// CHECK-NEXT:     "vdevice.wait"() {count = 2 : i64, event = @h0.done}
"vdevice.program"() ({
  "vdevice.repeat"() ({
    "vdevice.buffer"() {sym_name = "h{0+i}", kind = "temp", offset = 0 : i64, offset_steps = array<i64: 64>, bytes = 64 : i64, type = tensor<8xf32>} : () -> ()
    "vdevice.event"() {sym_name = "h{0+i}.done"} : () -> ()
  }) {count = 3 : i64} : () -> ()
  "vdevice.eu"() ({
    "vdevice.repeat"() ({
      "vdevice.run"() {kernel = @k, operator = "step{1+i}", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@"h{0+i}", @"h{1+i}"]} : () -> ()
      "vdevice.signal"() {event = @"h{1+i}.done"} : () -> ()
      "vdevice.repeat"() ({
        "vdevice.signal"() {event = @"h{0+2i}.done"} : () -> ()
      }) {count = 2 : i64} : () -> ()
    }) {count = 2 : i64} : () -> ()
    "vdevice.wait"() {event = @h0.done, count = 2 : i64} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "loops", device = @cpu, arena = 192 : i64, constants = 0 : i64} : () -> ()
