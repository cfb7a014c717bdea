// A schedule as short text, the program first; and the same module again from it.
// RUN: rc-opt %s --schedule-form -o %t.schedule
// RUN: filecheck %s < %t.schedule
// RUN: rc-opt %s -o %t.once
// RUN: rc-opt %t.schedule -o %t.twice
// RUN: rc-opt %t.schedule --schedule-form -o %t.thrice
// A pass takes either form.
// RUN: rc-opt %t.schedule -p cse --schedule-form | filecheck %s --check-prefix=PASS
// RUN: diff %t.once %t.twice
// RUN: diff %t.schedule %t.thrice
// PASS: run copy: k[0 + 1eu](x) -> t

// CHECK:      {{^}}schedule 1{{$}}
// CHECK:      main(x: 8xf32, "a b": 8xi8 as uint8) -> (y: 8xf32) {
// CHECK-NEXT:   launch main_0
// CHECK-NEXT: }
// CHECK:      device cpu with 2 eus attributes {vector_bits = 512}
// CHECK:      program main_0 on cpu arena 256 bound 192 constants 128 {
// CHECK-NEXT:   input 0 x: 8xf32
// CHECK-NEXT:   constant w_0: 8xf32 at 0
// CHECK-NEXT:   constant zero: 8xf32 at 64 = dense<0.000000e+00>
// CHECK-NEXT:   temp t: 8xf32 at 64 bytes 64
// CHECK-NEXT:   temp t.view: 4x2xf32 at 64 in t
// CHECK-NEXT:   output 0 y: 8xf32
// CHECK-NEXT:   event ready
// CHECK-NEXT:   repeat i < 3 {
// CHECK-NEXT:     temp h{0+i}: 8xf32 at 0 + 64i
// CHECK-NEXT:   }
// CHECK-NEXT:   eu 0..1 {
// CHECK-NEXT:     run copy: k[0 + 1eu](x) -> t
// CHECK-NEXT:     signal ready
// CHECK-NEXT:     wait ready >= 2
// CHECK-NEXT:     repeat i < 2 {
// CHECK-NEXT:       run step{1+i}: k[0..1](h{0+i}) -> h{1+i} attributes {note = "kept"}
// CHECK-NEXT:     }
// CHECK-NEXT:     barrier
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK:      kernel k(%arg0: tensor<8xf32>) attributes {estimated_ns = 3.000000e+00, grid = array<i64: 2>,
// CHECK-SAME:   kind = "elementwise",
// CHECK-NEXT:     lanes = 4
// CHECK:        "rtask.yield"(%arg0) : (tensor<8xf32>) -> ()
// CHECK-NEXT: }
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]]} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64, vector_bits = 512 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "w_0", kind = "constant", offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>, value = dense_resource<w_0> : tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "zero", kind = "constant", offset = 64 : i64, bytes = 32 : i64, type = tensor<8xf32>, value = dense<0.0> : tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "t", kind = "temp", offset = 64 : i64, bytes = 64 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "t.view", kind = "temp", offset = 64 : i64, bytes = 32 : i64, alias_of = @t, type = tensor<4x2xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.event"() {sym_name = "ready"} : () -> ()
  "vdevice.repeat"() ({
    "vdevice.buffer"() {sym_name = "h{0+i}", kind = "temp", offset = 0 : i64, offset_steps = array<i64: 64>, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  }) {count = 3 : i64} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @k, operator = "copy", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @t]} : () -> ()
    "vdevice.signal"() {event = @ready} : () -> ()
    "vdevice.wait"() {event = @ready, count = 2 : i64} : () -> ()
    "vdevice.repeat"() ({
      "vdevice.run"() {kernel = @k, operator = "step{1+i}", first = 0 : i64, count = 2 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@"h{0+i}", @"h{1+i}"], note = "kept"} : () -> ()
    }) {count = 2 : i64} : () -> ()
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @cpu, arena = 256 : i64, arena_bound = 192 : i64, constants = 128 : i64} : () -> ()
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<8xf32>}, {dtype = "uint8", name = "a b", type = tensor<8xi8>}], rtask.outputs = [{dtype = "float32", name = "y", type = tensor<8xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}
