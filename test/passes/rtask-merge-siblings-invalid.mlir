// RUN: not rc-opt %s -p 'rtask-merge-siblings{device=abacus}' 2>&1 | filecheck %s

// CHECK: unknown target 'abacus'
func.func @empty() { return }
