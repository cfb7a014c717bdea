// What is wrong in a text of the schedule form is said at its line: by the parser, the verifier and a pass.
// RUN: rc-opt %s --split-input-file --verify-diagnostics -p vdevice-validate

schedule 1
device d with 1 eus
program p on d arena 64 constants 0 {
  temp t: 8xf32 at 0
  eu 0 {
    // expected-error@+1 {{'u' is no buffer of this program; declare the buffer}}
    run r: k[0](u) -> t
  }
}
kernel k() attributes {} {
}

// -----

schedule 1
device d with 1 eus
program p on d arena 16 constants 0 {
  // expected-error@+1 {{'vdevice.buffer' op ends at byte 32, past the 16 bytes of the program's 'arena'}}
  temp t: 8xf32 at 0
  eu 0 {}
}

// -----

schedule 1
// expected-error@+1 {{expected 'constants', not '{'; write program NAME on DEVICE arena N constants N { ... }}}
program p on d arena 16 {}

// -----

schedule 1
func.func @f() {
  retrun // expected-error {{custom op 'retrun' is unknown}}
}

// -----

schedule 1 in order
// expected-error@+1 {{expected an item, not 'return'; write main, device, program, kernel, module or MLIR}}
return

// -----

schedule 1
// expected-error@+1 {{EU 0 waits at place 0 until event a was signalled 2 times, but it is signalled only 1 times}}
main() -> () {
  launch p
}
device d with 1 eus
program p on d arena 0 constants 0 {
  event a
  eu 0 {
    wait a >= 2
    signal a
  }
}
