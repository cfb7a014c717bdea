// RUN: rc-opt %s --split-input-file --verify-diagnostics

// A device has EUs.
// expected-error@+1 {{'vdevice.device' op expects 'eus' of at least 1, not 0}}
"vdevice.device"() {sym_name = "cpu", eus = 0 : i64} : () -> ()

// -----

// A device is a symbol of the module.
func.func @f() {
  // expected-error@+1 {{'vdevice.device' op expects to stand directly in builtin.module, not in func.func}}
  "vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
  return
}

// -----

// A program is a symbol of the module.
func.func @f() {
  // expected-error@+1 {{'vdevice.program' op expects to stand directly in builtin.module, not in func.func}}
  "vdevice.program"() ({
    "vdevice.eu"() ({
      "vdevice.barrier"() : () -> ()
    }) {first = 0 : i64, last = 1 : i64} : () -> ()
  }) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()
  return
}

// -----

// The arenas have a size.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
// expected-error@+1 {{'vdevice.program' op expects 'arena' of at least 0, not -1}}
"vdevice.program"() ({
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = -1 : i64, constants = 0 : i64} : () -> ()

// -----

// Both of them.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
// expected-error@+1 {{'vdevice.program' op expects 'constants' of at least 0, not -1}}
"vdevice.program"() ({
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = -1 : i64} : () -> ()

// -----

// A program has a body.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
// expected-error@+1 {{'vdevice.program' op expects a body of one block}}
"vdevice.program"() ({}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// The device exists.
// expected-error@+1 {{'vdevice.program' op refers to @cpu, which is no vdevice.device of this module}}
"vdevice.program"() ({
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// Symbols of a program are unique.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.event"() {sym_name = "e"} : () -> ()
  // expected-error@+1 {{'vdevice.event' op redefines @e of this program}}
  "vdevice.event"() {sym_name = "e"} : () -> ()
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// Nothing else stands in a program.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'llvm.unreachable' op may not stand in a vdevice.program: only buffer, event, eu and queue may}}
  "llvm.unreachable"() : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// A buffer belongs to a program.
// expected-error@+1 {{'vdevice.buffer' op expects to stand directly in vdevice.program or vdevice.repeat, not in builtin.module}}
"vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()

// -----

// Kinds are a closed list.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.buffer' op expects 'kind' to be one of input, output, constant, temp, pinned, not 'scratch'}}
  "vdevice.buffer"() {sym_name = "t", kind = "scratch", offset = 64 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// An offset is no less than 0.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.buffer' op expects 'offset' of at least 0, not -64}}
  "vdevice.buffer"() {sym_name = "t", kind = "temp", offset = -64 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// The tensor fits its bytes.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.buffer' op expects at least 32 bytes for tensor<8xf32>}}
  "vdevice.buffer"() {sym_name = "t", kind = "temp", offset = 64 : i64, bytes = 31 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// The shape is static.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.buffer' op expects a static tensor of numbers of whole bytes (or i1), not tensor<?xf32>}}
  "vdevice.buffer"() {sym_name = "t", kind = "temp", offset = 64 : i64, bytes = 32 : i64, type = tensor<?xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// Temporaries are aligned.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.buffer' op expects 'offset' to be a multiple of 64, not 32}}
  "vdevice.buffer"() {sym_name = "t", kind = "temp", offset = 32 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// Constants are aligned.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.buffer' op expects 'offset' to be a multiple of 64, not 32}}
  "vdevice.buffer"() {sym_name = "w", kind = "constant", offset = 32 : i64, bytes = 32 : i64, type = tensor<8xf32>, value = dense<0.0> : tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// Temporaries lie in the arena.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.buffer' op ends at byte 96, past the 95 bytes of the program's 'arena'}}
  "vdevice.buffer"() {sym_name = "t", kind = "temp", offset = 64 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 95 : i64, constants = 500 : i64} : () -> ()

// -----

// Constants lie among the constants.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.buffer' op ends at byte 96, past the 95 bytes of the program's 'constants'}}
  "vdevice.buffer"() {sym_name = "w", kind = "constant", offset = 64 : i64, bytes = 32 : i64, type = tensor<8xf32>, value = dense<0.0> : tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 500 : i64, constants = 95 : i64} : () -> ()

// -----

// An input has an index.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.buffer' op expects 'index' on input and output only, and always there}}
  "vdevice.buffer"() {sym_name = "x", kind = "input", offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// An output has an index.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.buffer' op expects 'index' on input and output only, and always there}}
  "vdevice.buffer"() {sym_name = "y", kind = "output", offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// Only an output lies over an input.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.buffer' op expects 'over' on output only, not on input}}
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, over = 1 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// An input has a number from 0 on.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.buffer' op expects 'over' of at least 0, not -1}}
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, over = -1 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// A temporary has none.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.buffer' op expects 'index' on input and output only, and always there}}
  "vdevice.buffer"() {sym_name = "t", kind = "temp", offset = 64 : i64, index = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// An index is no less than 0.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.buffer' op expects 'index' of at least 0, not -1}}
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = -1 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// A constant has a value.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.buffer' op expects 'value' on constant only, and always there}}
  "vdevice.buffer"() {sym_name = "w", kind = "constant", offset = 64 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// An input has none.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.buffer' op expects 'value' on constant only, and always there}}
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>, value = dense<0.0> : tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// The value has the constant's type.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.buffer' op expects 'value' to be the elements of a tensor<8xf32>}}
  "vdevice.buffer"() {sym_name = "w", kind = "constant", offset = 64 : i64, bytes = 32 : i64, type = tensor<8xf32>, value = dense<0.0> : tensor<4x2xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// An event belongs to a program.
// expected-error@+1 {{'vdevice.event' op expects to stand directly in vdevice.program or vdevice.repeat, not in builtin.module}}
"vdevice.event"() {sym_name = "e"} : () -> ()

// -----

// A list belongs to a program.
// expected-error@+1 {{'vdevice.eu' op expects to stand directly in vdevice.program, not in builtin.module}}
"vdevice.eu"() ({
  "vdevice.barrier"() : () -> ()
}) {first = 0 : i64, last = 1 : i64} : () -> ()

// -----

// EUs count from 0.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.eu' op expects 'first' of at least 0, not -1}}
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = -1 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// The range of EUs is not empty.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.eu' op expects EUs first <= last, not 1..0}}
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 1 : i64, last = 0 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// A list has a body.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.eu' op expects a body of one block}}
  "vdevice.eu"() ({}) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// EUs are the device's.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.eu' op names EU 2 of a device with 2}}
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 2 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// Ranges are disjoint.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
  // expected-error@+1 {{'vdevice.eu' op gives EU 1 a second list}}
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 1 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// And cover every EU.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
// expected-error@+1 {{'vdevice.program' op has no list for EU 0 of 2}}
"vdevice.program"() ({
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 1 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// All EUs meet at the same barriers.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
  // expected-error@+1 {{'vdevice.eu' op has 2 barriers, other EUs have 1}}
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
    "vdevice.barrier"() : () -> ()
  }) {first = 1 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// Nothing else stands in a list.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.eu"() ({
    // expected-error@+1 {{'llvm.unreachable' op may not stand in a vdevice.eu: only wait, run, signal and barrier may}}
    "llvm.unreachable"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// A wait names an event.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.eu"() ({
    // expected-error@+1 {{'vdevice.wait' op refers to @e, which is no event of this program}}
    "vdevice.wait"() {event = @e, count = 1 : i64} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// A wait belongs to a list.
// expected-error@+1 {{'vdevice.wait' op expects to stand directly in vdevice.eu or vdevice.queue or vdevice.repeat, not in builtin.module}}
"vdevice.wait"() {event = @e, count = 1 : i64} : () -> ()

// -----

// A signal names an event.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.eu"() ({
    // expected-error@+1 {{'vdevice.signal' op refers to @e, which is no event of this program}}
    "vdevice.signal"() {event = @e} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// A signal belongs to a list.
// expected-error@+1 {{'vdevice.signal' op expects to stand directly in vdevice.eu or vdevice.queue or vdevice.repeat, not in builtin.module}}
"vdevice.signal"() {event = @e} : () -> ()

// -----

// A wait waits for something.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.event"() {sym_name = "e"} : () -> ()
  "vdevice.eu"() ({
    // expected-error@+1 {{'vdevice.wait' op expects 'count' of at least 1, not 0}}
    "vdevice.wait"() {event = @e, count = 0 : i64} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// A barrier belongs to a list.
// expected-error@+1 {{'vdevice.barrier' op expects to stand directly in vdevice.eu or vdevice.queue or vdevice.repeat, not in builtin.module}}
"vdevice.barrier"() : () -> ()

// -----

// A run belongs to a list.
// expected-error@+1 {{'vdevice.run' op expects to stand directly in vdevice.eu or vdevice.queue or vdevice.repeat, not in builtin.module}}
"vdevice.run"() {kernel = @k, operator = "o", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @y]} : () -> ()

// -----

// The kernel exists.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    // expected-error@+1 {{'vdevice.run' op refers to @k, which is no rtask.kernel of this module}}
    "vdevice.run"() {kernel = @k, operator = "o", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @y]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 64 : i64} : () -> ()

// -----

// And is a kernel.
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]]} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    // expected-error@+1 {{'vdevice.run' op refers to @cpu, which is no rtask.kernel of this module}}
    "vdevice.run"() {kernel = @cpu, operator = "o", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @y]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 64 : i64} : () -> ()

// -----

// Tasks count from 0.
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]]} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    // expected-error@+1 {{'vdevice.run' op expects 'first' of at least 0, not -1}}
    "vdevice.run"() {kernel = @k, operator = "o", first = -1 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @y]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 64 : i64} : () -> ()

// -----

// A run has tasks.
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]]} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    // expected-error@+1 {{'vdevice.run' op expects 'count' of at least 1, not 0}}
    "vdevice.run"() {kernel = @k, operator = "o", first = 0 : i64, count = 0 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @y]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 64 : i64} : () -> ()

// -----

// Each another one.
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]]} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    // expected-error@+1 {{'vdevice.run' op expects 'stride' of at least 1, not 0}}
    "vdevice.run"() {kernel = @k, operator = "o", first = 0 : i64, count = 1 : i64, stride = 0 : i64, eu_step = 1 : i64, buffers = [@x, @y]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 64 : i64} : () -> ()

// -----

// EUs step forward.
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]]} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    // expected-error@+1 {{'vdevice.run' op expects 'eu_step' of at least 0, not -1}}
    "vdevice.run"() {kernel = @k, operator = "o", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = -1 : i64, buffers = [@x, @y]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 64 : i64} : () -> ()

// -----

// Tasks are the kernel's: the first of the last EU,
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]]} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    // expected-error@+1 {{'vdevice.run' op runs task 2 of @k, which has 2}}
    "vdevice.run"() {kernel = @k, operator = "o", first = 1 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @y]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 64 : i64} : () -> ()

// -----

// the step from EU to EU,
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]]} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    // expected-error@+1 {{'vdevice.run' op runs task 2 of @k, which has 2}}
    "vdevice.run"() {kernel = @k, operator = "o", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 2 : i64, buffers = [@x, @y]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 64 : i64} : () -> ()

// -----

// and the stride count.
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]]} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    // expected-error@+1 {{'vdevice.run' op runs task 3 of @k, which has 2}}
    "vdevice.run"() {kernel = @k, operator = "o", first = 0 : i64, count = 2 : i64, stride = 3 : i64, eu_step = 0 : i64, buffers = [@x, @y]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 64 : i64} : () -> ()

// -----

// Buffers are symbols.
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]]} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    // expected-error@+1 {{'vdevice.run' op expects 'buffers' to be a list of symbols}}
    "vdevice.run"() {kernel = @k, operator = "o", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = ["x", @y]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 64 : i64} : () -> ()

// -----

// One buffer for each tensor.
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]]} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    // expected-error@+1 {{'vdevice.run' op expects 1 operands and 1 results of @k as buffers, not 1}}
    "vdevice.run"() {kernel = @k, operator = "o", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 64 : i64} : () -> ()

// -----

// Which exist.
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]]} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    // expected-error@+1 {{'vdevice.run' op refers to @z, which is no buffer of this program}}
    "vdevice.run"() {kernel = @k, operator = "o", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@z, @y]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 64 : i64} : () -> ()

// -----

// Of the tensor's type.
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]]} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "z", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xi32>} : () -> ()
  "vdevice.eu"() ({
    // expected-error@+1 {{'vdevice.run' op expects @z to have the type of @k's tensor 0, tensor<8xf32>}}
    "vdevice.run"() {kernel = @k, operator = "o", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@z, @y]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 64 : i64} : () -> ()

// -----

// Inputs are not written.
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]]} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    // expected-error@+1 {{'vdevice.run' op writes @x, which is of kind input}}
    "vdevice.run"() {kernel = @k, operator = "o", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@y, @x]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 64 : i64} : () -> ()

// -----

// Nor are constants.
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]]} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "w", kind = "constant", offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>, value = dense<0.0> : tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    // expected-error@+1 {{'vdevice.run' op writes @w, which is of kind constant}}
    "vdevice.run"() {kernel = @k, operator = "o", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @w]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 64 : i64} : () -> ()

// -----

// A launch names a program.
func.func @f() {
  // expected-error@+1 {{'vdevice.launch' op refers to @f, which is no vdevice.program of this module}}
  "vdevice.launch"() {program = @f} : () -> ()
  return
}

// -----

// Which exists.
func.func @f() {
  // expected-error@+1 {{'vdevice.launch' op refers to @p, which is no vdevice.program of this module}}
  "vdevice.launch"() {program = @p} : () -> ()
  return
}

// -----

// A launch belongs to a function.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()
// expected-error@+1 {{'vdevice.launch' op expects to stand directly in func.func, not in builtin.module}}
"vdevice.launch"() {program = @p} : () -> ()

// -----

// A loop is gone through at least once.
"vdevice.device"() {sym_name = "cpu", eus = 1 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.event"() {sym_name = "e0"} : () -> ()
  "vdevice.eu"() ({
  // expected-error@+1 {{'vdevice.repeat' op expects 'count' of at least 1, not 0}}
"vdevice.repeat"() ({
"vdevice.signal"() {event = @"e0"} : () -> ()
}) {count = 0 : i64} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 256 : i64, constants = 0 : i64} : () -> ()

// -----

// A loop stands in a program, a list or another loop.
// expected-error@+1 {{'vdevice.repeat' op expects to stand directly in vdevice.program or vdevice.eu or vdevice.repeat, not in builtin.module}}
"vdevice.repeat"() ({
  "vdevice.barrier"() : () -> ()
}) {count = 2 : i64} : () -> ()

// -----

// Every iteration names an event.
"vdevice.device"() {sym_name = "cpu", eus = 1 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.event"() {sym_name = "e0"} : () -> ()
  "vdevice.eu"() ({
"vdevice.repeat"() ({
  // expected-error@+1 {{'vdevice.signal' op refers to @e1, which is no event of this program}}
"vdevice.signal"() {event = @"e{0+i}"} : () -> ()
}) {count = 3 : i64} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 256 : i64, constants = 0 : i64} : () -> ()

// -----

// Numbers of names move as they are told to.
"vdevice.device"() {sym_name = "cpu", eus = 1 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.event"() {sym_name = "e0"} : () -> ()
  "vdevice.eu"() ({
"vdevice.repeat"() ({
  // expected-error@+1 {{'vdevice.signal' op expects numbers like {4+2i} in the name 'e{i}'}}
"vdevice.signal"() {event = @"e{i}"} : () -> ()
}) {count = 3 : i64} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 256 : i64, constants = 0 : i64} : () -> ()

// -----

// With the loops around them.
"vdevice.device"() {sym_name = "cpu", eus = 1 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.event"() {sym_name = "e0"} : () -> ()
  "vdevice.eu"() ({
"vdevice.repeat"() ({
  // expected-error@+1 {{'vdevice.signal' op names the iteration of a repeat that is not around it: 'e{0+j}'}}
"vdevice.signal"() {event = @"e{0+j}"} : () -> ()
}) {count = 3 : i64} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 256 : i64, constants = 0 : i64} : () -> ()

// -----

// Iterations of a buffer lie in the arena.
"vdevice.device"() {sym_name = "cpu", eus = 1 : i64} : () -> ()
"vdevice.program"() ({
"vdevice.repeat"() ({
  // expected-error@+1 {{'vdevice.buffer' op ends at byte 320, past the 256 bytes of the program's 'arena'}}
"vdevice.buffer"() {sym_name = "b{0+i}", kind = "temp", offset_steps = array<i64: 128>, offset = 0 : i64, bytes = 64 : i64, type = tensor<16xf32>} : () -> ()
}) {count = 3 : i64} : () -> ()
  "vdevice.eu"() ({
"vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 256 : i64, constants = 0 : i64} : () -> ()

// -----

// And not in front of it.
"vdevice.device"() {sym_name = "cpu", eus = 1 : i64} : () -> ()
"vdevice.program"() ({
"vdevice.repeat"() ({
  // expected-error@+1 {{'vdevice.buffer' op expects 'offset' of at least 0 and at most 2^62, not -64 in iteration [1]}}
"vdevice.buffer"() {sym_name = "b{0+i}", kind = "temp", offset_steps = array<i64: -64>, offset = 0 : i64, bytes = 64 : i64, type = tensor<16xf32>} : () -> ()
}) {count = 3 : i64} : () -> ()
  "vdevice.eu"() ({
"vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 256 : i64, constants = 0 : i64} : () -> ()

// -----

// They are aligned.
"vdevice.device"() {sym_name = "cpu", eus = 1 : i64} : () -> ()
"vdevice.program"() ({
"vdevice.repeat"() ({
  // expected-error@+1 {{'vdevice.buffer' op expects 'offset_steps' to be multiples of 64}}
"vdevice.buffer"() {sym_name = "b{0+i}", kind = "temp", offset_steps = array<i64: 32>, offset = 0 : i64, bytes = 64 : i64, type = tensor<16xf32>} : () -> ()
}) {count = 3 : i64} : () -> ()
  "vdevice.eu"() ({
"vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 256 : i64, constants = 0 : i64} : () -> ()

// -----

// They have names of their own.
"vdevice.device"() {sym_name = "cpu", eus = 1 : i64} : () -> ()
"vdevice.program"() ({
"vdevice.repeat"() ({
  // expected-error@+1 {{'vdevice.buffer' op redefines @b of this program}}
"vdevice.buffer"() {sym_name = "b", kind = "temp", offset_steps = array<i64: 64>, offset = 0 : i64, bytes = 64 : i64, type = tensor<16xf32>} : () -> ()
}) {count = 3 : i64} : () -> ()
  "vdevice.eu"() ({
"vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 256 : i64, constants = 0 : i64} : () -> ()

// -----

// A constant is not repeated.
"vdevice.device"() {sym_name = "cpu", eus = 1 : i64} : () -> ()
"vdevice.program"() ({
"vdevice.repeat"() ({
  // expected-error@+1 {{'vdevice.buffer' op may not stand in a vdevice.repeat: a constant has one value}}
"vdevice.buffer"() {sym_name = "b{0+i}", kind = "constant", offset_steps = array<i64: 0>, offset = 0 : i64, bytes = 64 : i64, type = tensor<16xf32>, value = dense<0.0> : tensor<16xf32>} : () -> ()
}) {count = 3 : i64} : () -> ()
  "vdevice.eu"() ({
"vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 256 : i64, constants = 0 : i64} : () -> ()

// -----

// There is a step for each loop.
"vdevice.device"() {sym_name = "cpu", eus = 1 : i64} : () -> ()
"vdevice.program"() ({
"vdevice.repeat"() ({
  // expected-error@+1 {{'vdevice.buffer' op expects 'offset_steps' to have a step for each of the 1 repeats around it}}
"vdevice.buffer"() {sym_name = "b{0+i}", kind = "temp", offset_steps = array<i64: 64, 64>, offset = 0 : i64, bytes = 64 : i64, type = tensor<16xf32>} : () -> ()
}) {count = 3 : i64} : () -> ()
  "vdevice.eu"() ({
"vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 256 : i64, constants = 0 : i64} : () -> ()

// -----

// And none without loops.
"vdevice.device"() {sym_name = "cpu", eus = 1 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.buffer' op expects 'offset_steps' to have a step for each of the 0 repeats around it}}
"vdevice.buffer"() {sym_name = "b", kind = "temp", offset_steps = array<i64: 64>, offset = 0 : i64, bytes = 64 : i64, type = tensor<16xf32>} : () -> ()
  "vdevice.eu"() ({
"vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 256 : i64, constants = 0 : i64} : () -> ()

// -----

// Counts stay counts.
"vdevice.device"() {sym_name = "cpu", eus = 1 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.event"() {sym_name = "e0"} : () -> ()
  "vdevice.eu"() ({
"vdevice.repeat"() ({
  // expected-error@+1 {{'vdevice.wait' op expects 'count' of at least 1 and at most 2^62, not 0 in iteration [1]}}
"vdevice.wait"() {event = @e0, count = 1 : i64, count_steps = array<i64: -1>} : () -> ()
}) {count = 3 : i64} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 256 : i64, constants = 0 : i64} : () -> ()

// -----

// Loops come to an end.
"vdevice.device"() {sym_name = "cpu", eus = 1 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.event"() {sym_name = "e0"} : () -> ()
  // expected-error@+1 {{'vdevice.eu' op has more than 4194304 ops with its repeats gone through}}
  "vdevice.eu"() ({
"vdevice.repeat"() ({
"vdevice.repeat"() ({
"vdevice.signal"() {event = @"e0"} : () -> ()
}) {count = 1048576 : i64} : () -> ()
}) {count = 1099511627776 : i64} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 256 : i64, constants = 0 : i64} : () -> ()

// -----

// Loops of lists have no lists.
"vdevice.device"() {sym_name = "cpu", eus = 1 : i64} : () -> ()
"vdevice.program"() ({
"vdevice.repeat"() ({
  // expected-error@+1 {{'vdevice.barrier' op may not stand in a vdevice.program: only buffer, event, eu and queue may}}
"vdevice.barrier"() : () -> ()
}) {count = 3 : i64} : () -> ()
  "vdevice.eu"() ({
"vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 256 : i64, constants = 0 : i64} : () -> ()

// -----

// Loops are not deeper than their letters go.
"vdevice.device"() {sym_name = "cpu", eus = 1 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.event"() {sym_name = "e0"} : () -> ()
  "vdevice.eu"() ({
"vdevice.repeat"() ({
"vdevice.repeat"() ({
"vdevice.repeat"() ({
"vdevice.repeat"() ({
"vdevice.repeat"() ({
"vdevice.repeat"() ({
"vdevice.repeat"() ({
"vdevice.repeat"() ({
  // expected-error@+1 {{'vdevice.repeat' op expects at most 8 repeats inside of each other}}
"vdevice.repeat"() ({
"vdevice.signal"() {event = @e0} : () -> ()
}) {count = 2 : i64} : () -> ()
}) {count = 2 : i64} : () -> ()
}) {count = 2 : i64} : () -> ()
}) {count = 2 : i64} : () -> ()
}) {count = 2 : i64} : () -> ()
}) {count = 2 : i64} : () -> ()
}) {count = 2 : i64} : () -> ()
}) {count = 2 : i64} : () -> ()
}) {count = 2 : i64} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 256 : i64, constants = 0 : i64} : () -> ()

// -----

// Numbers stay in their bits.
"vdevice.device"() {sym_name = "cpu", eus = 1 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.event"() {sym_name = "e0"} : () -> ()
  "vdevice.eu"() ({
"vdevice.repeat"() ({
  // expected-error@+1 {{'vdevice.wait' op expects 'count' of at least 1 and at most 2^62, not 4611686018427387905 in iteration [1]}}
  "vdevice.wait"() {event = @e0, count = 1 : i64, count_steps = array<i64: 4611686018427387904>} : () -> ()
}) {count = 3 : i64} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 256 : i64, constants = 0 : i64} : () -> ()

// -----

// Queues belong to a program.
// expected-error@+1 {{'vdevice.queue' op expects to stand directly in vdevice.program, not in builtin.module}}
"vdevice.queue"() ({
}) {first = 0 : i64, last = 1 : i64} : () -> ()

// -----

// They have numbers from first to last.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.queue' op expects queues first <= last, not 1..0}}
  "vdevice.queue"() ({
  ^bb0:
  }) {first = 1 : i64, last = 0 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// And one block.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.queue' op expects a body of one block}}
  "vdevice.queue"() ({
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// The numbers leave none out.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.queue"() ({
  ^bb0:
  }) {first = 0 : i64, last = 3 : i64} : () -> ()
  // expected-error@+1 {{'vdevice.queue' op begins with queue 5, and queue 4 is the next}}
  "vdevice.queue"() ({
  ^bb0:
  }) {first = 5 : i64, last = 5 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// They are not without number.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  // expected-error@+1 {{'vdevice.queue' op names queue 1000000000000: a program has at most 4194304}}
  "vdevice.queue"() ({
  ^bb0:
  }) {first = 0 : i64, last = 1000000000000 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// Whoever takes a queue meets nobody.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.queue"() ({
    // expected-error@+1 {{'vdevice.barrier' op may not stand in a vdevice.queue: which EU runs it is not known}}
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// Queues are taken by all EUs: none has a list of its own.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.queue"() ({
  ^bb0:
  }) {first = 0 : i64, last = 3 : i64} : () -> ()
  // expected-error@+1 {{'vdevice.eu' op may not stand beside lists of the other kind: a program has those of EUs or queues}}
  "vdevice.eu"() ({
  ^bb0:
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// Instructions are those of an EU.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.queue"() ({
    // expected-error@+1 {{'llvm.unreachable' op may not stand in a vdevice.queue: only wait, run and signal may}}
    "llvm.unreachable"() : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// All queues of a list run tasks that there are.
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]]} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.queue"() ({
    // expected-error@+1 {{'vdevice.run' op runs task 2 of @k, which has 2}}
    "vdevice.run"() {kernel = @k, operator = "o", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @y]} : () -> ()
  }) {first = 0 : i64, last = 2 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 64 : i64} : () -> ()

// -----

// Nor does it count in loops: the queues lie once for all EUs.
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.event"() {sym_name = "e0"} : () -> ()
  "vdevice.queue"() ({
    // expected-error@+1 {{'vdevice.repeat' op expects to stand directly in vdevice.program or vdevice.eu or vdevice.repeat, not in vdevice.queue}}
    "vdevice.repeat"() ({
      "vdevice.signal"() {event = @e0} : () -> ()
    }) {count = 3 : i64} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 0 : i64, constants = 0 : i64} : () -> ()

// -----

// What a kernel has in the memory of its EU is a pinned buffer,
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]], pinned = array<i64: 1>} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "t", kind = "temp", offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    // expected-error@+1 {{'vdevice.run' op expects tensor 1 of @k to be pinned where @t is}}
    "vdevice.run"() {kernel = @k, operator = "o", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @t]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 64 : i64, constants = 64 : i64, pinned = 64 : i64} : () -> ()

// -----

// and the other way around.
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]]} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "t", kind = "pinned", offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    // expected-error@+1 {{'vdevice.run' op expects tensor 1 of @k to be pinned where @t is}}
    "vdevice.run"() {kernel = @k, operator = "o", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @t]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 64 : i64, constants = 64 : i64, pinned = 64 : i64} : () -> ()

// -----

// Pinned boxes are those of tasks side by side,
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]], pinned = array<i64: 1>} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "t", kind = "pinned", offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    // expected-error@+1 {{'vdevice.run' op expects tasks of @k side by side, on a known EU: it has pinned tensors}}
    "vdevice.run"() {kernel = @k, operator = "o", first = 0 : i64, count = 1 : i64, stride = 2 : i64, eu_step = 0 : i64, buffers = [@x, @t]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 64 : i64, constants = 64 : i64, pinned = 64 : i64} : () -> ()

// -----

// on an EU that the text names.
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]], pinned = array<i64: 1>} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "t", kind = "pinned", offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.queue"() ({
    // expected-error@+1 {{'vdevice.run' op expects tasks of @k side by side, on a known EU: it has pinned tensors}}
    "vdevice.run"() {kernel = @k, operator = "o", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @t]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 64 : i64, constants = 64 : i64, pinned = 64 : i64} : () -> ()

// -----

// It is no part of another buffer,
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]], pinned = array<i64: 1>} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  // expected-error@+1 {{'vdevice.buffer' op expects no 'alias_of': a pinned tensor is no part of another}}
  "vdevice.buffer"() {sym_name = "t", kind = "pinned", offset = 0 : i64, bytes = 32 : i64, alias_of = @x, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @k, operator = "o", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @t]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 64 : i64, constants = 64 : i64, pinned = 64 : i64} : () -> ()

// -----

// and aligned.
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]], pinned = array<i64: 1>} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  // expected-error@+1 {{'vdevice.buffer' op expects 'offset' to be a multiple of 64, not 32}}
  "vdevice.buffer"() {sym_name = "t", kind = "pinned", offset = 32 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @k, operator = "o", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @t]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 64 : i64, constants = 64 : i64, pinned = 64 : i64} : () -> ()

// -----

// The memory has a size.
"rtask.kernel"() ({
^bb0(%a: tensor<8xf32>):
  "rtask.yield"(%a) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]]} : () -> ()
"vdevice.device"() {sym_name = "cpu", eus = 2 : i64} : () -> ()
// expected-error@+1 {{'vdevice.program' op expects 'pinned' of at least 0, not -1}}
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", index = 0 : i64, offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "t", kind = "temp", offset = 0 : i64, bytes = 32 : i64, type = tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @k, operator = "o", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @t]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "p", device = @cpu, arena = 64 : i64, constants = 64 : i64, pinned = -1 : i64} : () -> ()
