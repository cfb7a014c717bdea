// RUN: not rc-opt %s -p roller-tile 2>&1 | filecheck %s
// RUN: not rc-opt %s -p 'roller-tile{policy=best}' 2>&1 | filecheck %s --check-prefix=POLICY

// CHECK: roller-tile: the module does not say which device it is for
// POLICY: option 'policy' cannot be 'best'; choices: roller, osdi22
func.func @empty() { return }
