// Expectations that do not hold; read by rc-opt-verify-diagnostics.mlir.

func.func @f() { return }  // expected-error {{never said}}

// -----

// The severity counts.
nope  // expected-warning {{custom op 'nope' is unknown}}

// -----

nope
