// RUN: not rc-opt %s -p 'rtask-batch-products{device=abacus}' 2>&1 | filecheck %s

// CHECK: unknown target 'abacus'
func.func @empty() { return }
