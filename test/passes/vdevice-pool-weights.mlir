// RUN: rc-opt %s -p 'vdevice-pool-weights' | filecheck %s

// Constants with the same bytes lie at the same place, in whichever program they are; a part of
// another stays that part. One of another type is a part of the first where that is in its program,
// and lies apart in another one, as validation knows constants by their names. The programs say how
// much there is of all.
// CHECK:      "vdevice.buffer"() {bytes = 32 : i64, kind = "constant", offset = 0 : i64, sym_name = "w"
// CHECK:      "vdevice.buffer"() {alias_of = @w, bytes = 16 : i64, kind = "constant", offset = 16 : i64, sym_name = "w.high"
// CHECK:      "vdevice.buffer"() {alias_of = @w, bytes = 32 : i64, kind = "constant", offset = 0 : i64, sym_name = "same"
// CHECK:      "vdevice.buffer"() {bytes = 32 : i64, kind = "constant", offset = 64 : i64, sym_name = "other"
// CHECK:      }) {arena = 0 : i64, constants = 192 : i64, device = @device, sym_name = "first"}
// CHECK:      "vdevice.buffer"() {bytes = 32 : i64, kind = "constant", offset = 64 : i64, sym_name = "w"
// CHECK:      "vdevice.buffer"() {bytes = 32 : i64, kind = "constant", offset = 128 : i64, sym_name = "column"
// CHECK:      }) {arena = 0 : i64, constants = 192 : i64, device = @device, sym_name = "second"}
"vdevice.device"() {sym_name = "device", eus = 1 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "w", kind = "constant", offset = 256 : i64, bytes = 32 : i64, type = tensor<8xf32>, value = dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "w.high", kind = "constant", offset = 272 : i64, bytes = 16 : i64, type = tensor<4xf32>, value = dense<[5.0, 6.0, 7.0, 8.0]> : tensor<4xf32>, alias_of = @w} : () -> ()
  "vdevice.buffer"() {sym_name = "same", kind = "constant", offset = 0 : i64, bytes = 32 : i64, type = tensor<2x4xf32>, value = dense<[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]> : tensor<2x4xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "other", kind = "constant", offset = 64 : i64, bytes = 32 : i64, type = tensor<8xf32>, value = dense<2.0> : tensor<8xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
}) {sym_name = "first", device = @device, arena = 0 : i64, constants = 320 : i64} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "w", kind = "constant", offset = 128 : i64, bytes = 32 : i64, type = tensor<8xf32>, value = dense<2.0> : tensor<8xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "column", kind = "constant", offset = 192 : i64, bytes = 32 : i64, type = tensor<8x1xf32>, value = dense<[[1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0], [8.0]]> : tensor<8x1xf32>} : () -> ()
  "vdevice.eu"() ({
    "vdevice.barrier"() : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
}) {sym_name = "second", device = @device, arena = 0 : i64, constants = 320 : i64} : () -> ()
