"""Conversions to and from f16 and bf16 that LLVM calls where the processor has no instruction.

libgcc has them only from some versions on (bf16 from GCC 13), so compiled models bring their own:
integer arithmetic, round to nearest even, subnormals and NaNs included.
"""

# f32 -> f16 and bf16; f64 goes through f32 rounded to odd, which makes the second rounding exact.
TEXT = """
llvm.func @__truncsfhf2(%x: f32) -> f16 {
  %bits = llvm.bitcast %x : f32 to i32
  %c16 = llvm.mlir.constant(16 : i32) : i32
  %c13 = llvm.mlir.constant(13 : i32) : i32
  %c1 = llvm.mlir.constant(1 : i32) : i32
  %msign = llvm.mlir.constant(32768 : i32) : i32
  %mabs = llvm.mlir.constant(0x7FFFFFFF : i32) : i32
  %top = llvm.lshr %bits, %c16 : i32
  %sign = llvm.and %top, %msign : i32
  %a = llvm.and %bits, %mabs : i32
  // normal: move the exponent, add half a unit (rounding ties to even), cut
  %bias = llvm.mlir.constant(0x38000000 : i32) : i32
  %r0 = llvm.sub %a, %bias : i32
  %r1 = llvm.lshr %r0, %c13 : i32
  %r2 = llvm.and %r1, %c1 : i32
  %half = llvm.mlir.constant(0xFFF : i32) : i32
  %r3 = llvm.add %r0, %half : i32
  %r4 = llvm.add %r3, %r2 : i32
  %normal = llvm.lshr %r4, %c13 : i32
  // subnormal: the unit of 0.5 in f32 is the smallest f16, so the addition rounds
  %magic = llvm.mlir.constant(0x3F000000 : i32) : i32
  %magicf = llvm.bitcast %magic : i32 to f32
  %af = llvm.bitcast %a : i32 to f32
  %sum = llvm.fadd %af, %magicf : f32
  %sumb = llvm.bitcast %sum : f32 to i32
  %subnormal = llvm.sub %sumb, %magic : i32
  %least = llvm.mlir.constant(0x38800000 : i32) : i32
  %small = llvm.icmp "ult" %a, %least : i32
  %finite = llvm.select %small, %subnormal, %normal : i1, i32
  %over = llvm.mlir.constant(0x47800000 : i32) : i32
  %inf = llvm.mlir.constant(0x7C00 : i32) : i32
  %big = llvm.icmp "uge" %a, %over : i32
  %number = llvm.select %big, %inf, %finite : i1, i32
  %finf = llvm.mlir.constant(0x7F800000 : i32) : i32
  %isnan = llvm.icmp "ugt" %a, %finf : i32
  %payload = llvm.lshr %a, %c13 : i32
  %m10 = llvm.mlir.constant(0x3FF : i32) : i32
  %p10 = llvm.and %payload, %m10 : i32
  %quiet = llvm.mlir.constant(0x7E00 : i32) : i32
  %nan = llvm.or %p10, %quiet : i32
  %h = llvm.select %isnan, %nan, %number : i1, i32
  %hs = llvm.or %h, %sign : i32
  %h16 = llvm.trunc %hs : i32 to i16
  %res = llvm.bitcast %h16 : i16 to f16
  llvm.return %res : f16
}
llvm.func @__extendhfsf2(%x: f16) -> f32 {
  %h16 = llvm.bitcast %x : f16 to i16
  %h = llvm.zext %h16 : i16 to i32
  %c16 = llvm.mlir.constant(16 : i32) : i32
  %c13 = llvm.mlir.constant(13 : i32) : i32
  %msign = llvm.mlir.constant(32768 : i32) : i32
  %mabs = llvm.mlir.constant(32767 : i32) : i32
  %s0 = llvm.and %h, %msign : i32
  %sign = llvm.shl %s0, %c16 : i32
  %a = llvm.and %h, %mabs : i32
  %o = llvm.shl %a, %c13 : i32
  %mexp = llvm.mlir.constant(0x0F800000 : i32) : i32
  %zero = llvm.mlir.constant(0 : i32) : i32
  %e = llvm.and %o, %mexp : i32
  %bias = llvm.mlir.constant(0x38000000 : i32) : i32
  %normal = llvm.add %o, %bias : i32
  %special = llvm.add %normal, %bias : i32
  %least = llvm.mlir.constant(0x38800000 : i32) : i32
  %leastf = llvm.bitcast %least : i32 to f32
  %subi = llvm.add %o, %least : i32
  %subf = llvm.bitcast %subi : i32 to f32
  %dif = llvm.fsub %subf, %leastf : f32
  %subnormal = llvm.bitcast %dif : f32 to i32
  %issub = llvm.icmp "eq" %e, %zero : i32
  %isspecial = llvm.icmp "eq" %e, %mexp : i32
  %v0 = llvm.select %issub, %subnormal, %normal : i1, i32
  %v1 = llvm.select %isspecial, %special, %v0 : i1, i32
  %v2 = llvm.or %v1, %sign : i32
  %res = llvm.bitcast %v2 : i32 to f32
  llvm.return %res : f32
}
llvm.func @__truncsfbf2(%x: f32) -> bf16 {
  %bits = llvm.bitcast %x : f32 to i32
  %c16 = llvm.mlir.constant(16 : i32) : i32
  %c1 = llvm.mlir.constant(1 : i32) : i32
  %mabs = llvm.mlir.constant(0x7FFFFFFF : i32) : i32
  %finf = llvm.mlir.constant(0x7F800000 : i32) : i32
  %half = llvm.mlir.constant(0x7FFF : i32) : i32
  %quiet = llvm.mlir.constant(0x40 : i32) : i32
  %a = llvm.and %bits, %mabs : i32
  %top = llvm.lshr %bits, %c16 : i32
  %odd = llvm.and %top, %c1 : i32
  %r0 = llvm.add %bits, %half : i32
  %r1 = llvm.add %r0, %odd : i32
  %number = llvm.lshr %r1, %c16 : i32
  %nan = llvm.or %top, %quiet : i32
  %isnan = llvm.icmp "ugt" %a, %finf : i32
  %v = llvm.select %isnan, %nan, %number : i1, i32
  %v16 = llvm.trunc %v : i32 to i16
  %res = llvm.bitcast %v16 : i16 to bf16
  llvm.return %res : bf16
}
llvm.func internal @rc_round_to_odd(%d: f64) -> f32 {
  %f = llvm.fptrunc %d : f64 to f32
  %back = llvm.fpext %f : f32 to f64
  %inexact = llvm.fcmp "one" %back, %d : f64
  %bits = llvm.bitcast %f : f32 to i32
  %c1 = llvm.mlir.constant(1 : i32) : i32
  %zero = llvm.mlir.constant(0 : i32) : i32
  %low = llvm.and %bits, %c1 : i32
  %even = llvm.icmp "eq" %low, %zero : i32
  %move = llvm.and %inexact, %even : i1
  %mabs = llvm.mlir.constant(0x7FFFFFFFFFFFFFFF : i64) : i64
  %db = llvm.bitcast %d : f64 to i64
  %bb = llvm.bitcast %back : f64 to i64
  %da = llvm.and %db, %mabs : i64
  %ba = llvm.and %bb, %mabs : i64
  %above = llvm.icmp "ugt" %ba, %da : i64
  %down = llvm.sub %bits, %c1 : i32
  %up = llvm.or %bits, %c1 : i32
  %odd = llvm.select %above, %down, %up : i1, i32
  %v = llvm.select %move, %odd, %bits : i1, i32
  %res = llvm.bitcast %v : i32 to f32
  llvm.return %res : f32
}
llvm.func @__truncdfhf2(%d: f64) -> f16 {
  %f = llvm.call @rc_round_to_odd(%d) : (f64) -> f32
  %r = llvm.call @__truncsfhf2(%f) : (f32) -> f16
  llvm.return %r : f16
}
llvm.func @__truncdfbf2(%d: f64) -> bf16 {
  %f = llvm.call @rc_round_to_odd(%d) : (f64) -> f32
  %r = llvm.call @__truncsfbf2(%f) : (f32) -> bf16
  llvm.return %r : bf16
}
"""
