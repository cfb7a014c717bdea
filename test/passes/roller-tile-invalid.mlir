// RUN: not rc-opt %s -p 'roller-tile{device=abacus}' 2>&1 | filecheck %s
// RUN: not rc-opt %s -p 'roller-tile{policy=best}' 2>&1 | filecheck %s --check-prefix=POLICY

// CHECK: unknown target 'abacus'
// POLICY: option 'policy' cannot be 'best'; choices: roller, osdi22
func.func @empty() { return }
