// y = exp(x), each half of it on an EU of its own, then twice more in a loop.
"vdevice.device"() {eus = 2 : i64, sym_name = "cpu"} : () -> ()

"vdevice.program"() ({
  "vdevice.buffer"() {bytes = 32 : i64, index = 0 : i64, kind = "input", offset = 0 : i64,
      sym_name = "x", type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {bytes = 32 : i64, kind = "constant", offset = 0 : i64, sym_name = "w",
      type = tensor<8xf32>, value = dense<1.0> : tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {bytes = 32 : i64, index = 0 : i64, kind = "output", offset = 0 : i64,
      sym_name = "y", type = tensor<8xf32>} : () -> ()
  "vdevice.repeat"() ({
    "vdevice.buffer"() {bytes = 32 : i64, kind = "temp", offset = 0 : i64,
        offset_steps = array<i64: 64>, sym_name = "h{0+i}", type = tensor<8xf32>} : () -> ()
    "vdevice.event"() {sym_name = "h{0+i}.done"} : () -> ()
  }) {count = 3 : i64} : () -> ()
  "vdevice.event"() {sym_name = "ready"} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {buffers = [@x, @h0], count = 1 : i64, eu_step = 1 : i64, first = 0 : i64,
        kernel = @k_exp, operator = "exp", stride = 1 : i64} : () -> ()
    "vdevice.signal"() {event = @ready} : () -> ()
    "vdevice.wait"() {count = 2 : i64, event = @ready} : () -> ()
    "vdevice.repeat"() ({
      "vdevice.run"() {buffers = [@"h{0+i}", @"h{1+i}"], count = 1 : i64, eu_step = 1 : i64,
          first = 0 : i64, kernel = @k_exp, operator = "step{1+i}", stride = 1 : i64} : () -> ()
      "vdevice.signal"() {event = @"h{1+i}.done"} : () -> ()
    }) {count = 2 : i64} : () -> ()
    "vdevice.barrier"() : () -> ()
    "vdevice.run"() {buffers = [@h2, @y], count = 1 : i64, eu_step = 1 : i64, first = 0 : i64,
        kernel = @k_exp, operator = "last", stride = 1 : i64} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {arena = 192 : i64, constants = 64 : i64, device = @cpu, sym_name = "main_0"} : () -> ()

// Dynamic: the EU that is free takes the next queue.
"vdevice.program"() ({
  "vdevice.buffer"() {bytes = 32 : i64, index = 0 : i64, kind = "input", offset = 0 : i64,
      sym_name = "x", type = tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {bytes = 32 : i64, index = 0 : i64, kind = "output", offset = 0 : i64,
      sym_name = "y", type = tensor<8xf32>} : () -> ()
  "vdevice.queue"() ({
    "vdevice.run"() {buffers = [@x, @y], count = 1 : i64, eu_step = 1 : i64, first = 0 : i64,
        kernel = @k_exp, operator = "exp", stride = 1 : i64} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {arena = 0 : i64, constants = 0 : i64, device = @cpu, sym_name = "main_1"} : () -> ()

func.func @main() {
  "vdevice.launch"() {program = @main_0} : () -> ()
  "vdevice.launch"() {program = @main_1} : () -> ()
  return
}

"rtask.kernel"() ({
^bb0(%x: tensor<8xf32>):
  %0 = tensor.empty() : tensor<8xf32>
  %1 = linalg.exp ins(%x : tensor<8xf32>) outs(%0 : tensor<8xf32>) -> tensor<8xf32>
  "rtask.yield"(%1) : (tensor<8xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 2>, kind = "elementwise", lanes = 4 : i64,
    on_chip_bytes = 32 : i64, reads = [[array<i64: 0, 4, 0, 4>]],
    register_tile = array<i64: 4>, registers = 1 : i64, source = "roller",
    sym_name = "k_exp", tasks = 2 : i64, tile = array<i64: 4>, vector_dim = 0 : i64,
    writes = [[array<i64: 0, 4, 0, 4>]]} : () -> ()
